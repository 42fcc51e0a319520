"""Cordwood's side of the benchmark of stores."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import torch

import cordwood as cw
from benchmarks.data.samples import Batch, Epoch, Samples, random_batches
from cordwood.codecs import Goal

THREADS = 2


@dataclass(frozen=True)
class Ours:
    """A store of one goal, in a folder as a rival has it."""

    goal: Goal
    takes_all: ClassVar[bool] = True

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

    def epochs(self, samples: Samples, folder: Path, batch: int) -> list[Epoch]:
        """`ds[[...]]`, one random batch after the other."""
        batches = random_batches(len(samples), batch)
        start = partial(our_batches, self.open(folder), batches, samples.field)
        return [Epoch(self.name, start, len(batches) * batch)]


def our_batches(dataset: cw.Dataset, batches: Sequence[list[int]], field: str) -> Iterator[Batch]:
    for numbers in batches:
        rows: torch.Tensor = dataset[numbers][field]
        yield Batch(rows, numbers)
