"""One small tensor a file, read again and again: the .pt itself, the zipped .pt in every way to read it, and ours."""

import io
import os
import shutil
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cordwood as cw
from benchmarks.data.photographs import load_photographs
from benchmarks.data.tensors import forgotten, read_from_disk, require_same, scratch
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.packages import need
from benchmarks.harness.timing import Contender, Spread, UnavailableError, interleave, ratio
from benchmarks.tensors.seeks import Steps, watch

TITLE = "Small files"
KEYS = ("small-file-direct", "small-file-zipfile", "small-file-shutil")
SIDE = 92  # 3x92x92 floats are 101 kB
MOST_ROUNDS = 7  # a pass is a thousand reads
DIRECT, SHUTIL, OPENED, OURS = "read .pt directly", "shutil unpack", "zipfile.open", "cw.load of .cord"


@dataclass(frozen=True)
class Way:
    """Which of a sample's files is read, and how."""

    name: str
    suffix: str
    load: Callable[[Path], Any]


def ways(folder: Path) -> list[Way]:
    """All of them; `folder` is for what must be unpacked first."""
    torch = need("torch")
    return [
        Way(DIRECT, ".pt", torch.load),
        Way(SHUTIL, ".pt.zip", partial(unpacked, folder)),
        Way(OPENED, ".pt.zip", opened),
        Way("zipfile.read -> BytesIO", ".pt.zip", inflated),
        Way("cw.load of the same .pt.zip", ".pt.zip", cw.load),
        Way("cw.load of the same .pt", ".pt", cw.load),
        Way("torch.load of our .pt", ".ours.pt", torch.load),
        Way(OURS, ".cord", cw.load),
    ]


def measure(settings: Settings) -> Outcome:
    """One table with three loops: one file again and again, as many files, and those from the disk."""
    tensors = small_photographs(settings)
    with scratch(settings) as folder:
        places = write_all(folder, tensors, settings.reads)
        chosen = ways(folder / "unpacked")
        for way in chosen:
            for place, tensor in zip(places, tensors, strict=False):
                require_same(way.load(place.with_suffix(way.suffix)), tensor, f"{way.name}, {place.name}")
        rounds = min(settings.rounds, MOST_ROUNDS)
        one = timed(chosen, places[:1] * settings.reads, rounds)
        many = timed(chosen, places, rounds)
        cold, about_cold = timed_cold(chosen, places, rounds)
        table = Table(
            f"A 3x{SIDE}x{SIDE} float32 photograph a file: seconds for {settings.reads:,} reads",
            [("way", "text"), ("bytes a file", "bytes"), ("one file", "seconds"), ("of direct", "ratio"),
             ("as many files", "seconds"), ("of direct", "ratio"), ("the same, cold", "seconds"),
             ("of direct", "ratio")],
        )  # fmt: skip
        for way in chosen:
            size = sum(place.with_suffix(way.suffix).stat().st_size for place in places) / len(places)
            cells = [
                cell
                for times in (one, many, cold)
                for cell in (
                    (Spread.of(times[way.name]), ratio(times[way.name], times[DIRECT])) if times else (None,) * 2
                )
            ]
            table.add(way.name, size, *cells)
        table.notes += [answer(watch(places[0].with_suffix(".pt.zip")))]
    table.notes += [
        f"{len(tensors)} photographs, as ToTensor gives them; {len(places):,} files of each kind. Goals are judged by "
        "the loop over one file.",
        about_cold,
    ]
    measured = {
        "small-file-direct": ratio(one[OURS], one[DIRECT]),
        "small-file-zipfile": ratio(one[OPENED], one[OURS]),
        "small-file-shutil": ratio(one[SHUTIL], one[OURS]),
    }
    return Outcome([table], measured)


def small_photographs(settings: Settings) -> list[Any]:
    """Photographs as tensors with values from 0 to 1, 92 pixels a side."""
    torch, image = need("torch"), need("PIL.Image")
    tensors = []
    for pixels in load_photographs(settings.cache, settings.photographs).pixels:
        small = image.fromarray(pixels).resize((SIDE, SIDE), image.Resampling.BILINEAR)
        data = torch.frombuffer(bytearray(small.tobytes()), dtype=torch.uint8)
        tensors.append(data.view(SIDE, SIDE, 3).permute(2, 0, 1).contiguous().div(255))
    return tensors


def write_all(folder: Path, tensors: Sequence[Any], count: int) -> list[Path]:
    """So many samples, each in every kind of file; returns their paths without suffixes."""
    torch = need("torch")
    places = []
    for number in range(count):
        tensor = tensors[number % len(tensors)]
        place = folder / f"{number:04d}"
        pt = place.with_suffix(".pt")
        torch.save(tensor, pt)
        shutil.make_archive(str(pt), "zip", folder, pt.name)
        cw.save(tensor, place.with_suffix(".ours.pt"))
        cw.save(tensor, place.with_suffix(".cord"))
        places.append(place)
    (folder / "unpacked").mkdir()
    os.sync()
    return places


def timed(chosen: Sequence[Way], places: Sequence[Path], rounds: int) -> dict[str, list[float]]:
    """Seconds of one loop over these places, from the page cache."""
    loops = [Contender(way.name, partial(loop, way.load, paths(way, places))) for way in chosen]
    return interleave(loops, rounds, least_seconds=0)


def timed_cold(chosen: Sequence[Way], places: Sequence[Path], rounds: int) -> tuple[dict[str, list[float]], str]:
    """The same from the disk, and how much the disk really delivered; nothing where the system does not let us."""
    loops, taken, expected = [], 0, 0

    def run(way: Way, files: list[Path]) -> None:
        nonlocal taken, expected
        before = read_from_disk()
        loop(way.load, files)
        taken += read_from_disk() - before
        expected += sum(file.stat().st_size for file in files)

    for way in chosen:
        files = paths(way, places)
        loops.append(Contender(way.name, partial(run, way, files), before=partial(forgotten, files)))
    try:
        times = interleave(loops, rounds, least_seconds=0)
    except UnavailableError as reason:
        return {}, f"Not measured cold: {reason}"
    return times, f"In a cold pass {taken / expected:.0%} of the files' bytes came from the disk."


def paths(way: Way, places: Sequence[Path]) -> list[Path]:
    return [place.with_suffix(way.suffix) for place in places]


def loop(load: Callable[[Path], Any], files: Sequence[Path]) -> None:
    for file in files:
        load(file)


def unpacked(folder: Path, path: Path) -> Any:
    """Through a temporary file."""
    shutil.unpack_archive(path, folder)
    return need("torch").load(folder / path.stem)


def opened(path: Path) -> Any:
    """Without one: torch.load reads what `open` inflates."""
    with zipfile.ZipFile(path) as archive, archive.open(path.stem) as file:
        return need("torch").load(file)


def inflated(path: Path) -> Any:
    """Inflated once, whole, and then loaded."""
    with zipfile.ZipFile(path) as archive:
        return need("torch").load(io.BytesIO(archive.read(path.stem)))


def answer(steps: Steps) -> str:
    """Why is reading in memory slow?"""
    return (
        f"Why is zipfile.open slower than a temporary file? torch.load seeks {steps.seeks} times in the stream, "
        f"{steps.backward} times backwards, and zipfile can only go back by inflating again from the start: it reads "
        f"{steps.taken:,} compressed bytes of a member that has {steps.compressed:,}, so everything is inflated "
        f"{steps.inflated_times:.1f} times."
    )
