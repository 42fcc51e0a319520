"""The strided copies that move bytes from the old storage to the new one, as few as possible.

# x[:, :2] of a float32 matrix with 100 rows and 8 columns, closed up
copy = Copy(src_offset=0, dst_offset=0, shape=(100,), src_strides=(32,), dst_strides=(8,), run=8)
copy_bytes(copy, source, out)
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from cordwood.tensors.layout.overlap import Reach

Bytes = npt.NDArray[np.uint8]

_LONG_RUN = 1 << 20  # from here on a run is copied as an array of bytes; NumPy's items cannot be of any size


@dataclass(frozen=True, slots=True)
class Copy:
    """Runs of ``run`` bytes that go from the old storage to the new, at every position of ``shape``.

    ``src_offset`` counts from the group's ``source``, ``dst_offset`` from its start in the new storage.
    """

    src_offset: int
    dst_offset: int
    shape: tuple[int, ...]
    src_strides: tuple[int, ...]
    dst_strides: tuple[int, ...]
    run: int

    def fills(self, nbytes: int) -> bool:
        """Whether this copy alone writes every byte: its places follow each other without a gap."""
        dense = self.run
        for count, stride in zip(reversed(self.shape), reversed(self.dst_strides), strict=True):
            if stride != dense:
                return False
            dense *= count
        return dense == nbytes


def copy_bytes(copy: Copy, source: Bytes, out: Bytes) -> None:
    """Does it. Items as long as a run, since NumPy copies items of any size about as fast as memory allows, but is slow
    at short inner dimensions."""
    item = f"V{copy.run}"
    tail: tuple[int, ...] = ()
    if copy.run in (1, 2, 4, 8):
        item = f"u{copy.run}"
    elif copy.run >= _LONG_RUN:
        item, tail = "u1", (1,)
    shape = (*copy.shape, *(copy.run for _ in tail))
    old: npt.NDArray[np.void] = np.ndarray(shape, item, source, copy.src_offset, (*copy.src_strides, *tail))
    new: npt.NDArray[np.void] = np.ndarray(shape, item, out, copy.dst_offset, (*copy.dst_strides, *tail))
    new[...] = old


def copy_in_place(reach: Reach, start: int, lead: int) -> Copy:
    """What is reached goes to where it was, counted from start, and lead bytes further on."""
    shape, strides = tuple(count for count, _ in reach.dims), tuple(stride for _, stride in reach.dims)
    return Copy(reach.offset - start, reach.offset - start + lead, shape, strides, strides, reach.run)


def copy_elements(
    src_offset: int,
    dst_offset: int,
    itemsize: int,
    shape: Sequence[int],
    src_strides: Sequence[int],
    dst_strides: Sequence[int],
) -> Copy:
    """A view's elements go to their new places, in as few dimensions as both sides allow."""
    run = itemsize
    dims: list[tuple[int, int, int]] = []  # the smallest stride first
    for source, target, count in sorted(zip(src_strides, dst_strides, shape, strict=True)):
        if count == 1 or source == 0:
            continue
        if not dims and source == target and source <= run:
            run += (count - 1) * source
            continue
        if dims:
            inner_count, inner_source, inner_target = dims[-1]
            steps = source // inner_source
            if source == steps * inner_source and target == steps * inner_target and steps <= inner_count:
                dims[-1] = inner_count + steps * (count - 1), inner_source, inner_target
                continue
        dims.append((count, source, target))
    dims.reverse()
    counts, sources, targets = (tuple(dim[part] for dim in dims) for part in range(3))
    return Copy(src_offset, dst_offset, counts, sources, targets, run)


def joined(copies: Iterable[Copy]) -> tuple[Copy, ...]:
    """Those that go on where another ends, or begin inside it, become one with it."""
    families: dict[tuple[object, ...], list[Copy]] = {}
    for copy in sorted(set(copies), key=lambda copy: (copy.src_offset, copy.dst_offset)):
        family = families.setdefault(_kin(copy), [])
        both = _union(family[-1], copy) if family else None
        if both:
            family[-1] = both
        else:
            family.append(copy)
    return tuple(copy for family in families.values() for copy in family)


def _kin(copy: Copy) -> tuple[object, ...]:
    """Alike for copies that can be joined: the same in all but the first dimension's count and where it begins."""
    if not copy.shape:
        return (copy.dst_offset - copy.src_offset,)
    return copy.shape[1:], copy.src_strides, copy.dst_strides, copy.run, copy.src_offset % copy.src_strides[0]


def _union(one: Copy, other: Copy) -> Copy | None:
    """One copy that does the work of two kin, the second of which begins no earlier; None if there is a gap."""
    ahead = other.src_offset - one.src_offset
    if not one.shape:
        return replace(one, run=max(one.run, ahead + other.run)) if ahead <= one.run else None
    rows = ahead // one.src_strides[0]
    if rows > one.shape[0] or other.dst_offset - one.dst_offset != rows * one.dst_strides[0]:
        return None
    return replace(one, shape=(max(one.shape[0], rows + other.shape[0]), *one.shape[1:]))
