"""Training a small convnet on one core, and how long each step waits for its batch.

run = train(batches, warm=8)
run.waiting, run.rate
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, RandomSampler

from benchmarks.data.photographs import normalise
from benchmarks.data.samples import Batch, Epoch, Samples
from benchmarks.feed.turns import cpu_seconds
from benchmarks.harness.packages import need

CLASSES = 10


@dataclass(frozen=True)
class Run:
    """After the first steps: samples a second, the share of the time that steps waited, what a step took."""

    rate: float
    waiting: float
    longest_wait: float
    step: float
    cpu: float


def train(batches: Iterator[Batch], net: nn.Module, warm: int) -> Run:
    """One epoch. What the first steps wait for is that the pipeline fills, and is not counted."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    waits: list[float] = []
    steps: list[float] = []
    samples = number = 0
    cpu = cpu_seconds()
    while True:
        begin = time.perf_counter()
        batch = next(batches, None)
        there = time.perf_counter()
        if batch is None:
            break
        step(net, optimizer, batch)
        number += 1
        if number <= warm:
            cpu = cpu_seconds()
            continue
        waits.append(there - begin)
        steps.append(time.perf_counter() - there)
        samples += len(batch.rows)
    seconds = sum(waits) + sum(steps)
    return Run(
        samples / seconds, sum(waits) / seconds, max(waits), sum(steps) / len(steps), (cpu_seconds() - cpu) / samples
    )


def step(net: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch) -> None:
    optimizer.zero_grad()
    labels = torch.as_tensor(batch.numbers) % CLASSES
    functional.cross_entropy(net(batch.rows), labels).backward()
    optimizer.step()


def small_net() -> nn.Module:
    """As small as nets for images of this size get: decoding must keep up with a step that is soon done."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 7, stride=4, padding=3), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES),
    )  # fmt: skip


class ImageFolder(Dataset[tuple[torch.Tensor, int]]):
    """A file for each image, decoded by Pillow whenever it is asked for; the prepared pixels, normalised by torch."""

    def __init__(self, folder: Path, count: int, prepared: Callable[[Any], Any]) -> None:
        self.folder, self.count, self.prepared = folder, count, prepared

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        with need("PIL.Image").open(self.folder / str(number)) as picture:
            pixels = self.prepared(picture.convert("RGB"))
        return torch.from_numpy(normalise(pixels)), number


def folder_epoch(name: str, images: ImageFolder, batch: int, workers: int, least: int) -> Epoch:
    """The stock DataLoader, shuffled, over so many samples."""
    sampler = RandomSampler(images, num_samples=least)
    loader = DataLoader(images, batch, sampler=sampler, num_workers=workers, persistent_workers=workers > 0)

    def start() -> Iterator[Batch]:
        for rows, numbers in loader:
            yield Batch(rows, numbers)

    return Epoch(name, start, least)


def same_batch(samples: Samples, batch: int, least: int) -> Epoch:
    """Nothing to load: one batch in memory, again and again."""
    one = Batch(samples.rows[:batch].clone(), list(range(min(batch, len(samples)))))
    times = -(-least // len(one.rows))
    return Epoch("one batch in memory, again and again", lambda: iter([one] * times), times * len(one.rows))
