"""What the benchmark of stores packs: prepared photographs, small images, rows of tokens; and how batches are checked.

samples = photographs(settings)
samples[3]                      # {"image": 3x224x224 float32, "label": 3}
samples.rows[[3, 1, 2]]         # the batch that every reader must give for these numbers
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.data.photographs import MEAN, STD, Pixels, load_photographs
from benchmarks.data.text import token_ids
from benchmarks.harness.outcome import Settings
from benchmarks.harness.timing import MismatchError

SIDE = 32  # of a small image: 3x32x32 bytes are 3 KiB
TOKENS = 512  # a row
SEED = 20260102
LONGEST = 65536  # samples that a pass reads of very many


@dataclass(frozen=True)
class Counts:
    """How many samples there are of each kind, and how much of a slow rival's work is done in a turn."""

    photographs: int
    images: int
    tokens: int
    files: int  # small samples that are also written as a file each
    packed: int  # photographs that are packed in a turn
    singles: int  # samples that are read one by one in a turn
    reads: int  # random samples of the watched process
    watched_photographs: int


FULL = Counts(1024, 32768, 32768, 4096, 2048, 256, 1_000_000, 65536)
QUICK = Counts(128, 2048, 2048, 512, 128, 32, 50_000, 2048)


def counts(settings: Settings) -> Counts:
    """Of a quick run or of a full one."""
    return QUICK if settings.quick else FULL


@dataclass(frozen=True)
class Samples:
    """A map-style dataset in memory: dicts of one tensor, and of a label that is the sample's number if `labelled`."""

    title: str
    field: str
    rows: torch.Tensor
    labelled: bool = True
    pixels: npt.NDArray[np.uint8] | None = None  # photographs as FFCV takes them: uint8, channels last

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> dict[str, Any]:
        if not self.labelled:
            return {self.field: self.rows[number]}
        return {self.field: self.rows[number], "label": number}

    def first(self, count: int) -> Self:
        """The first so many of them."""
        pixels = None if self.pixels is None else self.pixels[:count]
        return type(self)(self.title, self.field, self.rows[:count], self.labelled, pixels)

    @cached_property
    def number_of(self) -> dict[bytes, int]:
        """Which sample has these bytes: for readers that have an order of their own and give no labels."""
        return {row.numpy().tobytes(): number for number, row in enumerate(self.rows)}


def photographs(settings: Settings) -> Samples:
    """Normalised float32, and the pixels that they were made of, sorted by class as in a folder of classes."""
    pixels = np.stack(load_photographs(settings.cache, counts(settings).photographs).by_class().pixels)
    rows = torch.empty((len(pixels), 3, *pixels.shape[1:3]))
    mean, std = torch.tensor(MEAN).view(3, 1, 1), torch.tensor(STD).view(3, 1, 1)
    for number, one in enumerate(pixels):
        rows[number] = torch.from_numpy(one).permute(2, 0, 1)
        rows[number].div_(255).sub_(mean).div_(std)
    return Samples("photographs", "image", rows, pixels=pixels)


def images(settings: Settings) -> Samples:
    """3x32x32 bytes each: parts of photographs, at random places."""
    sources: list[Pixels] = load_photographs(settings.cache, settings.photographs).pixels
    chance = np.random.default_rng(SEED)
    count = counts(settings).images
    rows = np.empty((count, 3, SIDE, SIDE), np.uint8)
    for number in range(count):
        source = sources[int(chance.integers(len(sources)))]
        top, left = (int(chance.integers(size - SIDE + 1)) for size in source.shape[:2])
        rows[number] = source[top : top + SIDE, left : left + SIDE].transpose(2, 0, 1)
    return Samples("3 KiB images", "image", torch.from_numpy(rows))


def tokens(settings: Settings) -> Samples:
    """512 int64 token ids of real text each, beginning at random places. They have no label."""
    ids, _ = token_ids(settings.cache)
    starts = np.random.default_rng(SEED).integers(0, len(ids) - TOKENS + 1, counts(settings).tokens)
    windows = np.lib.stride_tricks.sliding_window_view(ids, TOKENS)
    return Samples("512-token rows", "tokens", torch.from_numpy(windows[starts]), labelled=False)


def random_batches(samples: int, size: int) -> list[list[int]]:
    """Every sample once, or some of very many, in random order and batches; what does not fill one is left out."""
    chance = np.random.default_rng(SEED)
    order = chance.permutation(samples) if samples <= LONGEST else chance.choice(samples, LONGEST, replace=False)
    return [order[start : start + size].tolist() for start in range(0, len(order) - size + 1, size)]


@dataclass(frozen=True)
class Batch:
    """Rows as a reader gave them, and their numbers, if it knows them."""

    rows: torch.Tensor
    numbers: Sequence[int] | torch.Tensor | None = None


@dataclass(frozen=True)
class Epoch:
    """One way to read: `start` begins a pass over `count` samples in random order."""

    name: str
    start: Callable[[], Iterator[Batch]]
    count: int
    # The largest difference to the source that is none: for a reader that rounds otherwise than torch does.
    tolerance: float = 0.0

    def run(self) -> int:
        """The pass, for the clock."""
        return sum(len(batch.rows) for batch in self.start())

    def check(self, samples: Samples) -> None:
        """The pass, comparing every row with its source; all must have been read."""
        seen = 0
        for batch in self.start():
            found = batch.rows
            numbers = batch.numbers
            if numbers is None:
                numbers = [samples.number_of.get(row.numpy().tobytes(), -1) for row in found]
            if min(numbers) < 0:
                raise MismatchError(f"{self.name}, {samples.title}: a row that was never packed")
            expected = samples.rows[torch.as_tensor(numbers)]
            if found.dtype != expected.dtype or found.shape != expected.shape:
                raise MismatchError(f"{self.name}, {samples.title}: {found.dtype} {tuple(found.shape)}")
            same = torch.equal(found, expected)
            if not same and not (self.tolerance and float((found - expected).abs().max()) <= self.tolerance):
                raise MismatchError(f"{self.name}, {samples.title}: not what was packed")
            seen += len(found)
        if seen != self.count:
            raise MismatchError(f"{self.name}, {samples.title}: {seen} samples were read, {self.count} were expected")


def nbytes(place: Path) -> int:
    """Bytes of a file, or of all files below a folder."""
    files = [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]
    return sum(file.stat().st_size for file in files)
