"""Samples kept in one way: their files, and what is found out by reading them back."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

import torch

from cordwood.demo.prepare import Sample
from cordwood.demo.ways import Way

TIMED_SAMPLES = 48

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Kept:
    """Samples and the file of each, with whatever all the files need besides."""

    title: str
    samples: list[Sample]
    paths: list[Path]
    read: Callable[[Path], torch.Tensor]
    shared_bytes: int = 0
    note: str = ""

    def bytes_a_sample(self) -> float:
        """The mean size of a file, with the sample's part of what is shared."""
        return (sum(path.stat().st_size for path in self.paths) + self.shared_bytes) / len(self.paths)

    def is_exact(self) -> bool:
        """Whether every sample comes back with the same shape, dtype and bits."""
        return all(same_bits(self.read(path), one.tensor) for path, one in zip(self.paths, self.samples, strict=True))


def keep(way: Way, samples: list[Sample], folder: Path, progress: Progress) -> Kept:
    """Write the samples below ``folder`` in this way."""
    folder.mkdir()
    paths = []
    for number, sample in enumerate(samples):
        path = folder / f"{number:05d}{way.suffix}"
        way.write(sample, path)
        paths.append(path)
        progress(f"writing: {way.title}", number + 1, len(samples))
    if way.shared:
        (folder / "plan.json").write_bytes(way.shared)
    return Kept(way.title, samples, paths, way.read, len(way.shared), way.note)


def time_reading(ways: list[Kept], progress: Progress) -> dict[str, float]:
    """The median seconds to read one sample in each way, with one thread.

    The ways take turns, so that a busy moment of the machine falls on all of them.
    """
    seconds: dict[str, list[float]] = {way.title: [] for way in ways}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for turn in range(TIMED_SAMPLES):
            for way in ways:
                path = way.paths[turn % len(way.paths)]
                start = perf_counter()
                way.read(path)
                seconds[way.title].append(perf_counter() - start)
            progress("reading back", turn + 1, TIMED_SAMPLES)
    finally:
        torch.set_num_threads(threads)
    return {title: median(times) for title, times in seconds.items()}


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are equal in shape, dtype and every bit (so that -0.0 is not 0.0, and NaN is NaN)."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))
