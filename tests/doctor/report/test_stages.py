"""Runs that train one model after another are told of; models that are trained together, or alike, are not."""

import pytest
from torch import nn

from cordwood.doctor.evidence.evidence import Evidence, ModuleSeen, StageSeen
from cordwood.doctor.report.layers import stage_notes
from cordwood.doctor.run.session import Session
from tests.doctor.support.evidences import make_evidence, make_report
from tests.doctor.support.smallnet import seen_steps, train


def evidence_of(first: nn.Module, second: nn.Module, *, step: int = 30, goes_on: bool = False) -> Evidence:
    """65 steps: the second module is trained from this one on, and the first one then, too, if it goes on."""
    evidence = make_evidence()
    one, other = ModuleSeen(first, None, step + goes_on), ModuleSeen(second, None, 65 - step)
    evidence.stages = [StageSeen(one, 0, []), StageSeen(other, step, [(one, step)])]
    return evidence


def test_another_model_from_some_step_on_is_told_of() -> None:
    evidence = evidence_of(nn.Linear(3, 3), nn.Conv1d(3, 3, 1))
    assert stage_notes(evidence) == [
        "steps 1 to 30 train Linear, steps 31 to 65 train Conv1d: figures are of both together, and so of neither; "
        "with `--steps 30` they are of the first alone"
    ]
    assert make_report(evidence=evidence).document["notes"] == stage_notes(evidence)


def test_models_of_one_class_are_told_apart_by_their_size() -> None:
    (note,) = stage_notes(evidence_of(nn.Linear(3, 3), nn.Linear(300, 4)))
    assert "train Linear (12 parameters), steps 31 to 65 train Linear (1,204 parameters):" in note


@pytest.mark.parametrize(
    "evidence",
    [
        Evidence(),
        make_evidence(),
        evidence_of(nn.Linear(3, 3), nn.Linear(3, 3)),  # another fold
        evidence_of(nn.Linear(3, 3), nn.Linear(3, 4), goes_on=True),
        evidence_of(nn.Linear(3, 3), nn.Linear(3, 4), step=2),
        evidence_of(nn.Linear(3, 3), nn.Linear(3, 4), step=60),
    ],
)
def test_nothing_is_said_otherwise(evidence: Evidence) -> None:
    assert stage_notes(evidence) == []


def test_what_comes_later_does_not_move_the_border() -> None:
    evidence = evidence_of(nn.Linear(3, 3), nn.Conv1d(3, 3, 1))
    first, second = evidence.stages
    evidence.stages.append(
        StageSeen(ModuleSeen(nn.Bilinear(1, 1, 1), None, 9), 50, [(first.module, 30), (second.module, 20)])
    )
    (note,) = stage_notes(evidence)
    assert note.startswith("steps 1 to 30 train Linear, steps 31 to 65 train Conv1d, Bilinear:")


def test_a_session_sees_where_stages_begin(session: Session) -> None:
    train(1)
    train(1)
    assert seen_steps(session).count == 48
    first, second = session.evidence.stages
    assert (first.step, second.step) == (0, 24)
    assert second.trained == [(first.module, 24)]
    assert (first.module.training_calls, second.module.training_calls) == (24, 24)
