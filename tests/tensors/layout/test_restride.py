"""Closing up: one linear way for each view, and one place for each byte."""

from itertools import pairwise
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood.tensors.layout.reachable import View
from cordwood.tensors.layout.restride import Box, close_up, round_up
from tests.tensors.support.storages import addresses, storages


def bytes_of(box: Box) -> list[int]:
    return list(addresses(box.offset, box.run, [count for count, _ in box.dims], [stride for _, stride in box.dims]))


def box_of(view: View) -> Box:
    dims = tuple((n, stride) for n, stride in zip(view.shape, view.strides, strict=True) if n > 1 and stride > 0)
    return Box(view.offset, dims, view.itemsize)


@settings(max_examples=400)
@given(storages())
def test_every_byte_has_one_place(drawn: tuple[int, list[View]]) -> None:
    boxes = [box_of(view) for view in drawn[1] if 0 not in view.shape]
    align = max((box.run for box in boxes), default=1)
    moved, size = close_up(boxes, align)
    there: dict[int, int] = {}
    for box, new in zip(boxes, moved, strict=True):
        assert [count for count, _ in new.dims] == [count for count, _ in box.dims]
        for source, target in zip(bytes_of(box), bytes_of(new), strict=True):
            assert there.setdefault(source, target) == target
    assert len(set(there.values())) == len(there)
    assert all(0 <= target < size for target in there.values())
    assert size <= max((box.end for box in boxes), default=0)


@given(st.permutations(range(4)), st.lists(st.integers(2, 4), min_size=4, max_size=4), st.lists(st.integers(0, 3)))
def test_a_lone_view_that_does_not_overlap_itself_becomes_dense(
    order: list[int], counts: list[int], gaps: list[int]
) -> None:
    stride, dims = 4, []
    for count, gap in zip(counts, [*gaps, 0, 0, 0, 0], strict=False):
        stride += 4 * gap
        dims.append((count, stride))
        stride *= count
    box = Box(40, tuple(dims[axis] for axis in order), 4)
    (moved,), size = close_up([box], 4)
    assert size == 4 * prod(counts)
    assert sorted(bytes_of(moved)) == list(range(size))
    # The order of the dimensions in memory is kept.
    ranked = [new for _, new in sorted(zip([s for _, s in box.dims], [s for _, s in moved.dims], strict=True))]
    assert all(one < other for one, other in pairwise(ranked))


@pytest.mark.parametrize(
    ("boxes", "align", "closed", "size"),
    [
        pytest.param([], 1, [], 0, id="nothing"),
        pytest.param([Box(7, (), 2)], 1, [Box(0, (), 2)], 2, id="one item"),
        pytest.param(
            [Box(0, ((100, 20), (5, 1)), 1), Box(3, ((100, 20), (5, 1)), 1)],
            1,
            [Box(0, ((100, 8), (5, 1)), 1), Box(3, ((100, 8), (5, 1)), 1)],
            800,
            id="columns that overlap",
        ),
        pytest.param(
            [Box(0, ((3, 20),), 1), Box(3 + 100, ((3, 20),), 1)],
            1,
            [Box(0, ((3, 1),), 1), Box(3, ((3, 1),), 1)],
            6,
            id="rows apart, each closed by itself",
        ),
        pytest.param(
            [Box(0, ((9, 20),), 1), Box(6, ((9, 20),), 1)],
            1,
            [Box(0, ((9, 2),), 1), Box(1, ((9, 2),), 1)],
            18,
            id="columns apart, between each other's bytes",
        ),
        pytest.param([Box(0, ((9, 8), (3, 8)), 4)], 4, [Box(0, ((9, 4), (3, 4)), 4)], 44, id="windows"),
        pytest.param(
            [Box(0, ((5, 12),), 1), Box(0, ((3, 18),), 1)],
            1,
            [Box(0, ((5, 2),), 1), Box(0, ((3, 3),), 1)],
            9,
            id="a common divisor of the strides",
        ),
        pytest.param(
            [Box(0, ((4, 10), (3, 1)), 1), Box(8, ((3, 10), (4, 1)), 1)],
            1,
            [Box(0, ((4, 5), (3, 1)), 1), Box(3, ((3, 5), (4, 1)), 1)],
            18,
            id="rows that begin elsewhere",
        ),
        pytest.param([Box(0, ((4, 3), (4, 2)), 1)], 1, [Box(0, ((4, 3), (4, 2)), 1)], 16, id="nothing in common"),
        pytest.param(
            [Box(0, ((2, 6), (2, 4), (2, 3)), 1)],
            1,
            [Box(0, ((2, 6), (2, 4), (2, 3)), 1)],
            14,
            id="a divisor of the larger strides that is no period",
        ),
        pytest.param(
            [Box(8, ((10, 32),), 8), Box(6, ((10, 32), (3, 1)), 1)],
            8,
            [Box(8, ((10, 16),), 8), Box(6, ((10, 16), (3, 1)), 1)],
            160,
            id="a period that the largest item fits",
        ),
    ],
)
def test_closed_up(boxes: list[Box], align: int, closed: list[Box], size: int) -> None:
    assert close_up(boxes, align) == (closed, size)


@pytest.mark.slow
def test_views_made_to_nest_without_end_are_left_at_some_depth() -> None:
    boxes = [Box(0, ((2, stride),), 1) for stride in range(1200, 1, -1)]
    moved, size = close_up(boxes, 1)
    assert size <= 1201
    assert len({box.dims for box in moved}) == len(boxes)


def test_rounding_up() -> None:
    assert [round_up(number, 8) for number in (0, 1, 8, 9)] == [0, 8, 8, 16]
