"""The demo from end to end: make images, pack them, compare, train, trim, ask the doctor, and make a page of it."""

import errno
import logging
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from cordwood.demo.acts.photographs import make_image_folder, require_demo_extra
from cordwood.demo.page.page import PAGE, format_page
from cordwood.demo.report import Artifact, Compared, DemoReport, Packing, SampleRow
from cordwood.errors import CordwoodError, StorageError, UsageError

BATCH = 16
STORE = "photographs.cordwood"
IN_BATCHES = ("images", "torch-clones", "torch-zipped", "cw-save-cord")  # what the store is compared with
MARKER = "made-by-cordwood-demo.txt"

log = logging.getLogger("cordwood.demo")

Progress = Callable[[str, int, int], None]


def run_demo(
    folder: Path,
    *,
    images: int = 160,
    progress: Progress = lambda step, done, total: None,
    show: Callable[[str], None] = lambda act: None,
    bar: bool = False,
) -> DemoReport:
    """Do all acts with ``images`` images below ``folder``, and report sizes, times and what is lost.

    ``show`` is given each act as text as soon as it is over; with ``bar``, packing shows its own bar on stderr.
    """
    if images < BATCH:
        raise UsageError(f"the demo was asked for {images} images; it needs at least {BATCH}, one batch")
    require_demo_extra()
    try:
        claim_folder(folder)
        return _run(folder, images, progress, show, bar)
    except CordwoodError:
        raise
    except OSError as error:
        cure = "free some space there, or choose" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "choose"
        raise StorageError(
            f"the demo could not write below {folder}: {error}; {cure} another place by --output"
        ) from error


def claim_folder(folder: Path) -> None:
    """Make the folder, or empty the one an earlier demo made; a folder with anything else in it is left alone."""
    marker = folder / MARKER
    if marker.is_file():
        shutil.rmtree(folder)
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists and no demo made it; name another place with --output, or delete it")
    folder.mkdir(parents=True, exist_ok=True)
    marker.write_text("`cordwood demo` made this folder and empties it when it runs again.\n", encoding="utf-8")


def _run(folder: Path, images: int, progress: Progress, show: Callable[[str], None], bar: bool) -> DemoReport:
    # Deferred: these import packages of the demo extra, whose absence was to be told first.
    from cordwood.demo.acts.doctor import close_the_loop
    from cordwood.demo.acts.kept import one_thread
    from cordwood.demo.acts.pack import pack_folder
    from cordwood.demo.acts.photographs import describe
    from cordwood.demo.acts.training import train_in_every_way
    from cordwood.demo.acts.views import save_views
    from cordwood.demo.terminal import text
    from cordwood.doctor import describe_environment

    start = perf_counter()

    def tell(act: str) -> None:
        show(act)
        log.info("after %.1f s: %s", perf_counter() - start, act.partition("\n")[0])

    environment = describe_environment()
    show(text.opening(folder))
    sources = make_image_folder(folder / "images", images, progress=progress)
    pictures = describe(folder / "images", sources)
    tell(text.images_text(pictures))
    with one_thread():
        packing = pack_folder(folder / "images", folder / STORE, progress, bar=bar)
        tell(text.packing_text(packing))
        compared = compare(sources, packing, folder / "kept", progress)
        tell(text.compared_text(compared))
        training = replace(
            train_in_every_way(sources, folder / "kept" / "torch-clones", folder / STORE, progress),
            packed_seconds=packing.packed.seconds,
            starting_seconds=packing.packed.starting_seconds,
        )
        keep_the_first(folder / "kept")
    tell(text.training_text(training))
    views = save_views(folder / "views", progress)
    tell(text.views_text(views))
    doctored = close_the_loop(folder / "doctor", progress)
    tell(text.doctored_text(doctored))
    seconds = perf_counter() - start
    made, left = made_in(folder), folder_size(folder)
    report = DemoReport(
        folder, pictures, packing, compared, training, views, doctored, made, environment, seconds, left
    )
    (folder / PAGE).write_text(format_page(report), encoding="utf-8")
    show(text.closing(report))
    return report


def compare(sources: list[Path], packing: Packing, folder: Path, progress: Progress) -> Compared:
    """Keep the images in every way that people know, read them back, and compare that with the store."""
    from cordwood.demo.acts.kept import keep, kept_files, time_reading
    from cordwood.demo.acts.pack import kept_store, time_batches
    from cordwood.demo.acts.prepare import prepare_batch
    from cordwood.demo.acts.ways import BASELINE, all_ways, reprepare

    samples = []
    for start in range(0, len(sources), BATCH):
        samples += prepare_batch(sources[start : start + BATCH])
        progress("preparing tensors", len(samples), len(sources))
    kept = {"images": kept_files("the JPEG files, prepared again", samples, sources, reprepare)}
    folder.mkdir()
    for way in all_ways(samples):
        chosen = samples[:BATCH] if way.only_one_batch else samples
        kept[way.name] = keep(way, chosen, folder / way.name, progress)
    kept[STORE] = kept_store(samples, packing.packed)

    seconds = time_reading(list(kept.values()), progress)
    rows = []
    for one in kept.values():
        rows.append(
            SampleRow(one.title, one.bytes_a_sample(), seconds[one.title], one.is_exact(), one.note, one.is_ours)
        )
        progress("comparing bits", len(rows), len(kept))
    batches = time_batches([kept[name] for name in IN_BATCHES], kept[STORE], Path(packing.packed.path), progress)
    return Compared(rows, batches, BASELINE, len(samples), tuple(samples[0].tensor.shape))


def keep_the_first(folder: Path) -> None:
    """Leave one sample of each way, with what it shares with the others: all of them would be hundreds of megabytes."""
    for way in folder.iterdir():
        for file in sorted(way.glob("[0-9]*"))[1:]:
            file.unlink()


def folder_size(folder: Path) -> int:
    """The bytes of all files below it."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def made_in(folder: Path) -> list[Artifact]:
    """What the acts leave behind."""
    told = {
        PAGE: "this demo as a page with pictures; open it in a browser",
        "images": "the image folder",
        STORE: "the store that it was packed into",
        "kept": "the first of its tensors in every other way",
        "views": "the views of a large tensor, in every way",
        "doctor/train.py": "the script after the advice (before: train-as-it-was.py)",
        "doctor/before.html": "the doctor's report on it before",
        "doctor/after.html": "the doctor's report on it after",
    }
    # No advice, nothing after it. The page is written last, of all the rest.
    return [Artifact(folder / name, what) for name, what in told.items() if name == PAGE or (folder / name).exists()]
