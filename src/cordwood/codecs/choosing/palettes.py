"""Finds the palettes that floats can have: few distinct values, for the whole array or per channel.

>>> palette_of([normalised_photograph], DTYPES["float32"], own=False)
(Palette(axis=-3, bits=8, source='formula', formula=...), b'')
"""

from collections.abc import Sequence

import numpy as np

from cordwood.codecs.assets import varint
from cordwood.codecs.dtypes import Array, DType
from cordwood.codecs.formula import fit
from cordwood.codecs.stages.palette import Palette
from cordwood.native import _native

_LOOK = 8192  # values
_MOST_PALETTES = 64


def palette_of(samples: Sequence[Array], dtype: DType, *, own: bool) -> tuple[Palette, bytes] | None:
    """The palette stage that these floats can have, and the palettes as assets keep them if the plan shall own them."""
    if dtype.kind != "float":
        return None
    ranks = {array.ndim for array in samples}
    axes = [-3, -1] if min(ranks) >= 3 else []
    for axis in (*axes, None):
        counts = {array.shape[axis] if axis is not None else 1 for array in samples}
        if len(counts) != 1 or not 1 <= next(iter(counts)) <= _MOST_PALETTES:
            continue
        for bits in (8,) if axis is not None or dtype.itemsize == 2 else (8, 16):
            if bits == 16 and _hardly_repeats(samples):
                continue
            values = _distinct(samples, dtype, axis, next(iter(counts)), bits)
            if values is None:
                continue
            found = sum(map(len, values))
            if bits == 16 and found > _most_worth(samples):
                continue
            if dtype.itemsize == 2 and found * 2 > sum(array.size for array in samples):
                continue  # values that hardly repeat are no levels, and looking for a formula takes long
            formula = fit(values, dtype) if bits == 8 else None
            if formula is not None:
                return Palette(axis, bits, "formula", formula), b""
            if own and len(ranks) == 1:
                return Palette(axis, bits, "plan"), _palette_part(values, dtype, axis, bits, ranks.pop())
            return Palette(axis, bits, "frame"), b""
    return None


def has_levels(array: Array, dtype: DType, axis: int | None) -> bool:
    """Whether a float array by itself has few values, on this axis."""
    palettes = array.shape[axis] if axis is not None else 1
    values = _distinct([array], dtype, axis, palettes, 8) if palettes <= _MOST_PALETTES else None
    return values is not None and 2 * sum(map(len, values)) <= array.size


def _most_worth(samples: Sequence[Array]) -> float:
    """Values that a palette of 16-bit codes may have: in the frame it must pay for itself."""
    return sum(array.size for array in samples) / len(samples) / 8


def _hardly_repeats(samples: Sequence[Array]) -> bool:
    """Whether a look at the beginning shows already that there are too many values: counting all takes long."""
    most = _most_worth(samples)
    beginning = samples[0].reshape(-1)[: 2 * int(most) + 16]
    return most < _LOOK and len(np.unique(beginning.view(f"u{beginning.itemsize}"))) > most


def _distinct(samples: Sequence[Array], dtype: DType, axis: int | None, palettes: int, bits: int) -> list[Array] | None:
    """The values of every palette over all samples, in numeric order, or None if there are too many."""
    gathered: list[list[Array]] = [[] for _ in range(palettes)]
    for array in samples:
        inner = int(np.prod(array.shape[axis:][1:])) if axis is not None else array.size
        answer = _native.distinct(array, dtype.itemsize, palettes, max(inner, 1), bits)
        if answer is None:
            return None
        for values, one in zip(gathered, answer, strict=True):
            values.append(np.frombuffer(one, dtype.numpy))
    if len(samples) == 1:
        return [values[0] for values in gathered]
    joined = []
    for values in gathered:
        answer = _native.distinct(np.concatenate(values), dtype.itemsize, 1, sum(map(len, values)) or 1, bits)
        if answer is None:
            return None
        joined.append(np.frombuffer(answer[0], dtype.numpy))
    return joined


def _palette_part(values: Sequence[Array], dtype: DType, axis: int | None, bits: int, rank: int) -> bytes:
    head = bytes([dtype.code, bits, 255 if axis is None else rank + axis]) + varint(len(values))
    return head + b"".join(varint(len(one)) + one.tobytes() for one in values)
