"""The first three stages in plain NumPy: elements to codes, codes to residuals, residuals to planes of bytes.

Each function is the page's definition written forwards; the readers under test undo it.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.format.support.craft import COMPLEX, WHOLE, Array, itemsize


def elements_of(array: Array, dtype: str) -> Array:
    """The bit patterns of the elements, in C order."""
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), f"<u{itemsize(dtype)}")


def narrow_codes(elements: Array, minimum: int, bits: int, shift: int = 0) -> Array:
    if bits == 0:
        return np.zeros(0, np.uint8)
    modulus = 2 ** (8 * elements.dtype.itemsize)
    codes = [((int(e) - minimum) % modulus) << shift for e in elements]
    if bits == 1:
        return np.array(codes, np.uint8)
    return np.array(codes, f"<u{bits // 8}")


def palettes_of(elements: Array, shape: Sequence[int], axis: int) -> list[Array]:
    """The distinct bit patterns, for each palette."""
    if axis == WHOLE:
        return [np.unique(elements)]
    return [np.unique(part) for part in np.moveaxis(elements.reshape(shape), axis, 0)]


def palette_codes(elements: Array, shape: Sequence[int], axis: int, palettes: Sequence[Array], bits: int = 8) -> Array:
    """Where each element is found in its palette."""
    codes = np.zeros(elements.size, f"<u{bits // 8}")
    if axis == WHOLE:
        rows = [(palettes[0], elements, codes)]
    else:
        parts = [np.moveaxis(a.reshape(*shape, 1), axis, 0) for a in (elements, codes)]
        rows = list(zip(palettes, *parts, strict=True))
    for palette, values, result in rows:
        places = {int(value): i for i, value in reversed(list(enumerate(palette)))}
        result[...] = np.array([places[int(v)] for v in values.ravel()], codes.dtype).reshape(values.shape)
    return codes


def zigzag_codes(differences: Array) -> Array:
    """Differences are unsigned, modulo their width; so are the results."""
    bits = 8 * differences.dtype.itemsize
    signed = differences.view(f"<i{differences.dtype.itemsize}")
    return ((signed << 1) ^ (signed >> (bits - 1))).view(differences.dtype)


def med_residuals(channel: Array) -> Array:
    """One channel of a block: a matrix of codes."""
    c = channel.astype(np.int64)
    prediction = np.zeros_like(c)
    prediction[0, 1:] = c[0, :-1]
    prediction[1:, 0] = c[:-1, 0]
    w, n, nw = c[1:, :-1], c[:-1, 1:], c[:-1, :-1]
    prediction[1:, 1:] = np.median(np.stack([w, n, w + n - nw]), axis=0).astype(np.int64)
    return zigzag_codes((c - prediction).astype(channel.dtype))


def colored(channels: list[Array], color: int) -> list[Array]:
    """The channels T from the channels X."""
    half = channels[0].dtype.type(2 ** (8 * channels[0].dtype.itemsize - 1))
    if color == 0:
        return channels
    if color == 1:
        return [channels[0] - channels[1] + half, channels[1], channels[2] - channels[1] + half, *channels[3:]]
    return channels[:1] + [b - a + half for a, b in itertools.pairwise(channels)]


def image_channels(codes: Array, shape: Sequence[int], geometry: int) -> list[Array]:
    """The array as one tall image: for every channel a matrix of all rows."""
    if geometry == 0:
        return [codes.reshape(-1, shape[-1])]
    if geometry == 1:
        by_channel = np.moveaxis(codes.reshape(-1, *shape[-3:]), 1, 0)
        return [np.ascontiguousarray(c).reshape(-1, shape[-1]) for c in by_channel]
    return [np.ascontiguousarray(c) for c in np.moveaxis(codes.reshape(-1, *shape[-2:]), -1, 0)]


def split_bytes(residuals: Array) -> list[Array]:
    """A plane for every byte of the residuals, lowest first."""
    size = residuals.dtype.itemsize
    as_bytes = np.ascontiguousarray(residuals)[..., None].view(np.uint8)
    return [as_bytes[..., b] for b in range(size)]


def rotated(residuals: Array) -> Array:
    bits = 8 * residuals.dtype.itemsize
    return (residuals << 1) | (residuals >> (bits - 1))


def med_planes(codes: Array, shape: Sequence[int], geometry: int, color: int, block: int) -> list[list[Array]]:
    """For every block its planes, as matrices, with predict 1."""
    channels = colored(image_channels(codes, shape, geometry), color)
    blocks = []
    for start in range(0, len(channels[0]), block):
        residuals = [med_residuals(c[start : start + block]) for c in channels]
        blocks.append([plane for r in residuals for plane in split_bytes(r)])
    return blocks


def flat_planes(codes: Array, block: int, planes: int = 0, lag: int = 0, one_bit: bool = False) -> list[list[Array]]:
    """For every block its planes, as matrices of one row, with predict 0 or 2."""
    blocks = []
    for start in range(0, codes.size, block):
        part = codes[start : start + block]
        if lag:
            before = np.concatenate([np.zeros(min(lag, part.size), part.dtype), part])[: part.size]
            part = zigzag_codes(part - before)
        if one_bit:
            found: list[Any] = [np.packbits(part, bitorder="little")]
        elif planes == 0:
            found = [np.frombuffer(part.tobytes(), np.uint8)]
        else:
            found = split_bytes(rotated(part) if planes == 2 else part)
        blocks.append([plane.reshape(1, -1) for plane in found])
    return blocks


def element_count(shape: Sequence[int], dtype: str) -> int:
    return math.prod(shape) * (2 if dtype in COMPLEX else 1)
