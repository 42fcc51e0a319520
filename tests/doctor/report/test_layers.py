"""The tables of layers and functions, from a tape and from profiles."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from cordwood.doctor.evidence.evidence import Evidence, ModuleSeen, StageSeen
from cordwood.doctor.evidence.findings import Abstain
from cordwood.doctor.evidence.stacks import FunctionTime, Stacks
from cordwood.doctor.evidence.tape import Op, Tape
from cordwood.doctor.replay import replay
from cordwood.doctor.report.layers import MOST_FUNCTIONS, MOST_LAYERS, functions_of, layers_of, stage_notes
from cordwood.doctor.run.session import Session
from tests.doctor.support.evidences import make_evidence, make_report
from tests.doctor.support.smallnet import seen_steps, train


def op(module: str, phase: str, milliseconds: float) -> Op:
    add: Any = torch.ops.aten.add.Tensor
    return Op("aten::add.Tensor", add, phase, None, module, [], [], ((), {}), None, int(milliseconds * 1e6))


def evidence_of(*ops: Op, seconds: float = 0.0) -> Evidence:
    return Evidence(tape=Tape(list(ops), 4, {}), seconds_to_spend=seconds)


def test_layers_are_summed_and_sorted() -> None:
    evidence = evidence_of(
        op("net.0", "forward", 1), op("net.1", "forward", 3), op("net.0", "backward", 4), op("", "optimizer", 2)
    )
    assert evidence.tape is not None
    evidence.tape.classes = {"net.0": "Linear"}
    layers = layers_of(evidence)
    assert [(layer["module"], layer["ops"], layer["ms"]) for layer in layers] == [
        ("net.0", 2, 5.0),
        ("net.1", 1, 3.0),
        ("(optimizer)", 1, 2.0),
    ]
    assert [layer["class"] for layer in layers] == ["Linear", "", ""]
    assert (layers[0]["forward_ms"], layers[0]["backward_ms"]) == (1.0, 4.0)
    assert sum(layer["share"] for layer in layers) == pytest.approx(1)


def test_replayed_times_are_used_where_there_are_some() -> None:
    evidence = evidence_of(op("a", "forward", 1), op("b", "forward", 1))
    assert evidence.tape is not None
    evidence.tape.op_ms = [2.0, 7.0]
    assert [layer["ms"] for layer in layers_of(evidence)] == [7.0, 2.0]


def test_a_step_that_cannot_be_replayed_is_told_as_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(tape: Tape) -> list[float]:
        raise Abstain("data dependent shapes")

    monkeypatch.setattr(replay, "op_times", refuse)
    assert layers_of(evidence_of(op("a", "forward", 3), seconds=20.0))[0]["ms"] == 3.0


def test_without_a_tape_there_is_no_table() -> None:
    assert layers_of(Evidence()) == []


def test_tables_are_bounded() -> None:
    evidence = evidence_of(*(op(f"layer{number}", "forward", number) for number in range(100)))
    evidence.stacks = Stacks(functions=[FunctionTime(f"f{n}", "t.py", n, float(n), 9.0) for n in range(30)])
    evidence.fetches = SimpleNamespace(functions=[])  # type: ignore[assignment]
    assert len(layers_of(evidence)) == MOST_LAYERS
    functions = functions_of(evidence)
    assert len(functions["training"]) == MOST_FUNCTIONS
    assert functions["training"][0] == {"name": "f29", "file": "t.py", "line": 29, "own_ms": 29.0}
    assert functions["loading"] == []


def staged_evidence(first: nn.Module, second: nn.Module, *, step: int = 30, goes_on: bool = False) -> Evidence:
    """65 steps: the second module is trained from this one on, and the first one then, too, if it goes on."""
    evidence = make_evidence()
    one, other = ModuleSeen(first, None, step + goes_on), ModuleSeen(second, None, 65 - step)
    evidence.stages = [StageSeen(one, 0, []), StageSeen(other, step, [(one, step)])]
    return evidence


def test_another_model_from_some_step_on_is_told_of() -> None:
    evidence = staged_evidence(nn.Linear(3, 3), nn.Conv1d(3, 3, 1))
    assert stage_notes(evidence) == [
        "steps 1 to 30 train Linear, steps 31 to 65 train Conv1d: figures are of both together, and so of neither; "
        "with `--steps 30` they are of the first alone"
    ]
    assert make_report(evidence=evidence).document["notes"] == stage_notes(evidence)


def test_models_of_one_class_are_told_apart_by_their_size() -> None:
    (note,) = stage_notes(staged_evidence(nn.Linear(3, 3), nn.Linear(300, 4)))
    assert "train Linear (12 parameters), steps 31 to 65 train Linear (1,204 parameters):" in note


@pytest.mark.parametrize(
    "evidence",
    [
        Evidence(),
        make_evidence(),
        staged_evidence(nn.Linear(3, 3), nn.Linear(3, 3)),  # another fold
        staged_evidence(nn.Linear(3, 3), nn.Linear(3, 4), goes_on=True),
        staged_evidence(nn.Linear(3, 3), nn.Linear(3, 4), step=2),
        staged_evidence(nn.Linear(3, 3), nn.Linear(3, 4), step=60),
    ],
)
def test_nothing_is_said_otherwise(evidence: Evidence) -> None:
    assert stage_notes(evidence) == []


def test_what_comes_later_does_not_move_the_border() -> None:
    evidence = staged_evidence(nn.Linear(3, 3), nn.Conv1d(3, 3, 1))
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
