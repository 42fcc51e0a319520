"""Cordwood's side of the benchmark of loaders: a store, fed by `cw.Loader`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cordwood as cw
from benchmarks.data.photographs import MEAN, STD
from benchmarks.data.samples import Batch, Epoch, Samples
from benchmarks.harness.timing import MismatchError
from benchmarks.store.ours import Ours

NORMALIZE: dict[str, Any] = {"normalize": {"image": (MEAN, STD)}}


def as_bytes(samples: Samples) -> Samples:
    """Photographs as they are before they are normalised: uint8, channels first."""
    if samples.pixels is None:
        raise MismatchError(f"{samples.title} were not made of pixels")
    planes = np.ascontiguousarray(samples.pixels.transpose(0, 3, 1, 2))
    return replace(samples, title="photographs, uint8", rows=torch.from_numpy(planes))


@dataclass(frozen=True)
class Fed(Ours):
    """A store of one goal, and how its Loader is told to feed."""

    stored: str = ""  # "uint8": photographs are stored as their pixels
    options: Mapping[str, Any] = field(default_factory=dict)
    least: int = 1  # samples of an epoch: all of them so many times that it is not over before it has begun

    @property
    def name(self) -> str:
        words = ["ours", self.goal, *([f"{self.stored} stored"] if self.stored else [])]
        for option, value in self.options.items():
            words.append(f"{option}={value}" if type(value) in (int, str) else option)
        return ", ".join(words)

    def pack(self, samples: Samples, folder: Path) -> None:
        super().pack(as_bytes(samples) if self.stored == "uint8" else samples, folder)

    def epochs(self, samples: Samples, folder: Path, batch: int) -> list[Epoch]:
        """Shuffled, with as many threads and batches ahead as the Loader finds best."""
        times = -(-self.least // len(samples))
        loader = cw.Loader(
            cw.open(self.place(folder)),
            batch_size=batch,
            shuffle=True,
            sampler=None if times == 1 else np.tile(np.arange(len(samples)), times),
            **self.options,
        )
        return [Epoch(self.name, partial(loaded, loader, samples), len(samples) * times)]


def loaded(loader: Any, samples: Samples) -> Iterator[Batch]:
    for batch in loader:
        yield Batch(batch[samples.field], batch["label"] if samples.labelled else None)
