"""Curves: what every contender does at one place of an axis after the other.

curves = Curves()
curves.add(0, rates(settings, fastest_ways(contest), unit=1.0))
curves.add(1, ...)
table = curves.table("title", "MB a second", chart, headings)
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.data.samples import Epoch
from benchmarks.harness.outcome import Chart, Kind, Settings, Table
from benchmarks.harness.timing import Contender, Spread, interleave
from benchmarks.store.contest import Contest

ROUNDS = 7
LEAST_SECONDS = 0.05  # of a turn in a full run


@dataclass
class Curves:
    """Figures by the name of who reached them, and by the place on the axis."""

    figures: dict[str, dict[int, Spread]] = field(default_factory=dict)

    def add(self, place: int, found: Mapping[str, Spread]) -> None:
        """What everybody reached at one place."""
        for name, spread in found.items():
            self.figures.setdefault(name, {})[place] = spread

    def table(self, title: str, chart: Chart, headings: Sequence[str], kind: Kind) -> Table:
        """A row for everybody, empty where nothing was measured; the limits come last."""
        table = Table(title, [("way", "text"), *((heading, kind) for heading in headings)], chart=chart)
        for name in sorted(self.figures, key=chart.limits.__contains__):
            table.add(name, *(self.figures[name].get(place) for place in range(len(headings))))
        return table


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def fastest_ways(contest: Contest) -> dict[str, Epoch]:
    """Of every contender, by its name, the way that took the shortest time in a pass; a check was its warm-up."""
    by_name = {epoch.name: epoch for epoch in contest.epochs}
    found = {}
    for name, ways in contest.ways.items():
        epochs = [by_name[way] for way in ways]
        found[name] = min(epochs, key=seconds_a_sample) if len(epochs) > 1 else epochs[0]
    return found


def seconds_a_sample(epoch: Epoch) -> float:
    start = time.perf_counter()
    epoch.run()
    return (time.perf_counter() - start) / epoch.count


def rates(
    settings: Settings,
    ways: Mapping[str, Epoch],
    limits: Sequence[Contender],
    *,
    unit: float,
    before: Mapping[str, Callable[[], object]] | None = None,
) -> dict[str, Spread]:
    """What each reaches in a second: samples times `unit`. Limits count in bytes, so that unit is a sample's bytes."""
    prepare = before or {}
    contenders = [Contender(name, way.run, way.count * unit, prepare.get(name)) for name, way in ways.items()]
    least = 0.0 if settings.quick or before else LEAST_SECONDS
    times = interleave([*contenders, *limits], min(ROUNDS, settings.rounds), least_seconds=least)
    return {name: Spread.of([1 / second for second in seconds]) for name, seconds in times.items()}


def samples_a_second(found: Mapping[str, Spread], sample: float) -> dict[str, Spread]:
    """Figures in bytes as figures in samples of so many bytes."""
    return {
        name: Spread(each.median / sample, each.low / sample, each.high / sample, each.count)
        for name, each in found.items()
    }
