"""Who gets what in which step: every place exactly once, every rank as many batches, whoever goes on."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import UsageError
from cordwood.feed.order.steps import RankBatches

SMALL = st.tuples(st.integers(0, 60), st.integers(1, 9), st.integers(1, 7))


def ranks(length: int, batch_size: int, world_size: int, **how: bool) -> list[RankBatches]:
    return [RankBatches(length, batch_size, rank, world_size, **how) for rank in range(world_size)]


def run(team: list[RankBatches], consumed: int = 0, steps: int | None = None) -> tuple[list[list[list[int]]], int]:
    """The batches of each rank, and what is consumed afterwards, by all ranks the same."""
    batches: list[list[list[int]]] = [[] for _ in team]
    while len(batches[0]) != steps:
        (left,) = {one.left(consumed) for one in team}
        if not left:
            break
        for mine, one in zip(batches, team, strict=True):
            mine.append(one.positions(consumed).tolist())
        (consumed,) = {one.after(consumed) for one in team}
    return batches, consumed


def all_of(batches: list[list[list[int]]]) -> list[int]:
    return sorted(place for rank in batches for batch in rank for place in batch)


@pytest.mark.parametrize("world_size", range(1, 6))
def test_every_place_comes_exactly_once_and_every_rank_has_as_many_batches(world_size: int) -> None:
    for length, batch_size in itertools.product(range(40), range(1, 8)):
        batches, consumed = run(ranks(length, batch_size, world_size))
        assert consumed == length
        assert len({len(rank) for rank in batches}) == 1
        found = all_of(batches)
        tail = length % (batch_size * world_size)
        lent = batch_size > 1 and length > tail  # a step before the tail leaves some of its own to it
        repeated = world_size - tail if 0 < tail < world_size and not lent else 0
        assert len(found) == length + repeated
        assert sorted(set(found)) == list(range(length))
        for step in zip(*batches, strict=True):
            sizes = [len(batch) for batch in step]
            assert max(sizes) - min(sizes) <= 1
            assert min(sizes) >= 1
            assert max(sizes) <= batch_size
            if not repeated:  # the ranks in turn have the step's places in order
                together = [place for batch in step for place in batch]
                assert together == list(range(together[0], together[0] + len(together)))


@given(SMALL)
def test_drop_last_leaves_out_no_more_than_the_tail(small: tuple[int, int, int]) -> None:
    length, batch_size, world_size = small
    batches, consumed = run(ranks(length, batch_size, world_size, drop_last=True))
    stride = batch_size * world_size
    assert all_of(batches) == list(range(length // stride * stride))
    assert all(len(batch) == batch_size for rank in batches for batch in rank)
    assert consumed == (length if length >= stride else 0)


@given(SMALL)
def test_padding_fills_up_from_the_beginning(small: tuple[int, int, int]) -> None:
    length, batch_size, world_size = small
    batches, consumed = run(ranks(length, batch_size, world_size, pad=True))
    stride = batch_size * world_size
    assert consumed == length
    assert all(len(batch) == batch_size for rank in batches for batch in rank)
    in_order = [place for step in zip(*batches, strict=True) for batch in step for place in batch]
    assert in_order == [place % length for place in range(-(-length // stride) * stride)]


@given(
    st.integers(1, 80),
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 8), st.integers(0, 3)), max_size=4),
)
def test_any_number_of_ranks_goes_on_where_others_stopped(length: int, teams: list[tuple[int, int, int]]) -> None:
    """As long as nobody reached the tail, each place comes once, however often ranks and batch sizes change."""
    found: list[int] = []
    consumed = 0
    for batch_size, world_size, steps in teams:
        steps = min(steps, (length - consumed) // (batch_size * world_size))
        batches, consumed = run(ranks(length, batch_size, world_size), consumed, steps)
        found += all_of(batches)
    assert sorted(found) == list(range(consumed))
    rest, consumed = run(ranks(length, 4, 1), consumed)
    assert consumed == length
    assert sorted(found + all_of(rest)) == list(range(length))


def test_eight_ranks_stop_and_six_go_on_with_another_batch_size() -> None:
    before, consumed = run(ranks(1000, 16, 8), steps=3)
    assert consumed == 3 * 128
    after, end = run(ranks(1000, 10, 6), consumed)
    assert end == 1000
    assert sorted(all_of(before) + all_of(after)) == list(range(1000))


def test_an_epoch_without_its_tail_is_over_for_everyone() -> None:
    _, consumed = run(ranks(100, 16, 2, drop_last=True))
    assert consumed == 100
    assert RankBatches(100, 1, drop_last=True).left(consumed) == 0
    # In the middle of it, a smaller team may find more whole batches in what is left than a larger one.
    _, consumed = run(ranks(100, 16, 2, drop_last=True), steps=2)
    assert consumed == 64
    assert RankBatches(100, 6, drop_last=True).left(consumed) == 6


def test_a_rank_that_would_have_nothing_repeats_a_sample() -> None:
    batches, _ = run(ranks(10, 4, 4), consumed=8)
    assert batches == [[[8]], [[9]], [[8]], [[9]]]


@given(SMALL, st.booleans(), st.booleans(), st.integers(0, 30), st.data())
def test_steps_planned_together_are_the_same(
    small: tuple[int, int, int], drop_last: bool, pad: bool, many: int, data: st.DataObject
) -> None:
    length, batch_size, world_size = small
    one = RankBatches(
        length, batch_size, data.draw(st.integers(0, world_size - 1)), world_size, drop_last, pad and not drop_last
    )
    consumed = data.draw(st.integers(0, length))
    planned = one.blocks(consumed, many)
    expected: list[list[int]] = []
    while one.left(consumed) and len(expected) < many:
        expected.append(one.positions(consumed).tolist())
        consumed = one.after(consumed)
    assert planned.sizes.tolist() == [len(batch) for batch in expected]
    assert planned.positions.tolist() == [place for batch in expected for place in batch]
    assert planned.positions.dtype == planned.sizes.dtype == np.int64


def test_nothing_is_beyond_the_end() -> None:
    for length, consumed, drop_last in ((0, 0, False), (10, 10, False), (10, 8, True)):
        one = RankBatches(length, 4, drop_last=drop_last)
        assert one.left(consumed) == 0
        assert one.blocks(consumed, 5).sizes.tolist() == []
        with pytest.raises(IndexError, match=f"{consumed} of {length} places are consumed"):
            one.positions(consumed)


def test_lengths_of_trillions_cost_nothing() -> None:
    one = RankBatches(10**15 + 3, 256, rank=1023, world_size=1024)
    assert one.left(0) == -(-(10**15 + 3) // (256 * 1024))
    assert one.positions(one.after(0))[0] == 2 * 256 * 1024 - 256


@pytest.mark.parametrize("batch_size", [0, -1, 2.0, True, None, "8"])
def test_batch_sizes_that_cannot_be_are_refused(batch_size: object) -> None:
    with pytest.raises(UsageError, match="batch_size must be"):
        RankBatches(10, batch_size)  # type: ignore[arg-type]


def test_dropping_and_filling_up_are_refused_together() -> None:
    with pytest.raises(UsageError, match="only one of them"):
        RankBatches(10, 2, drop_last=True, pad=True)
