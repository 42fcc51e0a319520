"""Short frames, as stores have them, and small arrays of every kind to make them of."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from cordwood.codecs.dtypes import DTYPES
from cordwood.codecs.plan import Plan
from cordwood.native import _native
from tests.codecs.support.definitions import Array
from tests.format.support.samples import few_floats, random_bits, smooth

KINDS = ("noise", "few", "constant", "near", "smooth")


def short_frames(arrays: Sequence[Array], plan: Plan, threads: int = 1) -> list[bytes]:
    """A frame for each array, as the writer of a store makes it: short where it can be."""
    items = tuple((array, array.shape, plan.encoder(array.ndim, short=True)) for array in arrays)
    made: list[Any] = _native.encode_batch(items, threads)
    assert all(isinstance(frame, bytes) for frame in made), made
    return made


def short_frame(array: Array, plan: Plan) -> bytes:
    (made,) = short_frames([array], plan)
    return made


def smallest(array: Array, plan: Plan) -> int:
    """Of the frames that each of the plan's chains makes by itself, that of its best one."""
    sizes = []
    for chain in plan.chains:
        alone = replace(plan, chains=(chain,))
        made = _native.encode(array, array.shape, alone.encoder(array.ndim, short=True, resorts=False), 1)
        if isinstance(made, bytes):  # else the palette lacks a value
            sizes.append(len(made))
    return min(sizes)


def is_short(frame: bytes) -> bool:
    return frame[0] < 64


def array_of(kind: str, dtype: str, shape: tuple[int, ...], seed: int) -> Array:
    """Noise, few values, one value, values near another (bits that differ in the lowest ones), or a wave."""
    told = DTYPES[dtype]
    if kind == "noise" or (dtype == "bool" and kind in ("few", "near", "smooth")):
        return random_bits(dtype, shape, seed)
    if kind == "few":
        return few_floats(dtype, shape, seed)
    if kind == "smooth" and told.kind == "integer":
        return smooth(shape, dtype, seed).astype(told.numpy)
    one = random_bits(dtype, (), seed)
    if kind == "constant":
        return np.broadcast_to(one, shape).copy()
    whole = np.broadcast_to(one, shape).copy()
    nbytes = whole.reshape(-1).view(np.uint8).reshape(-1, told.numpy.itemsize)
    nbytes[:, 0] += np.random.default_rng(seed).integers(0, 1 + seed % 9, len(nbytes), np.uint8)
    return whole


def arrays(dtype: str, shapes: st.SearchStrategy[tuple[int, ...]]) -> st.SearchStrategy[Array]:
    """Small arrays of this dtype."""
    return st.builds(array_of, st.sampled_from(KINDS), st.just(dtype), shapes, st.integers(0, 999))


def shapes(most: int = 12) -> st.SearchStrategy[tuple[int, ...]]:
    """Of up to four dimensions, some of them empty."""
    return st.lists(st.integers(0, most), max_size=4).map(tuple)
