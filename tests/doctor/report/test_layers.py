"""The tables of layers and functions, from a tape and from profiles."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cordwood.doctor.evidence.evidence import Evidence
from cordwood.doctor.evidence.findings import Abstain
from cordwood.doctor.evidence.stacks import FunctionTime, Stacks
from cordwood.doctor.evidence.tape import Op, Tape
from cordwood.doctor.replay import replay
from cordwood.doctor.report.layers import MOST_FUNCTIONS, MOST_LAYERS, functions_of, layers_of


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
