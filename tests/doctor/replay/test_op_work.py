"""Work of operations: small ones are all call, views do nothing, and what is left of many small ones done at once."""

from typing import Any

import pytest
import torch

from cordwood.doctor.replay import op_work
from cordwood.doctor.replay.op_work import is_view, work_at_once, work_times
from tests.doctor.support.tapes import record


def test_views_do_no_work_and_writing_is_no_view() -> None:
    x = torch.randn(6, 4)

    def step() -> None:
        part = x[2]
        part.add_(1.0)
        part.exp()

    tape = record(step)
    assert {op.name: is_view(op) for op in tape.ops} == {
        "aten::select.int": True,
        "aten::add_.Tensor": False,
        "aten::exp": False,
    }
    assert work_times(tape)[0] == 0.0


def test_calls_are_taken_off_and_large_operations_keep_their_time() -> None:
    small, large = torch.ones(2), torch.randn(512, 512)

    def step() -> None:
        small.mul(small)
        large.mm(large)

    tape = record(step)
    tape.op_ms = [0.001, 500.0]
    for op, nanoseconds in zip(tape.ops, (90_000, 700_000_000), strict=True):
        op.nanoseconds = nanoseconds
    work = work_times(tape)
    assert 0.0 <= work[0] <= 0.001  # a small one's recorded time is mostly the recording
    assert 600.0 < work[1] <= 700.0  # a large one was slower in the run than in the replay


def test_an_operation_that_does_not_run_on_one_element_has_a_plain_call() -> None:
    x = torch.randn(4, 4)
    tape = record(lambda: torch.cat([x[:2], x[2:]]).view(2, 8).index_select(1, torch.tensor([7])))
    assert all(time >= 0.0 for time in work_times(tape))


def test_at_once_only_the_elements_are_left_except_for_heavy_operations() -> None:
    x = torch.ones(1000)
    a = torch.ones(8, 8)

    def step() -> None:
        x.exp()
        a.mm(a)

    exp, mm = record(step).ops
    assert work_at_once(exp, 5.0) == 8000 / 4e6
    assert work_at_once(exp, 0.0001) == 0.0001
    assert work_at_once(mm, 5.0) == 5.0


def test_measuring_a_call_warns_of_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    returns = torch.randn(50)
    work_times(record(lambda: returns.std()))
    assert capfd.readouterr().err == ""


def test_only_operations_that_check_sizes_run_on_small_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer of an LSTM writes as far as its arguments say: on smaller tensors that is somebody else's memory."""
    asked: list[str] = []

    def watched(function: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> float:
        asked.append(function.overloadpacket.__name__)
        return 0.001

    monkeypatch.setattr(op_work, "_timed", watched)
    lstm, values = torch.nn.LSTM(8, 16, batch_first=True), torch.randn(4, 5, 8)
    tape = record(lambda: lstm(values)[0].exp().sum())
    with torch.no_grad():
        work_times(tape)
    assert "mkldnn_rnn_layer" in {op.func.overloadpacket.__name__ for op in tape.ops}
    assert {"exp", "sum"} <= set(asked)
    assert "mkldnn_rnn_layer" not in asked
