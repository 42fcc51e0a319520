"""What is told of validation that builds graphs."""

from typing import Any

import pytest
import torch
from torch import nn

from cordwood.doctor.evidence.evidence import Evidence, ValidationSeen
from cordwood.doctor.evidence.findings import Finding
from cordwood.doctor.measure.pairs import Gain
from cordwood.doctor.rules.correctness import eval_without_no_grad
from cordwood.doctor.rules.correctness.eval_without_no_grad import EvalWithoutNoGrad, Replayed
from tests.doctor.support.evidences import make_evidence


def with_validation(module: nn.Module, **seen: Any) -> Evidence:
    evidence = make_evidence({"forward": 20.0}, jitter=0.0)
    assert evidence.steps is not None
    batches = evidence.steps.count  # so that a batch's milliseconds are a step's
    evidence.validation.append(ValidationSeen(module, None, batches=batches, with_gradients=batches, **seen))
    return evidence


def judged(replayed: Replayed | None, monkeypatch: pytest.MonkeyPatch) -> Finding:
    monkeypatch.setattr(eval_without_no_grad, "_replayed", lambda seen, seconds: replayed)
    (finding,) = EvalWithoutNoGrad().judge(with_validation(nn.Linear(2, 2)))
    return finding


@pytest.mark.parametrize(
    ("saves", "spread", "promised", "level"),
    [
        (2.5, 0.1, 2.5, "high"),
        (0.7, 0.1, 0.7, "medium"),
        (0.5, 0.1, None, "medium"),  # of steps that take 20 ms
        (2.5, 0.9, None, "medium"),
        (-1.0, 0.1, None, "medium"),
    ],
)
def test_time_is_promised_where_it_is_sure_and_worth_a_word(
    saves: float, spread: float, promised: float | None, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = judged(Replayed(13_100_000, Gain(saves, spread, 8.0, 8.0 - saves, 9)), monkeypatch)
    assert (finding.saves_ms, finding.level, finding.verified) == (promised, level, "replay")
    told = f"; without, a batch takes {8 - saves:.2f} ms in place of 8.00 ms" if promised else ""
    assert finding.message.endswith(f"kept every layer's inputs in memory for it: 13.1 MB for each batch{told}")


def test_without_a_replay_nothing_is_said_of_time_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = judged(None, monkeypatch)
    assert (finding.saves_ms, finding.verified) == (None, "measured")
    assert finding.message.endswith("for it")


def test_what_a_graph_keeps_is_counted_once_and_without_what_is_there_anyway() -> None:
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8))
    arguments: Any = ((torch.randn(1000, 64),), {})
    (finding,) = EvalWithoutNoGrad().judge(with_validation(model, arguments=arguments))
    assert ": 512.0 kB for each batch" in finding.message  # the ReLU's output, which two layers keep, in float32


@pytest.mark.parametrize("fault", ["hook", "copy", "call"])
def test_a_model_that_cannot_be_called_again_is_still_told_of(fault: str) -> None:
    class Own(nn.Linear):
        def __deepcopy__(self, memo: Any) -> Any:
            if fault == "copy":
                raise TypeError("this is not to be copied")
            return nn.Linear(3, 3)  # which does not take the arguments

    calls: list[Any] = []
    model = Own(2, 2)
    if fault == "hook":
        model.register_forward_hook(lambda module, given, result: calls.append(result))
    evidence = with_validation(model, arguments=((torch.randn(4, 2),), {}))
    (finding,) = EvalWithoutNoGrad().judge(evidence)
    assert finding.verified == "measured"
    assert calls == []
