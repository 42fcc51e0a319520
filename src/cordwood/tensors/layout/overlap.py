"""Finds views that share bytes, exactly and not only by their first and last byte.

    a = reach_of(0, 4, (1000, 2), (32, 4))  # x[:, 0:2] of a float32 matrix of 8 columns
    b = reach_of(8, 4, (1000, 2), (32, 4))  # x[:, 2:4]: the hulls overlap, the bytes do not
    connected([a, b])  # two clusters of one

Three ways, the cheapest that answers is taken. Hulls that do not meet settle most of it. Views that repeat alike, as
columns of one matrix do, meet where they meet within one period. The rest is painted: every view paints its number on a
strip that stands for a window of the storage, and the numbers already under the brush are those it shares bytes with.
The strip has a fixed length, so memory does not grow with the storage.
"""

from collections.abc import Iterator, Sequence
from math import gcd, prod
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Dims = tuple[tuple[int, int], ...]  # (count, stride), the largest stride first

MOST_DIMS = 30  # what NumPy takes, less one for the bytes of a run
_STRIP = 1 << 20  # granules painted at once
_DEPTH = 16  # how often, on average, a granule may be painted before the question is given up
_FREE = 1 << 28  # granules that may be painted in any case


class Reach(NamedTuple):
    """The bytes that a view reaches: runs of ``run`` bytes, repeated along ``dims``. No dims: every byte from
    ``offset`` to ``end``.

    ``is_rough``: the view visits its bytes so much oftener than there are bytes that it stands for its whole hull.
    """

    offset: int
    end: int
    run: int
    dims: Dims = ()
    is_rough: bool = False


class Cluster(NamedTuple):
    """Views connected by shared bytes, by their numbers, and whether every byte of their hull is reached."""

    members: list[int]
    is_dense: bool


def reach_of(offset: int, itemsize: int, shape: Sequence[int], strides: Sequence[int]) -> Reach | None:
    """What a view reaches, in a form that is the same for views that reach alike in simple ways; None if nothing.

    Dimensions that only visit the same bytes again, as those of ``unfold`` do, are folded into one.
    """
    run, extent = itemsize, itemsize
    dims: list[tuple[int, int]] = []  # the smallest stride first
    for stride, count in sorted(zip(strides, shape, strict=True)):
        if count == 0:
            return None
        if count == 1 or stride == 0:
            continue
        extent += (count - 1) * stride
        if stride <= run:  # only ever before the first gap: strides come in rising order
            run += (count - 1) * stride
        elif dims and stride % dims[-1][1] == 0 and stride // dims[-1][1] <= dims[-1][0]:
            inner_count, inner = dims[-1]
            dims[-1] = inner_count + stride // inner * (count - 1), inner
        else:
            dims.append((count, stride))
    visits = prod(count for count, _ in dims)
    end = offset + extent
    if len(dims) > MOST_DIMS or visits > 65536 + 4 * (extent // itemsize):
        return Reach(offset, end, extent, is_rough=True)
    return Reach(offset, end, run, tuple(reversed(dims)))


def connected(reaches: Sequence[Reach]) -> list[Cluster]:
    """The reaches in clusters that share no byte with each other, in the order of their first bytes."""
    first: dict[Reach, list[int]] = {}
    for number, reach in enumerate(reaches):
        first.setdefault(reach, []).append(number)
    distinct = list(first)
    clusters = [
        Cluster([number for each in members for number in first[each]], dense)
        for hull in _hulls(distinct)
        for members, dense in _within_hull(hull)
    ]
    return sorted(clusters, key=lambda cluster: min(reaches[number].offset for number in cluster.members))


def _hulls(reaches: list[Reach]) -> Iterator[list[Reach]]:
    """Those whose hulls form one interval without a break."""
    hull: list[Reach] = []
    end = 0
    for reach in sorted(reaches):
        if hull and reach.offset >= end:
            yield hull
            hull = []
        end = max(end, reach.end) if hull else reach.end
        hull.append(reach)
    if hull:
        yield hull


def _within_hull(reaches: list[Reach]) -> Iterator[tuple[list[Reach], bool]]:
    """Splits what forms one hull; the reaches are sorted and distinct."""
    if len(reaches) == 1:
        # Folded as it is, a lone reach with dimensions left has a gap behind its first run.
        yield reaches, not reaches[0].dims
        return
    start, end = reaches[0].offset, max(reach.end for reach in reaches)
    if all(not reach.dims for reach in reaches) or any(
        not reach.dims and reach.offset == start and reach.end == end for reach in reaches
    ):
        yield reaches, True
        return
    if not reaches[0].dims:
        yield from _paint(reaches)
        return
    count, period = reaches[0].dims[0]
    rest = (count - 1) * period
    if any(
        not reach.dims or reach.dims[0] != (count, period) or reach.end - rest - start > period for reach in reaches
    ):
        yield from _paint(reaches)
        return
    # All repeat alike, and within one period none runs into the next: one period tells it all.
    whole = {reach._replace(end=reach.end - rest, dims=reach.dims[1:]): reach for reach in reaches}
    for cluster in _hulls(list(whole)):
        for members, dense in _within_hull(cluster):
            width = max(reach.end for reach in members) - members[0].offset
            yield [whole[each] for each in members], dense and width == period


def _paint(reaches: list[Reach]) -> Iterator[tuple[list[Reach], bool]]:
    start, end = reaches[0].offset, max(reach.end for reach in reaches)
    granule = gcd(*(gcd(reach.run, reach.offset - start, *(stride for _, stride in reach.dims)) for reach in reaches))
    span = (end - start) // granule
    strokes = sum(reach.run // granule * prod(count for count, _ in reach.dims) for reach in reaches)
    if strokes > max(_FREE, _DEPTH * span):
        yield reaches, False  # taken as connected: no sharing is lost, only perhaps a gap not closed
        return
    canvas = _Canvas(len(reaches), min(span, _STRIP))
    scaled = [_scaled(reach, start, granule) for reach in reaches]
    waiting, active = 0, list[int]()
    for low in range(0, span, _STRIP):
        high = min(low + _STRIP, span)
        active = [number for number in active if scaled[number].end > low]
        while waiting < len(scaled) and scaled[waiting].offset < high:
            active.append(waiting)
            waiting += 1
        for number in active:
            reach = scaled[number]
            for offset, dims, run in _cut(reach.offset, reach.dims, reach.run, low, high):
                canvas.stroke(number, offset - low, dims, run)
        canvas.turn(high - low)
    for members, painted in canvas.clusters():
        cluster = [reaches[number] for number in members]
        hull = max(reach.end for reach in cluster) - cluster[0].offset
        yield cluster, painted * granule == hull


def _scaled(reach: Reach, start: int, granule: int) -> Reach:
    dims = tuple((count, stride // granule) for count, stride in reach.dims)
    return Reach((reach.offset - start) // granule, (reach.end - start) // granule, reach.run // granule, dims)


def _cut(offset: int, dims: Dims, run: int, low: int, high: int) -> Iterator[tuple[int, Dims, int]]:
    """The part of a reach between low and high, in boxes: the rows wholly inside as one, rows that cross by
    themselves."""
    if not dims:
        first, last = max(offset, low), min(offset + run, high)
        if first < last:
            yield first, (), last - first
        return
    (count, stride), inner = dims[0], dims[1:]
    extent = run + sum((n - 1) * s for n, s in inner)
    touching = max(0, -((offset + extent - 1 - low) // stride)), min(count, -((offset - high) // stride))
    inside = max(0, -((offset - low) // stride)), min(count, (high - extent - offset) // stride + 1)
    if inside[0] >= inside[1]:
        inside = touching[1], touching[1]
    else:
        yield offset + inside[0] * stride, ((inside[1] - inside[0], stride), *inner), run
    for row in (*range(touching[0], inside[0]), *range(inside[1], touching[1])):
        yield from _cut(offset + row * stride, inner, run, low, high)


class _Canvas:
    """The strip of labels, and which labels have been found to be one."""

    def __init__(self, count: int, length: int) -> None:
        self._strip: npt.NDArray[np.int32] = np.zeros(length, np.int32)  # 0: not painted
        self._parent = list(range(count + 1))
        self._painted: npt.NDArray[np.int64] = np.zeros(count + 1, np.int64)

    def stroke(self, number: int, offset: int, dims: Dims, run: int) -> None:
        label = number + 1
        shape = *(count for count, _ in dims), run
        strides = *(4 * stride for _, stride in dims), 4
        box: npt.NDArray[np.int32] = np.ndarray(shape, np.int32, self._strip, 4 * offset, strides)
        lowest, highest = int(box.min()), int(box.max())
        found = [lowest] if lowest == highest else np.flatnonzero(np.bincount(box.ravel())).tolist()
        for other in found:
            if other:
                self._unite(label, other)
        if lowest == 0:
            box[...] = label

    def turn(self, length: int) -> None:
        """Counts what is painted and clears the strip for the next window."""
        strip = self._strip[:length]
        self._painted += np.bincount(strip, minlength=len(self._parent))
        strip[...] = 0

    def clusters(self) -> list[tuple[list[int], int]]:
        """Members of each cluster, and how many granules they reach together."""
        members: dict[int, list[int]] = {}
        painted: dict[int, int] = {}
        for label in range(1, len(self._parent)):
            root = self._root(label)
            members.setdefault(root, []).append(label - 1)
            painted[root] = painted.get(root, 0) + int(self._painted[label])
        return [(members[root], painted[root]) for root in members]

    def _unite(self, one: int, other: int) -> None:
        a, b = self._root(one), self._root(other)
        self._parent[max(a, b)] = min(a, b)

    def _root(self, label: int) -> int:
        parent = self._parent
        while parent[label] != label:
            parent[label] = label = parent[parent[label]]
        return label
