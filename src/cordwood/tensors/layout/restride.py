"""Moves the views of a storage closer together: removes gaps that no view reaches, and preserves what they share.

    # x[:, :5] and x[:, 3:8] of a uint8 matrix with 100 rows and 20 columns
    boxes = [Box(0, ((100, 20), (5, 1)), 1), Box(3, ((100, 20), (5, 1)), 1)]
    close_up(boxes, 1)  # [Box(0, ((100, 8), (5, 1)), 1), Box(3, ((100, 8), (5, 1)), 1)], 800

The idea is that of rows and columns. Where a period is found that every view keeps, so that an address is
``period * outer + inner`` and no view runs over from one period into the next, the views are projected on both, each
projection is closed up by the same rule, and the size of the closed inner part is the new period. An address goes to
one address for all views, so sharing is kept; and the way there is linear in each view's indices, so strides can tell
it.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import gcd
from typing import NamedTuple

MOST_LEVELS = 64  # as many as a tensor has dimensions; views made to have more must not exhaust the stack


class Box(NamedTuple):
    """What a view reaches, its dimensions (count, stride) in its own order; counts over 1, strides over 0."""

    offset: int
    dims: tuple[tuple[int, int], ...]
    run: int

    @property
    def end(self) -> int:
        """Behind the last byte."""
        return self.offset + sum((count - 1) * stride for count, stride in self.dims) + self.run


def round_up(number: int, multiple: int) -> int:
    """The next multiple, or the number itself if it is one."""
    return -(-number // multiple) * multiple


def close_up(boxes: Sequence[Box], align: int, levels: int = MOST_LEVELS) -> tuple[list[Box], int]:
    """The boxes in their new places, in the same order, and the size of it all.

    Offsets keep what they are modulo ``align`` where the strides are multiples of it; the caller checks the rest.
    ``levels``: how many periods may lie within each other before it is left at that.
    """
    order = sorted(range(len(boxes)), key=lambda number: boxes[number].offset)
    moved = list(boxes)
    size = 0
    first = 0
    while first < len(order):
        base = boxes[order[first]].offset // align * align
        end = base
        last = first
        while last < len(order) and (last == first or boxes[order[last]].offset // align * align < end):
            end = max(end, boxes[order[last]].end)
            last += 1
        members = order[first:last]
        start = round_up(size, align)
        closed, length = _close_island(
            [boxes[number]._replace(offset=boxes[number].offset - base) for number in members],
            align,
            end - base,
            levels,
        )
        for number, box in zip(members, closed, strict=True):
            moved[number] = box._replace(offset=box.offset + start)
        size = start + length
        first = last
    return moved, size


def _close_island(boxes: list[Box], align: int, length: int, levels: int) -> tuple[list[Box], int]:
    """The same for boxes whose hulls leave no gap."""
    for period in _periods(boxes) if levels else ():
        phase = _phase(boxes, period, align)
        if phase is None:
            continue
        outer, _ = close_up([_outer(box, period, phase) for box in boxes], 1, levels - 1)
        inner, width = close_up([_inner(box, period, phase) for box in boxes], align, levels - 1)
        moved = _product(boxes, period, outer, inner, round_up(width, align))
        base = min(box.offset for box in moved) // align * align
        moved = [box._replace(offset=box.offset - base) for box in moved]
        size = max(box.end for box in moved)
        # Rounding for the largest item can cost more than the gaps.
        return (moved, size) if size <= length else (boxes, length)
    return boxes, length


def _periods(boxes: list[Box]) -> Iterator[int]:
    """The largest first: each divides all strides that are not smaller than itself."""
    strides = sorted({stride for box in boxes for _, stride in box.dims}, reverse=True)
    period = 0
    for stride, following in pairwise([*strides, 1]):
        period = gcd(period, stride)
        if period > following:
            yield period


def _phase(boxes: list[Box], period: int, align: int) -> int | None:
    """Where a period can begin so that no box's inner part lies across the beginning.

    One that is longer than the period lies across every beginning.
    """
    intervals = []
    for box in boxes:
        extent = box.run + sum((count - 1) * stride for count, stride in box.dims if stride < period)
        intervals.append((box.offset % period, box.offset % period + extent))
    covered = max(0, max(end for _, end in intervals) - period)
    for start, end in sorted(intervals):
        if start // align * align >= covered:
            return start // align * align
        covered = max(covered, end)
    return None


def _outer(box: Box, period: int, phase: int) -> Box:
    dims = tuple((count, stride // period) for count, stride in box.dims if stride >= period)
    return Box((box.offset - phase) // period, dims, 1)


def _inner(box: Box, period: int, phase: int) -> Box:
    return Box((box.offset - phase) % period, tuple(dim for dim in box.dims if dim[1] < period), box.run)


def _product(boxes: list[Box], period: int, outer: list[Box], inner: list[Box], width: int) -> list[Box]:
    """The projections put together again, every dimension at its old place."""
    moved = []
    for box, rows, columns in zip(boxes, outer, inner, strict=True):
        strides = (iter(rows.dims), iter(columns.dims))
        dims = tuple(
            (count, next(strides[0])[1] * width) if stride >= period else (count, next(strides[1])[1])
            for count, stride in box.dims
        )
        moved.append(Box(rows.offset * width + columns.offset, dims, box.run))
    return moved
