"""Replays: the same program with the same strides; with another layout, what a mended script would do."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn
from torch.nn import functional

from cordwood.doctor.evidence.findings import Abstain
from cordwood.doctor.evidence.tape import Op, Tape
from cordwood.doctor.replay import leaves
from cordwood.doctor.replay import replay as replaying
from cordwood.doctor.replay.replay import Replay, compare, op_times, replayable
from tests.doctor.support.tapes import record


def recorded_strides(op: Op) -> list[tuple[int, ...]]:
    return [meta.stride for meta in [*op.inputs, *op.outputs]]


def training(mended: bool = False) -> Callable[[], None]:
    """A step with a transposed tensor that goes through a chain of operations and back."""
    torch.manual_seed(1)
    embedding, first, norm = nn.Embedding(10, 8), nn.Linear(8, 6), nn.LayerNorm(5)
    attention = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)
    parameters = [each for part in (embedding, first, norm, attention) for each in part.parameters()]
    optimizer = torch.optim.AdamW(parameters)
    words, bias = torch.randint(10, (4, 5)), torch.randn(6, 5)

    def step() -> None:
        embedded = embedding(words)
        hidden = first(embedded + attention(embedded, embedded, embedded, need_weights=False)[0])
        turned = hidden.transpose(1, 2)
        if mended:
            turned = turned.contiguous()
        loss = norm(functional.gelu(turned + bias) * turned).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def turned(tape: Tape) -> int:
    """The number of the tensor that `training` transposes."""
    op = next(op for op in tape.ops if op.place is not None and op.place.source == "turned = hidden.transpose(1, 2)")
    return op.outputs[0].number


def test_a_replay_gives_every_operation_the_strides_of_the_run() -> None:
    tape = record(training())
    replay = Replay(tape)
    assert len(replay.run()) == len(tape.ops)
    assert [list(each) for each in replay.strides()] == [recorded_strides(op) for op in tape.ops]


def test_a_contiguous_copy_has_the_consequences_that_it_has_in_the_script() -> None:
    tape, mended = record(training()), record(training(mended=True))
    replayed = Replay(tape).with_contiguous({turned(tape)})
    expected = [(op.name, recorded_strides(op)) for op in mended.ops if op.name != "aten::clone" or not op.is_direct]
    # The transposing operation itself shows the strides of the copy that follows it.
    given = [(op.name, [*strides]) for op, strides in zip(tape.ops, replayed.strides(), strict=True)]
    at = next(index for index, op in enumerate(tape.ops) if op.outputs and op.outputs[0].number == turned(tape))
    assert given[at][1][-1] == (30, 5, 1)
    assert expected[at][1][-1] == (30, 1, 6)
    assert given[:at] + given[at + 1 :] == expected[:at] + expected[at + 1 :]
    before = Replay(tape).strides()
    assert sum(strides != [*old] for (_, strides), old in zip(given, before, strict=True)) > 5


def test_channels_last_is_another_layout() -> None:
    images = torch.randn(2, 5, 4, 3)
    tape = record(lambda: (images.permute(0, 2, 3, 1) * 2).exp())
    number = tape.ops[0].outputs[0].number
    straight = Replay(tape).with_contiguous({number})
    last = Replay(tape).with_contiguous({number}, torch.channels_last)
    assert straight.strides()[-1] == ((60, 15, 5, 1),) * 2
    assert last.strides()[-1] == ((60, 1, 20, 4),) * 2


def test_random_numbers_of_the_script_are_not_touched() -> None:
    generator = torch.Generator().manual_seed(3)
    weights = torch.ones(5)

    def step() -> None:
        functional.dropout(weights)
        torch.rand(3, generator=generator)
        torch.multinomial(weights, 2)

    tape = record(step)
    states = torch.get_rng_state(), generator.get_state()
    Replay(tape).run()
    op_times(tape)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert torch.equal(generator.get_state(), states[1])


def test_the_tensors_of_the_script_are_not_touched() -> None:
    weights = torch.ones(5)
    tape = record(lambda: weights.mul_(2))
    assert weights.tolist() == [4.0] * 5
    Replay(tape).run()
    assert weights.tolist() == [4.0] * 5


def test_positions_are_the_real_ones_and_what_depends_on_values_is_given() -> None:
    table, words = torch.randn(50, 4), torch.tensor([49, 0, 7])
    scores = torch.tensor([0.1, 3.9, 2.2])

    def step() -> None:
        table[words].exp()
        chosen = table[:3][scores > 1]
        chosen.sum(0)
        table[torch.nonzero(scores > 1)].sin()
        table[(scores * 10).long()].cos()
        table.sum().item()

    tape = record(step)
    names = [op.name for op in tape.ops if op.is_opaque]
    assert names == ["aten::index.Tensor", "aten::nonzero", "aten::_to_copy", "aten::_local_scalar_dense"]
    replay = Replay(tape)
    assert len(replay.run()) == len(tape.ops)
    assert [list(each) for each in replay.strides()] == [recorded_strides(op) for op in tape.ops]


def test_leaves_share_memory_as_the_real_ones_do() -> None:
    memory = torch.arange(24.0)
    rows, columns = memory.view(4, 6), memory.view(4, 6).t()[1:4]
    tape = record(lambda: (rows.exp(), columns.sin()))
    with Replay(tape).leaves.ready({}) as tensors:
        one, other = (tensors[op.inputs[0].number] for op in tape.ops)
        assert other.stride() == (1, 6)
        assert one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
        assert other.data_ptr() - one.data_ptr() == 4
        assert torch.equal(one.t()[1:4], other)
        assert {*one.flatten().tolist()} <= {*range(24)}


def test_overlapping_and_expanded_leaves_are_made() -> None:
    windows = torch.arange(6.0).unfold(0, 3, 1)
    mask = torch.tensor([[True], [False]]).expand(2, 3)
    tape = record(lambda: (windows + 1, mask.logical_not(), torch.empty(0, 3) + torch.zeros(0, 3)))
    with Replay(tape).leaves.ready({}) as tensors:
        made = {tuple(tensor.shape): tensor for tensor in tensors.values()}
        assert made[4, 3].stride() == (1, 1)
        assert made[2, 3].tolist() == [[True] * 3, [False] * 3]
    Replay(tape).run()


def test_what_a_step_writes_to_starts_every_run_with_the_same_values() -> None:
    images = torch.full((4,), 1e30)
    tape = record(lambda: images.div_(2.0))
    replay = Replay(tape)
    for _ in range(300):
        replay.run()
    with replay.leaves.ready({}) as tensors:
        assert next(iter(tensors.values())).min() > 1e29


def test_too_large_steps_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    big = torch.ones(3)
    tape = record(lambda: torch.ones(3) * big)
    monkeypatch.setattr(leaves, "_MOST_BYTES", 11)
    with pytest.raises(Abstain, match=r"12 B; up to 11 B are made again"):
        replayable(tape)


def test_the_memory_of_a_replay_is_known_before_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = torch.ones(1000)

    def step() -> None:
        first = weight.exp()
        second = first.sin()  # two are held here, beside the weight
        del first
        second[:500].cos()

    tape = record(step)
    assert leaves.peak_bytes(tape) == {torch.device("cpu"): 12_000}
    monkeypatch.setattr(leaves, "available_memory", lambda: 19_000)
    with pytest.raises(Abstain, match=r"takes 12.0 kB of memory, and 19.0 kB are free"):
        replayable(tape)
    monkeypatch.setattr(leaves, "available_memory", lambda: 21_000)
    assert replayable(tape)


def test_an_operation_that_takes_not_all_values_is_given_instead() -> None:
    matrix = torch.eye(4) * 3 + 1

    def step() -> None:
        factor = torch.linalg.cholesky(matrix.clone())
        factor.exp()

    tape = record(step)
    for leaf in tape.leaves.values():
        assert leaf.sample is not None
        leaf.sample.fill_(-1.0)
    replay = replayable(tape)
    assert [op.name for op in tape.ops if op.is_opaque] == ["aten::_linalg_check_errors"]
    assert len(replay.run()) == len(tape.ops)


def test_a_step_of_operations_that_cannot_run_again_is_refused() -> None:
    tape = record(lambda: torch.ones(3) * 2)
    for op in tape.ops:
        op.is_opaque = True
        op.nanoseconds = 1000
    with pytest.raises(Abstain, match="cannot be run again"):
        op_times(tape)


def test_a_copy_that_the_script_asks_for_is_not_made_of_what_is_contiguous_already() -> None:
    x = torch.randn(3, 4)
    tape = record(lambda: x.t().exp().reshape(-1).sin())
    number = tape.ops[0].outputs[0].number
    at = next(index for index, op in enumerate(tape.ops) if op.name == "aten::clone")
    mended = Replay(tape).with_contiguous({number})
    assert mended.run()[at] == 0.0
    assert Replay(tape).run()[at] > 0.0


def test_leaves_of_a_step_are_copied_in_it_and_those_that_live_on_before_it() -> None:
    kept = torch.randn(4, 3).t()
    fresh = iter([torch.randn(4, 3).t(), torch.randn(4, 3).t()])
    tape = record(lambda: kept + next(fresh))
    numbers = set(tape.leaves)
    assert sorted(leaf.is_kept for leaf in tape.leaves.values()) == [False, True]
    replay = Replay(tape).with_contiguous(numbers)
    with replay.leaves.ready(replay.changes) as tensors:
        contiguous = {number: tensors[number].is_contiguous() for number in numbers}
    assert contiguous == {number: leaf.is_kept for number, leaf in tape.leaves.items()}
    assert replay.strides()[-1] == ((4, 1),) * 3


class Scripted(Replay):
    """Its times are given, not measured."""

    def with_times(self, rows: Iterator[list[float]]) -> "Scripted":
        self.rows = rows
        return self

    def run(self) -> list[float]:
        return next(self.rows)


def scripted(before: list[list[float]], after: list[list[float]]) -> tuple[Replay, Replay]:
    x = torch.randn(3, 4)
    tape = record(lambda: (x + 1, x.t().exp()))
    number = tape.ops[1].outputs[0].number
    replay = Scripted(tape).with_times(iter(before))
    return replay, Scripted(tape, {number: torch.contiguous_format}, replay.leaves).with_times(iter(after))


def test_only_operations_with_other_strides_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "_FEWEST_PAIRS", 4)
    before = [[50.0, 1.0, 7.0], [90.0, 1.0, 7.0], [10.0, 1.0, 7.0], [10.0, 1.0, 7.0]]
    after = [[10.0, 2.0, 3.0], [10.0, 2.0, 3.0], [10.0, 2.0, 3.0], [99.0, 2.0, 3.0]]
    gain = compare(*scripted(before, after), seconds=0.0)
    assert gain.saves_ms == pytest.approx(3.0)
    assert gain.spread_ms == pytest.approx(0.005 * 8.0)
    assert gain.before_ms == pytest.approx(18.0)
    assert gain.after_ms == pytest.approx(15.0)
    assert gain.is_sure


def test_a_gain_within_the_noise_is_not_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "_FEWEST_PAIRS", 6)
    before = [[1.0, 0.0, each] for each in (5.0, 9.0, 7.0, 6.0, 8.0, 5.5)]
    after = [[1.0, 0.0, each] for each in (8.0, 4.5, 9.5, 7.5, 6.0, 5.5)]
    gain = compare(*scripted(before, after), seconds=0.0)
    assert not gain.is_sure


def test_the_same_program_gains_nothing() -> None:
    tape = record(training())
    gain = compare(Replay(tape), Replay(tape), 0.0)
    assert (gain.saves_ms, gain.is_sure) == (0.0, False)


def test_operation_times_are_measured_once() -> None:
    tape = record(training())
    times = op_times(tape)
    assert len(times) == len(tape.ops)
    assert all(each >= 0 for each in times)
    assert op_times(tape) is times
