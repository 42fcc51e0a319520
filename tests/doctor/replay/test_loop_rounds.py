"""Which loops could be done at once: decided on tapes of real ones."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from cordwood.doctor.evidence.tape import Op
from cordwood.doctor.replay.loop_rounds import rounds_at_once, split_into_rounds
from tests.doctor.support.tapes import record

ROWS = 12


def ops_of(step: Callable[[], object]) -> list[Op]:
    """The forward operations of the lines of a step that lie in its loop."""
    return [op for op in record(step).ops if op.phase == "forward"]


def rows_times_weights() -> None:
    x, w = torch.randn(ROWS, 5), torch.randn(ROWS, 5)
    out = torch.zeros(ROWS, 5)
    for i in range(ROWS):
        out[i] = x[i] * w[i]


def losses_added_up() -> None:
    x, y = torch.randn(ROWS, 5, requires_grad=True), torch.randn(ROWS, 5)
    loss = torch.zeros(())
    for i in range(ROWS):
        loss = loss + functional.mse_loss(x[i], y[i])
    loss.backward()


def cells_of_a_table() -> None:
    labels, table = torch.arange(ROWS), torch.zeros(ROWS, 3)
    for row in range(ROWS):
        for column in range(3):
            table[row, column] = (labels[row] - column).abs().float()


def elements_of_two_tensors_in_one_line() -> None:
    predicted, labels, right = torch.randint(3, (ROWS,)), torch.randint(3, (ROWS,)), 0
    for i in range(ROWS):
        right += predicted[i].item() == labels[i].item()


def rows_one_by_one() -> None:
    for row in torch.randn(ROWS, 5):
        row.exp().sum()


def a_recurrent_cell() -> None:
    cell, x = nn.GRUCell(4, 4), torch.randn(ROWS, 2, 4)
    state = torch.zeros(2, 4)
    for t in range(ROWS):
        state = cell(x[t], state)


def discounted_returns() -> None:
    rewards, total = torch.randn(ROWS), torch.zeros(())
    for t in reversed(range(ROWS)):
        total = rewards[t] + 0.99 * total


def a_running_product_in_place() -> None:
    x = torch.rand(ROWS)
    for t in range(1, ROWS):
        x[t] = x[t - 1] * 0.5


def layers_in_turn() -> None:
    layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(ROWS)])
    x = torch.randn(3, 4)
    for layer in layers:
        x = layer(x)


def averages_of_parameters() -> None:
    weights = [torch.randn(4) for _ in range(ROWS)]
    averages = [torch.randn(4) for _ in range(ROWS)]
    for average, weight in zip(averages, weights, strict=True):
        average.mul_(0.99).add_(weight, alpha=0.01)


def a_rollout() -> None:
    policy, seen = nn.Linear(4, 2), torch.zeros(ROWS, 2)
    for t in range(ROWS):
        seen[t] = policy(torch.randn(4))


def test_rounds_that_need_each_other_or_share_no_tensor_are_left_alone() -> None:
    for step in (a_recurrent_cell, discounted_returns, a_running_product_in_place, layers_in_turn):
        assert rounds_at_once(ops_of(step)), step.__name__
    for step in (averages_of_parameters, a_rollout):
        assert "different parts of the same tensor" in rounds_at_once(ops_of(step)), step.__name__


def test_rounds_on_parts_of_one_tensor_can_be_done_at_once() -> None:
    lines = ("out", "loss =", "table", "row.", "right +=")
    for step in (
        rows_times_weights,
        losses_added_up,
        cells_of_a_table,
        rows_one_by_one,
        elements_of_two_tensors_in_one_line,
    ):
        ops = ops_of(step)
        loop = [op for op in ops if op.place is not None and op.place.source.startswith(lines)]
        assert rounds_at_once(loop) == "", step.__name__


def test_a_round_begins_where_the_first_one_began() -> None:
    ops = [op for op in ops_of(rows_times_weights) if op.place is not None and op.place.source.startswith("out[i]")]
    rounds = split_into_rounds(ops)
    assert [len(each) for each in rounds] == [5] * ROWS
    assert {tuple(op.name for op in each) for each in rounds} == {
        ("aten::select.int", "aten::select.int", "aten::mul.Tensor", "aten::select.int", "aten::copy_")
    }


def test_a_few_rounds_are_no_loop_to_speak_of() -> None:
    def three() -> None:
        x = torch.randn(3, 4)
        for i in range(3):
            x[i].exp()

    assert split_into_rounds(ops_of(three)) == []
    assert rounds_at_once(ops_of(three)) == "it has 0 rounds"
