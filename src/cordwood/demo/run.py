"""The demo from end to end: save views; keep images in every way and in a store; train a net; ask the doctor."""

import shutil
from collections.abc import Callable
from pathlib import Path

from cordwood.demo.photographs import make_image_folder, require_demo_extra
from cordwood.demo.report import Report, Row
from cordwood.errors import CordwoodError, StorageError, UsageError

BATCH = 16
STORE = "photographs.cordwood"
IN_BATCHES = ("images", "torch-clones", "torch-zipped", "cw-save-cord")  # what the store is compared with
DOCTORED = "doctor"
MARKER = "made-by-cordwood-demo.txt"

Progress = Callable[[str, int, int], None]


def run_demo(folder: Path, *, images: int = 240, progress: Progress = lambda step, done, total: None) -> Report:
    """Save views, and ``images`` images, in every way below ``folder``, and report sizes, times and what is lost."""
    if images < BATCH:
        raise UsageError(f"the demo was asked for {images} images; it needs at least {BATCH}, one batch")
    require_demo_extra()
    try:
        claim_folder(folder)
        return _run(folder, images, progress)
    except CordwoodError:
        raise
    except OSError as error:
        raise StorageError(
            f"the demo could not write below {folder}: {error}; free some space there or choose another --folder"
        ) from error


def claim_folder(folder: Path) -> None:
    """Make the folder, or empty the one an earlier demo made; a folder with anything else in it is left alone."""
    marker = folder / MARKER
    if marker.is_file():
        shutil.rmtree(folder)
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists and no demo made it; name another place with --folder, or delete it")
    folder.mkdir(parents=True, exist_ok=True)
    marker.write_text("`cordwood demo` made this folder and empties it when it runs again.\n", encoding="utf-8")


def _run(folder: Path, images: int, progress: Progress) -> Report:
    # Deferred: these import packages of the demo extra, whose absence was to be told first.
    from cordwood.demo.doctored import close_the_loop
    from cordwood.demo.kept import keep, kept_files, time_reading
    from cordwood.demo.packed import command, pack_folder, time_batches
    from cordwood.demo.prepare import prepare_batch
    from cordwood.demo.training import train_in_every_way
    from cordwood.demo.views import save_views
    from cordwood.demo.ways import BASELINE, all_ways, reprepare

    views = save_views(folder / "views", progress)
    sources = make_image_folder(folder / "images", images, progress=progress)
    samples = []
    for start in range(0, images, BATCH):
        samples += prepare_batch(sources[start : start + BATCH])
        progress("preparing tensors", len(samples), images)

    kept = {"images": kept_files("the JPEG folder, prepared again", samples, sources, reprepare)}
    for way in all_ways(samples):
        chosen = samples[:BATCH] if way.only_one_batch else samples
        kept[way.name] = keep(way, chosen, folder / way.name, progress)
    kept[STORE] = pack_folder(folder / "images", samples, folder / STORE, progress)

    seconds = time_reading(list(kept.values()), progress)
    rows = []
    for one in kept.values():
        rows.append(Row(one.title, one.bytes_a_sample(), seconds[one.title], one.is_exact(), one.note))
        progress("comparing bits", len(rows), len(kept))
    files = [kept[name] for name in IN_BATCHES]
    batches = time_batches(files, kept[STORE], folder / STORE, progress)
    training = train_in_every_way(sources, folder / "torch-clones", folder / STORE, progress)
    doctored = close_the_loop(folder / DOCTORED, progress)
    folders = [folder / name for name in ("views", *kept, DOCTORED)]
    shape = tuple(samples[0].tensor.shape)
    packing = command(folder / "images", folder / STORE)
    return Report(views, rows, batches, training, doctored, BASELINE, images, shape, folders, folder / STORE, packing)
