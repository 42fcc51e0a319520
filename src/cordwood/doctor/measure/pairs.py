"""Two ways of doing a thing, measured in turns: what the second saves, and how sure that is.

    gain = measure_pair(lambda: timed(before), lambda: timed(after), seconds=2.0)
    gain.saves_ms, gain.spread_ms

They take turns, so that a busy moment of the machine falls on both. The gain is told in two ways, as the median of the
differences and as the difference of the medians: they agree where there are many turns, or quiet ones, and what they
differ by counts as spread.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np

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
