"""What each stage does, in plain NumPy, straight from docs/format/frame.md: arrays to codes to residuals to planes.

Nothing here is quick and nothing is shared with the library, so that the two can be held against each other. Codes and
residuals are unsigned integers; arithmetic on them wraps around, as the page says.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def bits_of(array: Array, dtype: str = "") -> Array:
    """Elements as unsigned integers of their width, in C order; a complex number is two elements."""
    halved = array.dtype.kind == "c" or dtype == "complex32"
    size = array.dtype.itemsize // 2 if halved else array.dtype.itemsize
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), f"<u{size}")


def zigzag(differences: Array) -> Array:
    """0, -1, 1, -2 become 0, 1, 2, 3."""
    width = 8 * differences.dtype.itemsize
    results = []
    for number in differences.ravel().tolist():
        signed = number - (1 << width) if number >> (width - 1) else number
        results.append(2 * signed if signed >= 0 else -2 * signed - 1)
    return np.array(results, differences.dtype).reshape(differences.shape)


# value


@dataclass(frozen=True)
class Narrowed:
    """`bits` of a code are 0, 1, 8, 16, 32 or 64; with 0 there are no codes."""

    minimum: int
    bits: int
    shift: int
    codes: Array


def narrow(array: Array, *, pack_bits: bool = True, align_top: bool = False) -> Narrowed:
    """Distances from the minimum, in the fewest bits."""
    numbers = [int(x) for x in (array.view(np.uint8) if array.dtype == np.bool_ else array).ravel()]
    minimum = min(numbers)
    needed = (max(numbers) - minimum).bit_length()
    widths = [0, 1, 8, 16, 32, 64] if pack_bits else [0, 8, 16, 32, 64]
    bits = next(width for width in widths if needed <= width)
    shift = bits - needed if align_top and bits > 8 else 0
    codes = [(x - minimum) << shift for x in numbers]
    as_int64 = minimum - 2**64 if minimum >= 2**63 else minimum
    return Narrowed(as_int64, bits, shift, np.array([] if bits == 0 else codes, f"<u{max(bits, 8) // 8}"))


def pack_eight(codes: Array) -> Array:
    """Eight codes of one bit in a byte, the first in its lowest bit."""
    padded = np.concatenate([codes, np.zeros(-codes.size % 8, codes.dtype)]).reshape(-1, 8)
    packed: Array = (padded.astype(np.uint8) << np.arange(8, dtype=np.uint8)).sum(axis=1).astype(np.uint8)
    return packed


def palette(array: Array, axis: int | None = None, bits: int = 8, dtype: str = "") -> tuple[list[Array], Array]:
    """The distinct bit patterns (of the whole, or of every index of an axis) in numeric order, and the codes."""
    elements = bits_of(array, dtype)
    if axis is None:
        parts, codes = [elements], np.zeros(elements.size, f"<u{bits // 8}")
        places = [codes]
    else:
        shaped, codes = elements.reshape(array.shape), np.zeros(array.shape, f"<u{bits // 8}")
        parts, places = list(np.moveaxis(shaped, axis, 0)), list(np.moveaxis(codes, axis, 0))
    palettes = []
    for i, part in enumerate(parts):
        values = sorted(set(part.ravel().tolist()), key=lambda pattern: numeric_order(pattern, 8 * elements.itemsize))
        palettes.append(np.array(values, elements.dtype))
        index = {value: code for code, value in enumerate(values)}
        places[i][...] = np.array([index[value] for value in part.ravel().tolist()], codes.dtype).reshape(part.shape)
    return palettes, codes.ravel()


def numeric_order(pattern: int, width: int) -> int:
    """A key that sorts floats' bit patterns by value: from the negative NaNs up to the positive ones."""
    sign = 1 << (width - 1)
    return -(pattern - sign) - 1 if pattern & sign else pattern


def formula(count: int, steps: Sequence[tuple[str, float]], work: str = "float32") -> Array:
    """Value k of a palette: k through the operations, each rounded in the work type."""
    kind = np.dtype(work).type
    values = []
    with np.errstate(all="ignore"):
        for k in range(count):
            x = kind(k)
            for operation, operand in steps:
                o = kind(operand)
                x = x * o if operation == "*" else x / o if operation == "/" else x + o if operation == "+" else x - o
            values.append(x)
    return np.array(values, kind)


def to_bfloat16(values: Array) -> Array:
    """The bits of the nearest bfloat16, to even between two: found among the neighbours by distance."""
    results = []
    for single in np.asarray(values, np.float32):
        below = int(single.view(np.uint32)) >> 16
        if np.isinf(single):
            results.append(below)
            continue
        low, value, high = widened(below), float(single), widened(below + 1)
        up = abs(high - value) < abs(value - low) or (abs(high - value) == abs(value - low) and below % 2 == 1)
        results.append(below + up)
    return np.array(results, np.uint16)


def widened(bits: int) -> float:
    """A bfloat16's value; infinity as the number that would come after the largest, for the sake of distances."""
    if bits & 0x7FFF == 0x7F80:
        return -(2.0**128) if bits & 0x8000 else 2.0**128
    return float(np.array(bits << 16, np.uint32).view(np.float32))


def normalize(image: Array, mean: Sequence[float], std: Sequence[float], axis: int = 0) -> Array:
    """x / 255, - mean, / std, each rounded to float32; `image` is uint8."""
    shape = [1] * image.ndim
    shape[axis] = -1
    with np.errstate(all="ignore"):
        x = image.astype(np.float32) / np.float32(255)
        x = x - np.asarray(mean, np.float32).reshape(shape)
        result: Array = x / np.asarray(std, np.float32).reshape(shape)
    return result


# predict


def channels_of(codes: Array, shape: Sequence[int], geometry: str) -> list[Array]:
    """The array as one tall image: a matrix of all rows for every channel."""
    width, array = shape[-1], codes.reshape(shape)
    if geometry == "hw":
        return [array.reshape(-1, width)]
    if geometry == "chw":
        images = array.reshape(-1, *shape[-3:])
        return [np.concatenate([image[c] for image in images]) for c in range(shape[-3])]
    return [array[..., c].reshape(-1, shape[-2]) for c in range(shape[-1])]


def colored(channels: Sequence[Array], color: str) -> list[Array]:
    """T from X: green, or the previous channel, taken off."""
    half = channels[0].dtype.type(1 << (8 * channels[0].dtype.itemsize - 1))
    if color == "green":
        red, green, blue, *others = channels
        return [red - green + half, green, blue - green + half, *others]
    if color == "previous":
        return [channels[0]] + [channels[c] - channels[c - 1] + half for c in range(1, len(channels))]
    return list(channels)


def med(channel: Array) -> Array:
    """The residuals of one channel of one block."""
    x = channel.astype(np.int64)
    prediction = np.zeros_like(x)
    prediction[0, 1:] = x[0, :-1]
    prediction[1:, 0] = x[:-1, 0]
    w, n, nw = x[1:, :-1], x[:-1, 1:], x[:-1, :-1]
    lo, hi = np.minimum(w, n), np.maximum(w, n)
    prediction[1:, 1:] = np.maximum(lo, hi - np.maximum(nw - lo, 0))
    return zigzag((x - prediction).astype(channel.dtype))


def mixed(channels: Sequence[Array], kinds: Array, factors: Array, base: int) -> list[Array]:
    """The residuals of a block's channels of bytes; `kinds` and `factors` by channel, band and group."""
    y, x = np.indices(channels[0].shape)
    found = []
    differences = []
    for c, channel in enumerate(channels):
        t = channel.astype(np.int64)
        padded = np.pad(t, ((2, 0), (2, 0)))
        w, n, nw, ww, nn = (padded[2 - dy :, 2 - dx :][: len(t), : t.shape[1]] for dy, dx in
                            ((0, 1), (1, 0), (1, 1), (0, 2), (2, 0)))  # fmt: skip
        ww, nn = np.where(x == 1, w, ww), np.where(y == 1, n, nn)
        med = np.clip(w + n - nw, np.minimum(w, n), np.maximum(w, n))
        w2 = (med + np.clip(2 * w - ww, 0, 255) + 1) // 2
        n2 = (med + np.clip(2 * n - nn, 0, 255) + 1) // 2
        gradient, mean = np.clip(w + n - nw, 0, 255), (w + n + 1) // 2
        kinds_of = kinds[c][y // 16, (x + y % 16) // 16]
        all_kinds = [med, mean, w2, n2, (w2 + n2 + 1) // 2, gradient, (mean + gradient + 1) // 2, (w + med + 1) // 2]
        prediction = np.choose(kinds_of, all_kinds)
        prediction = np.where(y == 0, w, np.where(x == 0, n, prediction))
        differences.append((t - prediction).astype(np.int8).astype(np.int64))
    for c, difference in enumerate(differences):
        quarters = np.array([0, -1, 1, -2, 2, -3, 3, -4])[factors[c][y // 16, (x + y % 16) // 16]]
        taken = (quarters * differences[base] + 2) // 4 if c != base else 0
        found.append(zigzag((difference - taken).astype(np.uint8)))
    return found


def delta(codes: Array, lag: int = 1) -> Array:
    """The residuals of one block; codes before its start count as 0."""
    before = np.zeros_like(codes)
    before[lag:] = codes[: max(codes.size - lag, 0)]
    return zigzag(codes - before)


# planes


def rotate_left(residuals: Array) -> Array:
    """By one bit, so that the sign comes last."""
    width = 8 * residuals.dtype.itemsize
    rotated = [(x << 1 | x >> (width - 1)) & ((1 << width) - 1) for x in residuals.ravel().tolist()]
    return np.array(rotated, residuals.dtype).reshape(residuals.shape)


def byte_planes(residuals: Array) -> list[Array]:
    """Byte b of every residual, lowest first."""
    size = residuals.dtype.itemsize
    return [(residuals >> residuals.dtype.type(8 * b)).astype(np.uint8) for b in range(size)]
