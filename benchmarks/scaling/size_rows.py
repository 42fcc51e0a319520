"""Samples from 1 KiB to 10 MiB, in shuffled epochs: from the page cache, and from the disk."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks.data.photographs import Pixels, load_photographs
from benchmarks.data.samples import SEED, Samples
from benchmarks.data.tensors import scratch
from benchmarks.feed.cold_rows import MAPPED, let_go
from benchmarks.feed.ours import Fed
from benchmarks.harness.outcome import Chart, Outcome, Settings, Table
from benchmarks.harness.timing import Spread
from benchmarks.scaling.curves import Curves, cores, fastest_ways, rates
from benchmarks.scaling.limits import DISK, MEMORY, disk_read, memory_copy
from benchmarks.store.contest import Contest, Packer
from benchmarks.store.rivals.entrants import FOR_CURVES, LITDATA, NUMPY, Rival, installed
from benchmarks.store.rivals.ffcv import FfcvDefault
from cordwood.codecs import Goal

TITLE = "Samples of all sizes"
KEYS: tuple[str, ...] = ()
SIZES = (1 << 10, 10 << 10, 100 << 10, 1 << 20, 10 << 20)
NAMES = ("1 KiB", "10 KiB", "100 KiB", "1 MiB", "10 MiB")
GOALS: tuple[Goal, ...] = ("raw", "balanced")
BATCH_BYTES, LARGEST_BATCH = 32 << 20, 256


@dataclass(frozen=True)
class Amount:
    """How much there is of each size: so many bytes, within a number of samples; and for the slow."""

    total: int
    most: int
    few: int
    least: int  # bytes that a pass over the page cache reads, again and again the same


FULL = Amount(64 << 20, 32768, 4096, 256 << 20)
QUICK = Amount(20 << 20, 512, 128, 1)


def measure(settings: Settings) -> Outcome:
    """Two tables of the same files."""
    amount = QUICK if settings.quick else FULL
    sources = load_photographs(settings.cache, settings.photographs).pixels
    warm, cold = Curves(), Curves()
    rivals, missing = installed(FOR_CURVES)
    for place, size in enumerate(SIZES):
        samples = pictures(sources, size, max(2, min(amount.total // size, amount.most)))
        with scratch(settings) as folder:
            from_cache, from_disk = measure_size(settings, samples, amount, rivals, folder)
        warm.add(place, from_cache)
        cold.add(place, from_disk)
    notes = [
        f"Parts of photographs as uint8, and mosaics of them where they are larger than one: {amount.total >> 20} MiB, "
        f"or {amount.most:,} samples; LitData, WebDataset and the .pt files: {amount.few:,} at most. "
        f"Batches of {LARGEST_BATCH}, or of as many as {BATCH_BYTES >> 20} MiB have. MB are those of the pixels.",
        *(f"Not measured: {line}" for line in missing.values()),
    ]
    return Outcome([table_of(warm, "warm", MEMORY, notes), table_of(cold, "cold", DISK, notes)])


def table_of(curves: Curves, word: str, limit: str, notes: list[str]) -> Table:
    """One of the two."""
    where = "from the page cache" if word == "warm" else "from the disk, the page cache dropped"
    chart = Chart(
        f"sizes-{word}", "size of a sample", "MB of pixels a second", [float(size) for size in SIZES], [limit]
    )
    table = curves.table(f"Samples of all sizes, {where}: MB a second", chart, NAMES, "rate")
    table.notes += notes
    if word == "cold":
        table.notes.append(
            "What is stored in fewer bytes can pass the line of the disk: the disk has fewer bytes to deliver. "
            "WebDataset reads its files in order; everybody else reads samples in random order. LitData is not "
            "here: its loaders keep chunks in memory from one epoch to the next, so they cannot be dropped."
        )
    return table


def measure_size(
    settings: Settings, samples: Samples, amount: Amount, rivals: list[Rival], folder: Path
) -> tuple[dict[str, Spread], dict[str, Spread]]:
    """One size: bytes a second warm, then cold, by the ways that were fastest."""
    nbytes = samples.rows[0].nbytes
    batch = max(1, min(LARGEST_BATCH, BATCH_BYTES // nbytes, len(samples) // 2))
    least = max(1, min(amount.least // nbytes, amount.most))
    contest, mapped = Contest(folder, batch), Contest(folder / "mapped", batch)
    mapped.folder.mkdir()
    for goal in GOALS:
        contest.enter(Fed(goal, least=least), samples)
        mapped.enter(Fed(goal, options=MAPPED), samples)
    for rival in rivals:
        several: Packer = FfcvDefault(least=least) if isinstance(rival, FfcvDefault) else rival
        contest.enter(several, samples if rival.takes_all else samples.first(max(amount.few, batch)))
    contest.check(samples)
    mapped.check(samples)
    ways = fastest_ways(contest)
    warm = rates(settings, ways, [memory_copy(cores(), amount.total)], unit=nbytes)
    NUMPY.pack(samples, folder)
    once = {f"ours, {goal}": epoch for goal, epoch in zip(GOALS, mapped.epochs, strict=True)}
    places = dict(zip(contest.ways, (*mapped.places, *contest.places[len(GOALS) :]), strict=True))
    for rival in rivals:
        if isinstance(rival, FfcvDefault):  # whose epoch had every sample many times: all but the first from the cache
            once[rival.name] = rival.epochs(samples, places[rival.name], batch)[0]
    drops = {name: partial(let_go, files_below(place)) for name, place in places.items()}
    whole = folder / "rows.npy"
    disk = disk_read(whole, partial(let_go, [whole]))
    from_disk = {name: way for name, way in (ways | once).items() if name != LITDATA.name}
    return warm, rates(settings, from_disk, [disk], unit=nbytes, before=drops)


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def pictures(sources: list[Pixels], nbytes: int, count: int) -> Samples:
    """Square uint8 images of about so many bytes, channels first, cut at random places."""
    side = round((nbytes / 3) ** 0.5)
    chance = np.random.default_rng(SEED)
    rows = np.empty((count, 3, side, side), np.uint8)
    for number in range(count):
        whole = mosaic(sources, -(-side // sources[0].shape[0]), chance)
        top, left = (int(chance.integers(length - side + 1)) for length in whole.shape[:2])
        rows[number] = whole[top : top + side, left : left + side].transpose(2, 0, 1)
    return Samples("images", "image", torch.from_numpy(rows))


def mosaic(sources: list[Pixels], across: int, chance: np.random.Generator) -> Pixels:
    """Photographs side by side and below each other; of one, itself."""
    chosen = [sources[int(number)] for number in chance.integers(len(sources), size=across * across)]
    if across == 1:
        return chosen[0]
    lines = [np.concatenate(chosen[start : start + across], 1) for start in range(0, len(chosen), across)]
    return np.concatenate(lines, 0)
