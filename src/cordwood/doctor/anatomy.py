"""What a training step consists of, in figures that fit into JSON: the parts of a report that steps alone make.

    anatomy(evidence.steps)["phases"]["wait"]["share"]      # 0.62
    anatomy(None)["steps"]                                  # None: no step was seen, which is not the same as zero

Everything here is plain numbers, lists and dicts, rounded to a nanosecond; what cannot be told is None.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cordwood.doctor.evidence import PHASES, Steps

MOST_POINTS = 2000  # of the timeline: a phone can draw them
MOST_FIRST_WAITS = 200
STEP_FIGURES = ("mean_ms", "median_ms", "p95_ms", "spread_ms", "typical_ms", "noise_ms", "first_wait_ms_per_step")
_BLOCKS = 10
_STEPS_IN_A_BLOCK = 4  # at least, so that loaders that deliver in bursts do not look like noise
_BARS = 30  # of the histogram of waits
_ROUND = 6  # digits of a millisecond
_OF_NORMAL = 1.4826  # the median absolute deviation times this is the standard deviation of a normal distribution


def anatomy(steps: Steps | None, micro_batches: float = 1.0) -> dict[str, Any]:
    """``steps``, ``phases``, ``typical_step``, ``series`` and ``waits`` of a report."""
    if steps is None or not len(steps.times):
        seen = None if steps is None else {**_counts(steps, micro_batches), **dict.fromkeys(STEP_FIGURES)}
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


def _counts(steps: Steps, micro_batches: float) -> dict[str, Any]:
    return {
        "count": int(steps.count),
        "measured": len(steps.times),
        "left_out": {str(why): int(many) for why, many in steps.left_out.items()},
        "batches_per_step": number(micro_batches),
    }


def _whole_steps(steps: Steps) -> dict[str, Any]:
    totals = steps.totals
    blocks = _blocks(totals)
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
        "typical_ms": number(float(np.median(blocks))),
        "noise_ms": number(float(blocks.std(ddof=1))) if len(blocks) > 1 else None,
        "first_wait_ms_per_step": number(first_a_step),
    }


def _blocks(totals: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean step of a few stretches of the run: their median forgives a hiccup, and sees what comes often."""
    count = max(1, min(_BLOCKS, len(totals) // _STEPS_IN_A_BLOCK))
    return np.array([block.mean() for block in np.array_split(totals, count)])


def _phase(steps: Steps, phase: str) -> dict[str, float | None]:
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


def _typical_step(steps: Steps) -> dict[str, float | None]:
    """The phases of the steps in the middle, neither fast nor slow."""
    order = np.argsort(steps.totals, kind="stable")
    quarter = len(order) // 4
    middle = order[quarter : len(order) - quarter]
    return dict(zip(PHASES, numbers(steps.times[middle].mean(axis=0)), strict=True))


def _series(steps: Steps) -> dict[str, Any]:
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


def _waits(steps: Steps) -> dict[str, Any]:
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
