"""Cordwood's side of the benchmark of stores, and the turns that it takes with its rivals."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

import cordwood as cw
from benchmarks.harness import Contender, interleave
from benchmarks.outcome import Settings
from benchmarks.store_data import Batch, Epoch, Samples, random_batches
from benchmarks.store_rivals import Rival

THREADS = 2
MOST_ROUNDS = 7  # a turn is a whole epoch


@dataclass(frozen=True)
class Ours:
    """A store of one goal, in a folder as a rival has it."""

    goal: str

    @property
    def name(self) -> str:
        return f"ours, {self.goal}"

    def pack(self, samples: Samples, folder: Path) -> None:
        with cw.Writer(self.place(folder), self.goal, threads=THREADS) as writer:
            for number in range(len(samples)):
                writer.append(samples[number])

    def place(self, folder: Path) -> Path:
        return folder / "samples.cordwood"

    def open(self, folder: Path) -> cw.Dataset:
        return cw.open(self.place(folder), threads=THREADS)

    def epoch(self, samples: Samples, folder: Path, batch: int) -> Epoch:
        """`ds[[...]]`, one random batch after the other."""
        batches = random_batches(len(samples), batch)
        start = partial(our_batches, self.open(folder), batches, samples.field)
        return Epoch(self.name, start, len(batches) * batch)


def our_batches(dataset: cw.Dataset, batches: Sequence[list[int]], field: str) -> Iterator[Batch]:
    for numbers in batches:
        rows: torch.Tensor = dataset[numbers][field]
        yield Batch(rows, numbers)


def packed(contender: Ours | Rival, samples: Samples, folder: Path) -> Path:
    """The folder below `folder` into which the contender has packed the samples."""
    place = folder / contender.name.replace(" ", "-").replace(",", "").replace(".", "")
    place.mkdir()
    contender.pack(samples, place)
    return place


def take_turns(settings: Settings, epochs: Sequence[Epoch]) -> dict[str, list[float]]:
    """Seconds a sample for every way to read, round by round."""
    contenders = [Contender(epoch.name, epoch.run, epoch.count) for epoch in epochs]
    return interleave(contenders, min(settings.rounds, MOST_ROUNDS), least_seconds=settings.least_seconds)


def best(times: Mapping[str, list[float]], names: Sequence[str]) -> list[float]:
    """The fastest of a rival's ways in each round."""
    return [min(each) for each in zip(*(times[name] for name in names), strict=True)]
