"""Storages and views to try: drawn at random, and by the operations that make views; and a plain model of both."""

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from cordwood.tensors.layout.reachable import StorageLayout, View, fill

ITEMSIZES = (1, 2, 4, 8, 16)


def view_of(array: npt.NDArray[np.generic], base: npt.NDArray[np.generic], *, fixed: bool = False) -> View:
    """What a NumPy view sees of the array that owns the memory."""
    offset = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return View(offset, array.itemsize, array.shape, array.strides, fixed)


def addresses(offset: int, itemsize: int, shape: Sequence[int], strides: Sequence[int]) -> Iterator[int]:
    """Every byte of every element, one by one."""
    for index in product(*map(range, shape)):
        first = offset + sum(i * stride for i, stride in zip(index, strides, strict=True))
        yield from range(first, first + itemsize)


def old_addresses(view: View) -> list[int]:
    return list(addresses(view.offset, view.itemsize, view.shape, view.strides))


def new_addresses(layout: StorageLayout, views: Sequence[View], number: int) -> list[int]:
    view, place = views[number], layout.placed[number]
    return list(addresses(place.offset, view.itemsize, view.shape, place.strides))


def filled(layout: StorageLayout, old: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The new storage. Bytes that belong to no group are 0; groups start from noise, which fill must remove."""
    new = np.zeros(layout.nbytes, np.uint8)
    for group in layout.groups:
        part = np.full(group.nbytes, 0xEE, np.uint8)
        fill(group, old[group.source : group.source + group.span], part)
        new[group.offset : group.offset + group.nbytes] = part
    return new


@st.composite
def _by_operations(draw: st.DrawFn, nbytes: int, row: int) -> View:
    """A slice, transposition, unfolding or expansion of the storage seen as a matrix or a cube."""
    itemsize = draw(st.sampled_from([size for size in ITEMSIZES if row % size == 0]))
    rows = nbytes // row
    planes = draw(st.sampled_from([n for n in (1, 2, 3) if rows % n == 0]))
    dims = [(rows // planes, row), (row // itemsize, itemsize)]
    dims = [(planes, row * rows // planes), *dims] if planes > 1 else dims
    offset = 0
    for _ in range(draw(st.integers(1, 4))):
        axis = draw(st.integers(0, len(dims) - 1)) if dims else 0
        operation = draw(
            st.sampled_from(["slice", "slice", "slice", "slice", "select", "transpose", "unfold", "expand", "flatten"])
        )
        if operation == "expand" and len(dims) < 4:
            dims.insert(axis, (draw(st.integers(1, 3)), draw(st.sampled_from([0, 0, itemsize * 5]))))
            dims[axis] = dims[axis] if dims[axis][1] == 0 else (1, dims[axis][1])
        if not dims:
            continue
        count, stride = dims[axis]
        if operation == "slice" and count > 0:
            start = draw(st.integers(0, (count - 1) // 2))
            stop = draw(st.sampled_from([count, count - 1, count // 2, start + 2, start]))
            start, stop = sorted((start, min(stop, count)))
            step = draw(st.integers(1, 3))
            offset += start * stride
            dims[axis] = (-((start - stop) // step), stride * step)
        elif operation == "select" and count > 0:
            offset += draw(st.integers(0, count - 1)) * stride
            del dims[axis]
        elif operation == "transpose":
            other = draw(st.integers(0, len(dims) - 1))
            dims[axis], dims[other] = dims[other], dims[axis]
        elif operation == "unfold" and count > 0 and len(dims) < 4:
            size, step = draw(st.integers(1, count)), draw(st.integers(1, 3))
            dims[axis] = ((count - size) // step + 1, stride * step)
            dims.append((size, stride))
        elif operation == "flatten" and axis and dims[axis - 1][1] == count * stride:
            dims[axis - 1 : axis + 1] = [(dims[axis - 1][0] * count, stride)]
    shape, strides = tuple(count for count, _ in dims), tuple(stride for _, stride in dims)
    return View(offset, itemsize, shape, strides, draw(st.integers(0, 9)) == 0)


@st.composite
def _at_random(draw: st.DrawFn, nbytes: int) -> View:
    """Anything that as_strided could make."""
    itemsize = draw(st.sampled_from(ITEMSIZES))
    offset = draw(st.integers(0, nbytes // itemsize - 1)) * itemsize
    left = nbytes - offset - itemsize
    dims = []
    for _ in range(draw(st.integers(0, 4))):
        stride = draw(st.integers(0, max(1, nbytes // itemsize // 4))) * itemsize
        count = draw(st.integers(0, 5))
        count = min(count, left // stride + 1) if stride else count
        left -= max(0, count - 1) * stride
        dims.append((count, stride))
    return View(offset, itemsize, tuple(count for count, _ in dims), tuple(stride for _, stride in dims))


@st.composite
def storages(draw: st.DrawFn) -> tuple[int, list[View]]:
    """The size of a storage and the views on it, most of them cut from one matrix so that they meet."""
    row = draw(st.sampled_from([4, 6, 8, 12, 16, 24, 32]))
    nbytes = row * draw(st.integers(-(-32 // row), 240 // row))
    kinds = st.one_of(_by_operations(nbytes, row), _by_operations(nbytes, row), _at_random(nbytes))
    views = draw(st.lists(kinds, max_size=4))
    for view in draw(st.lists(st.sampled_from(views), max_size=3)) if views else ():
        # Once more a little further on, by steps that make it meet the other or just miss it.
        step = draw(st.sampled_from([view.itemsize, row, *view.strides]))
        end = max(old_addresses(view), default=nbytes - 1) + 1
        further = min(draw(st.integers(1, 3)) * step, nbytes - end)
        views.append(view._replace(offset=view.offset + further // view.itemsize * view.itemsize))
    return nbytes, views
