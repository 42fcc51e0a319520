"""A contest: the same samples packed by several contenders, every way to read them checked, then timed in turns.

contest = Contest(folder, batch=64)
contest.enter(Ours("raw"), samples)
contest.enter(FFCV, samples)
contest.check(samples)
times = contest.take_turns(settings)
contest.ratio(times, FFCV.name, ["ours, raw"])             # how many times faster than FFCV's fastest way
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from benchmarks.data.samples import Epoch, Samples, nbytes
from benchmarks.harness.outcome import Settings
from benchmarks.harness.timing import Contender, Spread, interleave, ratio

MOST_ROUNDS = 7  # a turn is a whole epoch


class Packer(Protocol):
    """A rival, or one of ours."""

    @property
    def name(self) -> str:
        """Whose ways to read these are."""

    @property
    def takes_all(self) -> bool:
        """False: so slow that a part of many samples must do."""

    def pack(self, samples: Samples, folder: Path) -> None:
        """Write the samples; the folder is there, and empty."""

    def epochs(self, samples: Samples, folder: Path, batch: int) -> list[Epoch]:
        """All ways to read what `pack` wrote."""


@dataclass
class Contest:
    """Who takes part, by the names of their ways to read."""

    folder: Path
    batch: int
    epochs: list[Epoch] = field(default_factory=list)
    ways: dict[str, list[str]] = field(default_factory=dict)
    sizes: dict[str, float] = field(default_factory=dict)  # bytes a sample, of every way
    places: list[Path] = field(default_factory=list)

    def enter(self, contender: Packer, samples: Samples) -> None:
        """Let it pack the samples."""
        place = packed(contender, samples, self.folder)
        found = contender.epochs(samples, place, self.batch)
        self.epochs += found
        self.ways[contender.name] = [epoch.name for epoch in found]
        self.sizes |= dict.fromkeys(self.ways[contender.name], nbytes(place) / len(samples))
        self.places.append(place)

    def check(self, samples: Samples) -> None:
        """Everything that anybody reads is what was packed."""
        for epoch in self.epochs:
            epoch.check(samples)

    def take_turns(self, settings: Settings) -> dict[str, list[float]]:
        """Seconds a sample for every way to read, round by round."""
        contenders = [Contender(epoch.name, epoch.run, epoch.count) for epoch in self.epochs]
        return interleave(contenders, rounds(settings), least_seconds=settings.least_seconds)

    def best(self, times: Mapping[str, list[float]], name: str) -> list[float]:
        """The fastest of a contender's ways in each round."""
        return [min(each) for each in zip(*(times[way] for way in self.ways[name]), strict=True)]

    def ratio(self, times: Mapping[str, list[float]], rival: str, judged: Sequence[str]) -> Spread:
        """How many times faster ours is; of several that are judged, the slowest counts."""
        theirs = self.best(times, rival)
        return min((ratio(theirs, times[ours]) for ours in judged), key=lambda spread: spread.median)


def packed(contender: Packer, samples: Samples, folder: Path) -> Path:
    """The folder below `folder` into which the contender has packed the samples."""
    place = folder / contender.name.replace(" ", "-").replace(",", "").replace(".", "")
    place.mkdir()
    contender.pack(samples, place)
    return place


def rounds(settings: Settings) -> int:
    """Fewer than of other benchmarks."""
    return min(settings.rounds, MOST_ROUNDS)
