"""What is told of validation that builds graphs."""

import pytest
from torch import nn

from cordwood.doctor.evidence import ValidationSeen
from cordwood.doctor.findings import Finding
from cordwood.doctor.pairs import Gain
from cordwood.doctor.rules import evalwithoutnograd
from cordwood.doctor.rules.evalwithoutnograd import EvalWithoutNoGrad
from tests.doctor.evidences import make_evidence


def judged(gain: Gain | None, monkeypatch: pytest.MonkeyPatch) -> Finding:
    monkeypatch.setattr(evalwithoutnograd, "_replayed", lambda seen, seconds: gain)
    evidence = make_evidence()
    evidence.validation.append(ValidationSeen(nn.Linear(2, 2), None, batches=8, with_gradients=8))
    (finding,) = EvalWithoutNoGrad().judge(evidence)
    return finding


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (2.14, 2.08, "; without, a batch takes 2.08 ms in place of 2.14 ms"),
        (2.1401, 2.1399, ""),  # no digit that people read tells them apart
    ],
)
def test_times_are_told_where_they_differ(
    before: float, after: float, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = judged(Gain(before - after, 0.0, before, after, 9), monkeypatch)
    assert finding.message.endswith(f"kept every layer's inputs in memory for it{told}")
    assert finding.verified == "replay"


def test_without_a_replay_nothing_is_said_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = judged(None, monkeypatch)
    assert (finding.saves_ms, finding.verified) == (None, "measured")
    assert finding.message.endswith("for it")
