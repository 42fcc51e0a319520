"""The figures of training steps for the report, in a form that fits into JSON.

    anatomy(evidence.steps)["phases"]["wait"]["share"]      # 0.62
    anatomy(None)["steps"]                                  # None: no step was seen, which is not the same as zero

Everything here is plain numbers, lists and dicts, rounded to a nanosecond; what cannot be told is None.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cordwood.doctor.evidence.evidence import PHASES, StepTimes

MOST_POINTS = 2000  # of the timeline: a phone can draw them
MOST_FIRST_WAITS = 200
STEP_FIGURES = ("mean_ms", "median_ms", "p95_ms", "spread_ms", "typical_ms", "noise_ms", "first_wait_ms_per_step")
# Reports of earlier versions are without these.
LATER_STEP_FIGURES = ("typical_error_ms", "typical_low_ms", "typical_high_ms")
_FEW = 5  # stretches: of fewer than these, most may agree by chance
_BARS = 30  # of the histogram of waits
_ROUND = 6  # digits of a millisecond
_OF_NORMAL = 1.4826  # the median absolute deviation times this is the standard deviation of a normal distribution
_OF_MEDIAN = 1.2533  # the standard error of a median, in those of a mean


def anatomy(steps: StepTimes | None, micro_batches: float = 1.0) -> dict[str, Any]:
    """``steps``, ``phases``, ``typical_step``, ``series`` and ``waits`` of a report."""
    if steps is None or not len(steps.times):
        unknown = dict.fromkeys(STEP_FIGURES + LATER_STEP_FIGURES)
        seen = None if steps is None else {**_counts(steps, micro_batches), **unknown}
        return {"steps": seen, "phases": None, "typical_step": None, "series": None, "waits": None}
    return {
        "steps": {**_counts(steps, micro_batches), **_whole_steps(steps)},
        "phases": {phase: _phase(steps, phase) for phase in PHASES},
        "typical_step": _typical_step(steps),
        "series": _series(steps),
        "waits": _waits(steps),
    }


def number(value: float | None) -> float | None:
    """A figure for JSON, which knows neither infinity nor "not a number"."""
    return None if value is None or not math.isfinite(value) else round(float(value), _ROUND)


def numbers(values: NDArray[np.float64]) -> list[float | None]:
    """The same for many."""
    return [number(value) for value in values.tolist()]


def _counts(steps: StepTimes, micro_batches: float) -> dict[str, Any]:
    return {
        "count": int(steps.count),
        "measured": len(steps.times),
        "left_out": {str(why): int(many) for why, many in steps.left_out.items()},
        "batches_per_step": number(micro_batches),
    }


def _whole_steps(steps: StepTimes) -> dict[str, Any]:
    totals = steps.totals
    stretches = steps.stretches
    first = steps.first_waits
    # The first epoch starts from nothing (imports, cold files); the later ones tell what beginning an epoch costs,
    # beyond the waiting that every step has.
    first_a_step = None
    if len(first) > 1:
        beyond = max(0.0, float(np.median(first[1:])) - steps.phase_ms("wait"))
        first_a_step = beyond * len(first) / max(steps.count, 1)
    return {
        "mean_ms": number(steps.mean_ms),
        "median_ms": number(steps.median_ms),
        "p95_ms": number(float(np.percentile(totals, 95))),
        "spread_ms": number(_spread(totals)),
        "typical_ms": number(steps.typical_ms),
        "noise_ms": number(float(stretches.std(ddof=1))) if len(stretches) > 1 else None,
        "typical_error_ms": number(_error_of_median(stretches)),
        "typical_low_ms": number(_usual_ends(stretches)[0]),
        "typical_high_ms": number(_usual_ends(stretches)[1]),
        "first_wait_ms_per_step": number(first_a_step),
    }


def _error_of_median(stretches: NDArray[np.float64]) -> float | None:
    """How far the median of the stretches may be off: like the median itself, it forgives one with a hiccup."""
    if len(stretches) < 2:
        return None
    deviation = float(stretches.std(ddof=1)) if len(stretches) < _FEW else _spread(stretches)
    return _OF_MEDIAN * deviation / math.sqrt(len(stretches))


def _usual_ends(stretches: NDArray[np.float64]) -> tuple[float, float]:
    """The fastest and the slowest stretch, but for one of each that may have had a hiccup."""
    ordered = np.sort(stretches)
    aside = int(len(ordered) >= _FEW)
    return float(ordered[aside]), float(ordered[len(ordered) - 1 - aside])


def _phase(steps: StepTimes, phase: str) -> dict[str, float | None]:
    times = steps.times[:, PHASES.index(phase)]
    return {
        "mean_ms": number(steps.phase_ms(phase)),
        "p50_ms": number(float(np.median(times))),
        "p95_ms": number(float(np.percentile(times, 95))),
        "spread_ms": number(_spread(times)),
        "share": number(steps.phase_share(phase)),
    }


def _spread(times: NDArray[np.float64]) -> float:
    """From step to step, not led astray by single slow ones."""
    return _OF_NORMAL * float(np.median(np.abs(times - np.median(times))))


def _typical_step(steps: StepTimes) -> dict[str, float | None]:
    """The phases of the steps in the middle, neither fast nor slow."""
    order = np.argsort(steps.totals, kind="stable")
    quarter = len(order) // 4
    middle = order[quarter : len(order) - quarter]
    return dict(zip(PHASES, numbers(steps.times[middle].mean(axis=0)), strict=True))


def _series(steps: StepTimes) -> dict[str, Any]:
    """The steps one after the other; in long runs a point stands for several, and its slowest step is told, too."""
    count = len(steps.times)
    points = min(count, MOST_POINTS)
    starts = np.arange(points) * count // points
    many = np.diff([*starts, count])
    means = np.add.reduceat(steps.times, starts, axis=0) / many[:, None]
    return {
        "numbers": [int(each) for each in steps.numbers[starts]],
        "steps_a_point": math.ceil(count / points),
        "phases": {phase: numbers(means[:, column]) for column, phase in enumerate(PHASES)},
        "slowest_ms": numbers(np.maximum.reduceat(steps.totals, starts)),
    }


def _waits(steps: StepTimes) -> dict[str, Any]:
    """How waiting for data is distributed, and what the first batch of each epoch costs."""
    waits = steps.times[:, PHASES.index("wait")]
    top = float(np.percentile(waits, 99))
    bars = min(_BARS, max(1, len(waits) // 2))
    counts, edges = np.histogram(np.minimum(waits, top), bins=bars, range=(0.0, max(top, 1e-3)))
    return {
        "edges_ms": numbers(edges),
        "counts": [int(each) for each in counts],
        "slowest_ms": number(float(waits.max())),
        "first_ms": numbers(steps.first_waits[:MOST_FIRST_WAITS]),
    }
