"""Two loaders in turns, where a turn takes long and there is time for few of them.

    times = paired(lambda: turn(now), lambda: turn(other), end)
    careful(times).is_sure
    in_turns(lambda: turn(now), lambda: turn(other), end, workers=2).is_sure

`pairs` does the same for what takes little: there many turns tell the spread. Here it is not left to them alone.
"""

from collections.abc import Callable
from dataclasses import replace
from statistics import stdev
from time import perf_counter

import numpy as np

from cordwood.doctor.evidence.findings import Abstain
from cordwood.doctor.measure.pairs import Gain, gain_of, measure_pair

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
