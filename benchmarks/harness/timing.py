"""Interleaved timing: A B C A B C ..., then medians and quartiles of what each round gave.

    times = interleave([Contender("ours", decode_all, 70), Contender("png", png_all, 70)], rounds=15)
    speed = ratio(times["png"], times["ours"])         # how many times faster ours is, round by round
    print(speed.median, speed.low, speed.high)

Noise on a shared machine comes in waves longer than a round, so contenders that take turns meet the same waves. A ratio
is taken inside each round and the median of these ratios is reported, never a ratio of two medians or a best case.
"""

import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self


class UnavailableError(Exception):
    """Something from outside that a row needs is not here; the message says why. The rest of the run goes on."""


class MismatchError(Exception):
    """A contender gave other bytes than it should: nothing it does is worth timing."""


@dataclass(frozen=True)
class Contender:
    """`run` goes once over the whole working set, which is `work` units large (samples, megabytes, ...)."""

    name: str
    run: Callable[[], object]
    work: float = 1.0
    # Called before every pass, off the clock: empty a folder, let the disk settle, drop a file from the page cache.
    # Such a pass is timed by itself, and what it gives back is let go after the clock has stopped: a loaded
    # checkpoint's memory is not returned to the system in the time of loading.
    before: Callable[[], object] | None = None

    def timed(self, passes: int, clock: Callable[[], float]) -> float:
        """Seconds that so many passes took."""
        if self.before is None:
            start = clock()
            for _ in range(passes):
                self.run()
            return clock() - start
        seconds = 0.0
        for _ in range(passes):
            self.before()
            start = clock()
            result = self.run()
            seconds += clock() - start
            del result
        return seconds


@dataclass(frozen=True)
class Spread:
    """A median with its quartiles and the number of values behind them."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """The spread of these values."""
        if not values:
            raise ValueError("no values to summarise")
        ordered = sorted(values)
        return cls(statistics.median(ordered), quantile(ordered, 0.25), quantile(ordered, 0.75), len(ordered))

    @classmethod
    def exact(cls, value: float) -> Self:
        """A figure that no clock had a part in: a size or a ratio of sizes."""
        return cls(value, value, value, 1)


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of the sorted values lie, interpolated linearly between neighbours."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def ratio(over: Sequence[float], under: Sequence[float]) -> Spread:
    """The spread of over/under taken round by round. With times it says how many times faster `under` is."""
    if len(over) != len(under):
        raise ValueError(f"{len(over)} rounds against {len(under)}: only contenders of one run can be compared")
    return Spread.of([a / b for a, b in zip(over, under, strict=True)])


def sums(rounds: Sequence[Sequence[float]]) -> list[float]:
    """Several runs' times added up round by round, to compare contenders over all of them together."""
    return [math.fsum(times) for times in zip(*rounds, strict=True)]


def passes_for(seconds: float, least_seconds: float) -> int:
    """How often a pass that takes `seconds` must be repeated to fill `least_seconds`."""
    return max(1, math.ceil(least_seconds / max(seconds, 1e-9)))


def interleave(
    contenders: Sequence[Contender],
    rounds: int,
    *,
    least_seconds: float = 0.05,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds per unit of work for every contender and round.

    Each contender is run once to warm up (imports, pools, page faults of memory that is kept) and to learn how many
    passes fill `least_seconds`: a turn must be long against the clock and against one interruption.
    """
    names = [c.name for c in contenders]
    if len(set(names)) != len(names):
        raise ValueError(f"contenders need names of their own, got {names}")
    passes: dict[str, int] = {}
    for contender in contenders:
        contender.timed(1, clock)
        passes[contender.name] = passes_for(contender.timed(1, clock), least_seconds)
    times: dict[str, list[float]] = {name: [] for name in names}
    with no_garbage_collection():
        for _ in range(rounds):
            for contender in contenders:
                turn = passes[contender.name]
                times[contender.name].append(contender.timed(turn, clock) / (turn * contender.work))
            gc.collect()
    return times


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """The cyclic collector would run in whichever turn it likes; between rounds is soon enough."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def nothing() -> None:
    """For a contender that needs no preparation, but whose passes are to be timed one by one."""


def fastest(candidates: Sequence[Contender], *, least_seconds: float = 0.02) -> Contender:
    """The candidate with the lowest median: how a rival gets the best of several ways to do its work."""
    times = interleave(candidates, 5, least_seconds=least_seconds)
    return min(candidates, key=lambda c: statistics.median(times[c.name]))
