"""Samples kept in one way: what they take on disk, how long reading takes, and whether they come back unchanged."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import torch

from cordwood.demo.acts.prepare import PreparedImage
from cordwood.demo.acts.ways import Way

TIMED_SAMPLES = 48

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class KeptSamples:
    """Samples, the bytes that they take on the disk with whatever they share, and how one is read by its number."""

    title: str
    samples: list[PreparedImage]
    total_bytes: int
    read: Callable[[int], torch.Tensor]
    write_seconds: float | None = None  # for all of them; None: they were there already
    note: str = ""
    is_ours: bool = False

    def bytes_a_sample(self) -> float:
        """The mean size of a sample, with its part of what is shared."""
        return self.total_bytes / len(self.samples)

    def is_exact(self) -> bool:
        """Whether every sample comes back with the same shape, dtype and bits."""
        return all(same_bits(self.read(number), sample.tensor) for number, sample in enumerate(self.samples))


def keep(way: Way, samples: list[PreparedImage], folder: Path, progress: Progress) -> KeptSamples:
    """Write the samples below ``folder`` in this way."""
    folder.mkdir()
    paths = [folder / f"{number:05d}{way.suffix}" for number in range(len(samples))]
    seconds = 0.0
    for number, (sample, path) in enumerate(zip(samples, paths, strict=True)):
        start = perf_counter()
        way.write(sample, path)
        seconds += perf_counter() - start
        progress(f"writing: {way.title}", number + 1, len(samples))
    if way.shared:
        (folder / "plan.json").write_bytes(way.shared)
    return kept_files(way.title, samples, paths, way.read, len(way.shared), seconds, way.note, way.is_ours)


def kept_files(
    title: str,
    samples: list[PreparedImage],
    paths: list[Path],
    read: Callable[[Path], torch.Tensor],
    shared_bytes: int = 0,
    write_seconds: float | None = None,
    note: str = "",
    ours: bool = False,
) -> KeptSamples:
    """Samples in a file each."""
    total = sum(path.stat().st_size for path in paths) + shared_bytes
    return KeptSamples(title, samples, total, lambda number: read(paths[number]), write_seconds, note, ours)


def time_reading(ways: list[KeptSamples], progress: Progress) -> dict[str, float]:
    """The median seconds to read one sample in each way, in random order, with one thread.

    The ways take turns, so that a busy moment of the machine falls on all of them.
    """
    seconds: dict[str, list[float]] = {way.title: [] for way in ways}
    order = np.random.default_rng(0).permutation(max(len(way.samples) for way in ways)).tolist()
    with one_thread():
        for turn in range(TIMED_SAMPLES):
            for way in ways:
                number = order[turn % len(order)] % len(way.samples)
                start = perf_counter()
                way.read(number)
                seconds[way.title].append(perf_counter() - start)
            progress("reading back", turn + 1, TIMED_SAMPLES)
    return {title: median(times) for title, times in seconds.items()}


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch with one thread: arrays as small as these gain nothing from more, and wait for them on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are equal in shape, dtype and every bit (so that -0.0 is not 0.0, and NaN is NaN)."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))
