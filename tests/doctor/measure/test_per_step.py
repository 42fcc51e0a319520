"""From a trial's milliseconds to those of a step in the run."""

import pytest

from cordwood.doctor.evidence.findings import Abstain
from cordwood.doctor.measure.pairs import Gain
from cordwood.doctor.measure.per_step import pace_of
from tests.doctor.support.evidences import make_evidence


def test_a_trial_tells_the_share_and_the_run_the_milliseconds() -> None:
    evidence = make_evidence({"wait": 24.0, "forward": 16.0}, jitter=0.0)
    evidence.micro_batches = 2.0
    assert evidence.steps is not None
    pace = pace_of(evidence, evidence.steps)
    assert (pace.batches, pace.batch_ms, pace.busy_ms) == pytest.approx((2.0, 20.0, 8.0))
    slower = Gain(saves_ms=20.0, spread_ms=1.0, before_ms=40.0, after_ms=20.0, pairs=5)
    assert pace.saved(slower, most_ms=24.0) == pytest.approx((20.0, 1.0))
    assert pace.saved(slower, most_ms=15.0) == pytest.approx((15.0, 1.0))


def test_few_turns_that_agree_are_not_sure_of_less_than_a_hundredth() -> None:
    evidence = make_evidence({"wait": 24.0, "forward": 16.0}, jitter=0.0)
    assert evidence.steps is not None
    pace = pace_of(evidence, evidence.steps)
    assert pace.saved(Gain(1.0, 0.0, 40.0, 39.0, 5), most_ms=24.0) == pytest.approx((1.0, 0.4))


def test_a_gain_is_beyond_its_noise_and_a_share_of_a_step() -> None:
    evidence = make_evidence({"wait": 24.0, "forward": 16.0}, jitter=0.0)
    assert evidence.steps is not None
    pace = pace_of(evidence, evidence.steps)
    assert pace.is_worth(4.1, 1.0, share=0.10)
    assert not pace.is_worth(3.9, 1.0, share=0.10)
    assert pace.is_worth(3.9, 1.0, share=0.03)
    assert not pace.is_worth(3.9, 1.4, share=0.03)


@pytest.mark.parametrize("before", [0.0, 13.0, 121.0])
def test_a_trial_unlike_the_run_shows_nothing(before: float) -> None:
    evidence = make_evidence({"wait": 24.0, "forward": 16.0}, jitter=0.0)
    assert evidence.steps is not None
    with pytest.raises(Abstain, match="shows nothing"):
        pace_of(evidence, evidence.steps).saved(Gain(1.0, 0.1, before, before - 1.0, 5), most_ms=24.0)
