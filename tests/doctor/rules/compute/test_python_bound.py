"""Loops that Python is spent in: judged on tapes of real steps, with samples made by hand."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
import torch

from cordwood.doctor.evidence.evidence import Evidence
from cordwood.doctor.evidence.findings import Abstain, Finding
from cordwood.doctor.evidence.stacks import Stacks, StackSample
from cordwood.doctor.rules.compute.python_bound import PythonBound
from tests.doctor.support.evidences import make_evidence
from tests.doctor.support.tapes import record

SOURCE = """\
import torch

def gate(x, w):
    out = torch.zeros_like(x)
    for i in range(len(x)):
        out[i] = x[i] * w[i]
    return out

def recur(x, w):
    state = x[0]
    for i in range(len(x)):
        state = torch.tanh(x[i] * state)
    return state

def mask(n):
    rows = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(n):
            rows[i][j] = float(i < j)
    return torch.tensor(rows)

def play(env):
    for turn in range(5):
        env.step(turn)

class Env:
    def step(self, turn):
        return turn * 2

def count(a, b):
    right = 0
    for i in range(len(a)):
        right += a[i].item() == b[i].item()
    return right
"""


@pytest.fixture
def script(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "train.py"
    path.write_text(SOURCE)
    made: dict[str, Any] = {}
    exec(compile(SOURCE, str(path), "exec"), made)
    return made


def at(function: Any, line: int) -> tuple[CodeType, int]:
    assert isinstance(function, FunctionType)
    return function.__code__, line


def samples(milliseconds: float, *stack: tuple[CodeType, int], steps: int = 10) -> Iterator[StackSample]:
    """So many milliseconds a step, in samples of one."""
    for step in range(steps):
        for _ in range(round(milliseconds)):
            yield StackSample(step, 0.001, "other", stack)


def evidence_of(step: Callable[[], object], taken: list[StackSample], **phases: float) -> Evidence:
    evidence = make_evidence(phases, jitter=0.0)
    evidence.tape = record(step)
    evidence.tape.op_ms = [0.01] * len(evidence.tape.ops)  # a busy machine would time them as long as the step
    evidence.stacks = Stacks.of(taken, 2.0, steps=range(10))
    return evidence


def judged(evidence: Evidence) -> list[Finding]:
    return PythonBound().judge(evidence)


def main_line() -> tuple[CodeType, int]:
    return compile("1", "/home/somebody/main.py", "exec"), 1


def test_a_loop_over_rows_with_its_backward_pass(script: dict[str, Any]) -> None:
    x, w = torch.randn(32, 8), torch.randn(32, 8, requires_grad=True)
    taken = [*samples(30.0, at(script["gate"], 6)), *samples(70.0, main_line())]
    evidence = evidence_of(lambda: script["gate"](x, w).sum().backward(), taken, forward=40.0, backward=60.0)
    [finding] = judged(evidence)
    assert finding.place is not None
    assert (finding.place.line, finding.place.source) == (6, "out[i] = x[i] * w[i]")
    # Nearly all of the backward pass belongs to the loop, too.
    assert finding.saves_ms == pytest.approx(30.0 + 60.0, rel=0.1)
    assert finding.spread_ms == pytest.approx(evidence.stacks.spread_ms(30.0))  # type: ignore[union-attr]
    assert "32 rounds with 160 small operations" in finding.message
    assert [detail.title.split(" (")[0] for detail in finding.details] == [
        "The lines with most time",
        "The functions with most own time",
    ]


def test_rounds_that_need_each_other_are_left_alone(script: dict[str, Any]) -> None:
    x = torch.randn(32, 8)
    taken = [*samples(80.0, at(script["recur"], 12)), *samples(20.0, main_line())]
    findings = judged(evidence_of(lambda: script["recur"](x, x), taken, forward=100.0))
    assert findings == []


def test_a_short_loop_is_silent(script: dict[str, Any]) -> None:
    x = torch.randn(32, 8)
    taken = [*samples(8.0, at(script["gate"], 6)), *samples(92.0, main_line())]
    assert judged(evidence_of(lambda: script["gate"](x, x), taken, forward=100.0)) == []


def test_plain_python_with_what_belongs_to_it(script: dict[str, Any]) -> None:
    taken = [
        *samples(30.0, at(script["mask"], 19)),
        *samples(20.0, at(script["mask"], 20)),
        *samples(50.0, main_line()),
    ]
    [finding] = judged(evidence_of(lambda: script["mask"](4), taken, other=100.0))
    assert finding.saves_ms == pytest.approx(50.0)
    assert finding.place is not None
    assert finding.place.line == 19
    assert "one element after the other in lines 17 to 19" in finding.message


def test_a_loop_whose_work_is_elsewhere_is_left_alone(script: dict[str, Any]) -> None:
    taken = [
        *samples(60.0, at(script["Env"].step, 28), at(script["play"], 24)),
        *samples(40.0, main_line()),
    ]
    findings = judged(evidence_of(lambda: torch.ones(1) + 1, taken, forward=100.0))
    assert findings == []


def test_values_that_are_taken_one_by_one_are_taken_once(script: dict[str, Any]) -> None:
    a, b = torch.randint(3, (64,)), torch.randint(3, (64,))
    taken = [*samples(40.0, at(script["count"], 33)), *samples(60.0, main_line())]
    [finding] = judged(evidence_of(lambda: script["count"](a, b), taken, forward=60.0, other=40.0))
    assert finding.place is not None
    assert finding.place.source == "right += a[i].item() == b[i].item()"
    assert "64 rounds" in finding.message
    assert "(predicted == labels).sum().item()" in finding.fix


def test_steps_full_of_work_have_nothing_to_tell(script: dict[str, Any]) -> None:
    x = torch.randn(64, 64)
    evidence = evidence_of(lambda: x @ x, list(samples(100.0, main_line())), forward=100.0)
    assert judged(evidence) == []


def test_many_calls_are_information(script: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(4)

    def step() -> None:
        for _ in range(100):
            x.exp()

    evidence = evidence_of(step, list(samples(100.0, main_line())), forward=100.0)
    assert evidence.tape is not None
    evidence.tape.op_ms = [0.5] * 100
    monkeypatch.setattr("cordwood.doctor.rules.compute.python_bound.work_times", lambda tape: [0.1] * 100)
    [finding] = judged(evidence)
    assert (finding.level, finding.saves_ms, finding.place) == ("info", None, None)
    assert finding.message.startswith("calling 100 operations takes 40.0 ms of a step (40%)")
    evidence.tape.op_ms = [5.0] * 100
    assert judged(evidence) == []  # longer than the step itself


def test_calls_take_no_more_than_what_is_not_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(4)

    def step() -> None:
        for _ in range(100):
            x.exp()

    monkeypatch.setattr("cordwood.doctor.rules.compute.python_bound.work_times", lambda tape: [0.1] * 100)
    for waited, told in ((50.0, True), (65.0, False)):
        evidence = evidence_of(step, list(samples(100.0, main_line())), wait=waited, forward=100.0 - waited)
        assert evidence.tape is not None
        evidence.tape.op_ms = [0.5] * 100
        assert bool(judged(evidence)) == told


def test_work_beside_data_and_model_is_told_with_its_line(script: dict[str, Any]) -> None:
    """A function that is called, not a loop: nobody knows a cheaper way, but where the time goes is known."""
    step, play = at(script["Env"].step, 28), at(script["play"], 24)
    taken = [*samples(6, step, play), *samples(2, play)]
    (finding,) = judged(evidence_of(lambda: torch.ones(3) + 1, taken, forward=2.0, other=16.0))
    assert (finding.level, finding.saves_ms, finding.place and finding.place.line) == ("info", None, 28)
    assert finding.message == (
        "16.0 ms of a step (89%) are neither data nor model, most of it in `Env.step` (12.0 ms); no change of it was "
        "tried"
    )
    assert judged(evidence_of(lambda: torch.ones(3) + 1, taken, forward=20.0, other=8.0)) == []


def test_without_a_tape_it_abstains() -> None:
    evidence = make_evidence()
    evidence.stacks = Stacks()
    evidence.missing["tape"] = "a step has more than 20,000 operations"
    with pytest.raises(Abstain, match="20,000 operations"):
        judged(evidence)
