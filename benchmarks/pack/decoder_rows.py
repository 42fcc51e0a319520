"""Decoders: how fast one thread gets the pixels of an image from JPEG, BMP and stores, and what these take."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

import cordwood as cw
from benchmarks.data import rivals
from benchmarks.data.photographs import Pixels
from benchmarks.data.samples import nbytes
from benchmarks.data.tensors import scratch
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.packages import need
from benchmarks.harness.timing import Contender, MismatchError, Spread, interleave, ratio
from benchmarks.pack import decoders
from benchmarks.pack.data import PhotographFolder, counts
from benchmarks.pack.decoders import Way, installed
from cordwood.codecs import Goal

TITLE = "Decoders"
KEYS: tuple[str, ...] = ()  # for information: they are why a store is worth its bytes
GOALS: tuple[Goal, ...] = ("raw", "fast", "balanced", "small")
PILLOW = "JPEG, Pillow"
HALF = ", half size"


@dataclass(frozen=True)
class Reading:
    """One pass over all images in one way, and the bytes that an image takes there."""

    name: str
    read: Callable[[int], Pixels]
    size: float
    count: int

    def run(self) -> None:
        for number in range(self.count):
            self.read(number)


def measure(settings: Settings) -> Outcome:
    """One table."""
    with scratch(settings) as folder, rivals.threads(1):
        files = counts(settings).decoded
        photographs = PhotographFolder.made(settings, folder / "photographs", files, files)
        paths = [entry.path for entry in photographs.entries]
        ways, missing = installed(decoders.JPEG_WAYS)
        pixels = [ways[0].read(path) for path in paths]
        differences = {way.name: largest_difference(way, paths, pixels) for way in ways}
        size = photographs.mean_bytes()
        full, half = jpeg_readings(ways, paths, size)
        exact = [*bmp_readings(pixels, folder / "bmp"), *store_readings(pixels, folder)]
        for reading in exact:
            require_same(reading, pixels)
        everyone = [*full, *half, *exact]
        contenders = [Contender(one.name, one.run, one.count) for one in everyone]
        times = interleave(contenders, min(settings.rounds, 9), least_seconds=settings.least_seconds)
    return Outcome([decoder_table(everyone, times, differences, len(paths), [*photographs.missing, *missing])])


def decoder_table(
    everyone: Sequence[Reading],
    times: dict[str, list[float]],
    differences: dict[str, int],
    count: int,
    missing: Sequence[str],
) -> Table:
    table = Table(
        f"One image from its file to its pixels, one thread, {count} photographs of about 500x375",
        [("way", "text"), ("bytes an image", "bytes"), ("images a second", "bytes"), ("speed, of Pillow's", "ratio"),
         ("half size, images a second", "bytes"), ("largest difference to Pillow's", "text")],
    )  # fmt: skip
    for one in everyone:
        if one.name.endswith(HALF):
            continue
        half = times.get(one.name + HALF)
        table.add(
            one.name, one.size, per_second(times[one.name]), ratio(times[PILLOW], times[one.name]),
            per_second(half) if half else None, differences.get(one.name, 0),
        )  # fmt: skip
    table.notes += [
        "uint8 RGB, from files in the page cache. Decoders give rows of pixels; cordwood's gives planes as torch has "
        "them, after a look at the header, and so do the stores, which verify a checksum of every image.",
        "BMP files and stores hold the pixels that Pillow decoded, and give them back bit for bit.",
        *(f"Not measured: {line}" for line in missing),
    ]
    return table


def per_second(times: Sequence[float]) -> Spread:
    return Spread.of([1 / seconds for seconds in times])


def jpeg_readings(ways: Sequence[Way], paths: Sequence[str], size: float) -> tuple[list[Reading], list[Reading]]:
    """All decoders, and those that can at half size."""
    full, half = [], []
    for way in ways:
        full.append(Reading(way.name, partial(read_path, way.read, paths), size, len(paths)))
        if way.half is not None:
            half.append(Reading(way.name + HALF, partial(read_path, way.half, paths), size, len(paths)))
            require_half(way, paths[0])
    return full, half


def read_path(read: decoders.Read, paths: Sequence[str], number: int) -> Pixels:
    return read(paths[number])


def require_half(way: Way, path: str) -> None:
    """Half as many rows and columns, rounded up or down."""
    if way.half is None:
        return
    whole, half = way.read(path).shape, way.half(path).shape
    if any(abs(2 * small - large) > 1 for small, large in zip(half[:2], whole[:2], strict=True)):
        raise MismatchError(f"{way.name} decoded {half} where half of {whole} was wanted")


def bmp_readings(pixels: Sequence[Pixels], folder: Path) -> list[Reading]:
    """The pixels in uncompressed files."""
    image = need("PIL.Image")
    folder.mkdir()
    paths = [str(folder / f"{number}.bmp") for number in range(len(pixels))]
    for path, one in zip(paths, pixels, strict=True):
        image.fromarray(one).save(path)
    size = nbytes(folder) / len(paths)
    ways, _ = installed(decoders.BMP_WAYS)
    return [Reading(way.name, partial(read_path, way.read, paths), size, len(paths)) for way in ways]


def store_readings(pixels: Sequence[Pixels], folder: Path) -> list[Reading]:
    """The pixels in a store of each goal, read one by one."""
    readings = []
    for goal in GOALS:
        store = folder / f"{goal}.cordwood"
        with cw.Writer(store, goal) as writer:
            for one in pixels:
                writer.append({"image": torch.from_numpy(one.transpose(2, 0, 1).copy())})
        images = cw.open(store, threads=1).select("image")
        read = partial(read_stored, images)
        readings.append(Reading(f"a store, {goal}", read, nbytes(store) / len(pixels), len(pixels)))
    return readings


def read_stored(images: cw.Dataset, number: int) -> Pixels:
    (image,) = images[number]
    planes: Pixels = image.numpy()
    return planes.transpose(1, 2, 0)


def require_same(reading: Reading, pixels: Sequence[Pixels]) -> None:
    """Bit for bit what went in."""
    for number, one in enumerate(pixels):
        if not np.array_equal(reading.read(number), one):
            raise MismatchError(f"{reading.name} does not give image {number} back bit for bit")


def largest_difference(way: Way, paths: Sequence[str], pixels: Sequence[Pixels]) -> int:
    """Of any byte of any image."""
    worst = 0
    for path, one in zip(paths, pixels, strict=True):
        found = way.read(path)
        if found.shape != one.shape:
            raise MismatchError(f"{way.name} decoded {found.shape} of {path}, Pillow {one.shape}")
        worst = max(worst, int(np.abs(found.astype(np.int16) - one).max()))
    return worst
