"""Measures two ways of doing the same thing in turns: what the second way saves, and how certain that is.

    gain = measure_pair(lambda: timed(before), lambda: timed(after), seconds=2.0)
    gain.saves_ms, gain.spread_ms

The ways take turns, so that a busy moment of the machine affects both. The gain is computed as the median of the
differences and as the difference of the medians. With many or quiet turns they agree; their difference counts
as spread.

Where a turn takes long, as with loaders, there are only a few::

    in_turns(lambda: turn(now), lambda: turn(other), end, workers=2).is_sure
    careful(paired(lambda: turn(now), lambda: turn(other), end)).is_sure

Few turns may agree by chance, so ``careful`` gives them a wider spread.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import stdev
from time import perf_counter

import numpy as np

from cordwood.doctor.evidence.findings import Abstain

_WARM_UP = 2
_FEWEST = 5
_MOST = 41
_TO_DEVIATION = 1.4826  # from the median of absolute deviations to a standard deviation, if errors are normal
_OF_MEDIAN = 1.2533  # the standard error of a median, in those of a mean


@dataclass(frozen=True)
class Gain:
    """What a change saves, in milliseconds; `spread_ms` is the standard error of that."""

    saves_ms: float
    spread_ms: float
    before_ms: float
    after_ms: float
    pairs: int

    @property
    def is_sure(self) -> bool:
        """Whether the gain is beyond three spreads of its measurement."""
        return self.saves_ms > 3 * self.spread_ms


def measure_pair(before: Callable[[], float], after: Callable[[], float], seconds: float) -> Gain:
    """Run both in turns for about so long, at least five times each; they return their own milliseconds."""
    for _ in range(_WARM_UP):
        before()
        after()
    times: list[tuple[float, float]] = []
    end = perf_counter() + seconds
    while len(times) < _FEWEST or (perf_counter() < end and len(times) < _MOST):
        # Every other time the other one is first: what runs second finds warm caches.
        if len(times) % 2:
            second = after()
            times.append((before(), second))
        else:
            first = before()
            times.append((first, after()))
    return gain_of(np.array(times))


def gain_of(times: "np.ndarray[tuple[int, int], np.dtype[np.float64]]") -> Gain:
    """The gain from rows of (before, after) milliseconds."""
    differences = times[:, 0] - times[:, 1]
    middle = float(np.median(differences))
    deviation = _TO_DEVIATION * float(np.median(np.abs(differences - middle)))
    before, after = (float(np.median(times[:, way])) for way in (0, 1))
    saves = (middle + (before - after)) / 2
    return Gain(
        saves_ms=saves,
        spread_ms=max(_OF_MEDIAN * deviation / len(differences) ** 0.5, abs(saves - middle)),
        before_ms=before,
        after_ms=before - saves,
        pairs=len(differences),
    )


OVERTIME_SECONDS = 10.0  # for the fewest pairs
_PAIRS = (5, 9)  # of turns, at least and at most


def in_turns(before: Callable[[], float], after: Callable[[], float], end: float, workers: int) -> Gain:
    """The gain of the second way. Turns without workers are short and need no start: there is time for many."""
    if workers:
        return careful(paired(before, after, end))
    return measure_pair(before, after, end - perf_counter())


def paired(before: Callable[[], float], after: Callable[[], float], end: float) -> list[tuple[float, float]]:
    """Milliseconds of both, until `end` of `perf_counter`; abstains where the fewest turns would take far longer."""
    times: list[tuple[float, float]] = []
    longest = 0.0
    while len(times) < _PAIRS[1] and (len(times) < _PAIRS[0] or perf_counter() + longest < end):
        start = perf_counter()
        if len(times) % 2:
            second = after()
            times.append((before(), second))
        else:
            first = before()
            times.append((first, after()))
        longest = max(longest, perf_counter() - start)
        if perf_counter() + longest * (_PAIRS[0] - len(times)) > end + OVERTIME_SECONDS:
            if len(times) < _PAIRS[0]:
                raise Abstain(f"two turns take {longest:.0f} s: the time to spend is too short for a fair trial")
            break
    return times


def careful(times: list[tuple[float, float]]) -> Gain:
    """The gain, with a spread that does not trust few turns: some may agree by chance, others contradict them."""
    gain = gain_of(np.array(times))
    differences = [before - after for before, after in times]
    spread = max(gain.spread_ms, stdev(differences) / len(differences) ** 0.5)
    contradicted = gain.saves_ms > 0 >= min(differences)
    return replace(gain, spread_ms=max(spread, gain.saves_ms) if contradicted else spread)
