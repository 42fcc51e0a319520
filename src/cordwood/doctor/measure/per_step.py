"""Converts the gain of a loader trial to the milliseconds that a training step would save.

    pace = pace_of(evidence, steps)
    gain = try_something(loader, busy_ms=pace.busy_ms, step_ms=pace.batch_ms, ...)
    saves, spread = pace.saved(gain, most_ms=steps.phase_ms("wait"))
    pace.is_worth(saves, spread, MEDIUM_SHARE)      # beyond three spreads, and beyond this share of a step

The trial tells a share: the machine may be slower or faster than it was in the run.
"""

from dataclasses import dataclass

from cordwood.common.numbers import milliseconds
from cordwood.doctor.evidence.evidence import Evidence, StepTimes
from cordwood.doctor.evidence.findings import Abstain
from cordwood.doctor.measure.pairs import Gain

_UNLIKE = 3.0  # times as slow, or as fast, as in the run: then a trial shows nothing
_LEAST_SPREAD = 0.01  # of a step: few turns may agree by chance


@dataclass(frozen=True)
class PerStep:
    """How long a batch and the work with it take in the run."""

    batches: float  # of a step: several where gradients are accumulated
    batch_ms: float  # a batch with its waiting
    busy_ms: float  # without
    step_ms: float  # a step, in the mean: shares are taken of this
    usual_ms: float  # of a step: a busy moment of the run is not promised to be saved

    def saved(self, gain: Gain, most_ms: float) -> tuple[float, float]:
        """What a step saves, and the spread of that; never more than `most_ms` of the run."""
        scale = self.usual_ms / gain.before_ms if gain.before_ms > 0 else 0.0
        if not 1 / _UNLIKE < scale / self.batches < _UNLIKE:
            raise Abstain(
                f"a batch took {milliseconds(self.usual_ms / self.batches)} in the run, but "
                f"{milliseconds(gain.before_ms)} in the trial of the same loader, so the trial shows nothing"
            )
        return min(gain.saves_ms * scale, most_ms), max(gain.spread_ms * scale, _LEAST_SPREAD * self.usual_ms)

    def is_worth(self, saves_ms: float, spread_ms: float, share: float) -> bool:
        """Whether a gain is beyond its noise, and at least such a share of a step."""
        return saves_ms > 3 * spread_ms and saves_ms >= share * self.step_ms


def pace_of(evidence: Evidence, steps: StepTimes) -> PerStep:
    """The pace of a run, whose steps these are."""
    batches = evidence.micro_batches if evidence.micro_batches > 0 else 1.0
    batch_ms = steps.mean_ms / batches
    return PerStep(
        batches=batches,
        batch_ms=batch_ms,
        busy_ms=batch_ms - steps.phase_ms("wait") / batches,
        step_ms=steps.mean_ms,
        usual_ms=min(steps.mean_ms, steps.typical_ms),
    )
