"""One photograph at a time: `ds[i]` against torch.load of a .pt, both from the page cache."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.data.samples import counts, photographs, random_batches
from benchmarks.data.tensors import require_same, scratch
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.timing import Contender, Spread, interleave, ratio
from benchmarks.store.contest import packed
from benchmarks.store.ours import Ours
from benchmarks.store.rivals.entrants import FILES
from cordwood.codecs import Goal

TITLE = "Single samples of a store"
KEYS = ("store-single-raw", "store-single-balanced")
GOALS: tuple[Goal, ...] = ("small", "balanced", "fast", "raw")
LOADED = "torch.load of one .pt"


def measure(settings: Settings) -> Outcome:
    """Random samples, each read by itself."""
    samples = photographs(settings)
    numbers = random_batches(len(samples), min(counts(settings).singles, len(samples)))[0]
    with scratch(settings) as folder:
        files = packed(FILES, samples, folder)
        readers: dict[str, Callable[[int], Any]] = {LOADED: partial(loaded, files)}
        for ours in map(Ours, GOALS):
            readers[ours.name] = partial(one, ours.open(packed(ours, samples, folder)))
        for name, read in readers.items():
            for number in numbers:
                require_same(read(number), samples.rows[number], f"{name}, {number}")
        contenders = [Contender(name, partial(each, read, numbers), len(numbers)) for name, read in readers.items()]
        times = interleave(contenders, settings.rounds, least_seconds=settings.least_seconds)
    table = Table(
        "Single photographs, 3x224x224 float32, in random order, from the page cache",
        [("way", "text"), ("ms a sample", "ms"), ("time, of torch.load's", "ratio")],
    )
    for name, seconds in times.items():
        table.add(name, Spread.of(seconds), ratio(seconds, times[LOADED]))
    table.notes.append("Each sample is let go before the next is asked for.")
    return Outcome(
        [table], {f"store-single-{goal}": ratio(times[f"ours, {goal}"], times[LOADED]) for goal in ("raw", "balanced")}
    )


def loaded(folder: Path, number: int) -> Any:
    return torch.load(folder / f"{number}.pt")


def one(dataset: Any, number: int) -> Any:
    return dataset[number]["image"]


def each(read: Callable[[int], Any], numbers: Sequence[int]) -> None:
    for number in numbers:
        read(number)
