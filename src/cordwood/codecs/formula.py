"""Finds a short computation that gives all values of a palette, to store it instead of the values.

    >>> values = ((np.arange(256, dtype=np.float32) / np.float32(255)) - np.float32(0.485)) / np.float32(0.229)
    >>> str(fit([values], DTYPES["float32"]))
    'k / 255 - 0.485 / 0.229'

Images that people normalise hold ``(k / 255 - mean) / std`` for k from 0 to 255: two numbers a channel in place of
256. A formula is accepted only if it gives every value bit for bit; the constants are guessed from the values'
spacing, first as short decimals, as people write them, then by trying the neighbours of the estimate.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cordwood.codecs.assets import varint
from cordwood.codecs.dtypes import DType

Floats = npt.NDArray[np.floating]
OPERATIONS = {"*": 0, "/": 1, "+": 2, "-": 3}


@dataclass(frozen=True)
class Formula:
    """Operations on k, in order; each operand is one number, or one a channel. ``work`` is "float32" or "float64"."""

    steps: tuple[tuple[str, tuple[float, ...]], ...]
    work: str = "float32"
    count: int = 256

    def __str__(self) -> str:
        def shown(operands: tuple[float, ...]) -> str:
            texts = [str(np.dtype(self.work).type(x)).removesuffix(".0") for x in operands]
            return texts[0] if len(set(texts)) == 1 else "(" + ", ".join(texts) + ")"

        return "k" + "".join(f" {operation} {shown(operands)}" for operation, operands in self.steps)

    def values(self, dtype: DType, channel: int = 0) -> npt.NDArray[np.generic]:
        """The palette of a channel, in the carrier dtype."""
        work = np.dtype(self.work)
        with np.errstate(all="ignore"):
            x = np.arange(self.count).astype(work)
            for operation, operands in self.steps:
                o = work.type(operands[channel if len(operands) > 1 else 0])
                x = {"*": np.multiply, "/": np.divide, "+": np.add, "-": np.subtract}[operation](x, o)
            if dtype.name == "bfloat16":
                return _to_bfloat16(x)
            return x.astype(dtype.numpy)

    def to_bytes(self) -> bytes:
        """As in docs/format/frame.md: count, work type, operations."""
        out = bytearray(varint(self.count))
        out += bytes([self.work == "float64", len(self.steps)])
        for operation, operands in self.steps:
            out += bytes([OPERATIONS[operation], len(operands) > 1])
            out += struct.pack(f"<{len(operands)}{'d' if self.work == 'float64' else 'f'}", *operands)
        return bytes(out)


def _to_bfloat16(x: Floats) -> npt.NDArray[np.uint16]:
    # From float64 rounding through float32 could round twice; no formula of ours is tried that way.
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def fit(palettes: Sequence[npt.NDArray[np.generic]], dtype: DType) -> Formula | None:
    """A formula that gives every value of every palette (each sorted, in the carrier dtype), or None."""
    if any(len(values) < 3 or len(values) > 256 for values in palettes):
        return None
    work = "float64" if dtype.name == "float64" else "float32"
    with np.errstate(all="ignore"):  # signalling NaNs, guesses that overflow: they fail the comparison
        widened = [_widen(values, dtype) for values in palettes]
        if not all(np.isfinite(values).all() for values in widened):
            return None
        if dtype.itemsize > 2 and not all(_steps_of_one_size(values) for values in widened):
            return None
        for shape in _SHAPES:
            fitted = []
            for values, wide in zip(palettes, widened, strict=True):
                one = _fit_channel(values, wide, dtype, shape, work)
                if one is None:
                    break
                fitted.append(one)
            if len(fitted) == len(palettes):
                return _join(fitted, work)
    return None


def _widen(values: npt.NDArray[np.generic], dtype: DType) -> npt.NDArray[np.float64]:
    if dtype.name == "bfloat16":
        return (values.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return values.astype(np.float64)


def _steps_of_one_size(values: npt.NDArray[np.float64]) -> bool:
    """Whether sorted values can be 256 levels at equal distances, as all formulas give them; weights never are."""
    smallest = float(np.diff(values).min())
    return bool(values[-1] - values[0] <= 256 * smallest)


# What people do to k, as (operation, where the operand comes from): a fixed number, or "offset"/"scale" to be found.
_SHAPES: tuple[tuple[tuple[str, float | str], ...], ...] = (
    (("/", 255.0),),
    (("/", 255.0), ("-", "offset"), ("/", "scale")),
    (("/", 127.5), ("-", 1.0)),
    (("*", 1 / 255),),
    (("*", 1 / 255), ("-", "offset"), ("/", "scale")),
    (("*", 2 / 255), ("-", 1.0)),
    (("/", 256.0),),
    (("/", 128.0), ("-", 1.0)),
    (("-", "offset"), ("/", "scale")),
    (("-", "offset"), ("*", "scale")),
    (("*", "scale"), ("+", "offset")),
    (("*", 1.0),),
)


# Means and standard deviations that many people use: ImageNet, CLIP, CIFAR-10 (two habits), CIFAR-100, MNIST, halves.
_KNOWN = (
    *((0.485, 0.229), (0.456, 0.224), (0.406, 0.225)),
    *((0.48145466, 0.26862954), (0.4578275, 0.26130258), (0.40821073, 0.27577711)),
    *((0.4914, 0.247), (0.4822, 0.2435), (0.4465, 0.2616), (0.4914, 0.2023), (0.4822, 0.1994), (0.4465, 0.201)),
    *((0.5071, 0.2673), (0.4865, 0.2564), (0.4409, 0.2762)),
    *((0.1307, 0.3081), (0.5, 0.5)),
)


def _fit_channel(
    values: npt.NDArray[np.generic],
    wide: npt.NDArray[np.float64],
    dtype: DType,
    shape: tuple[tuple[str, float | str], ...],
    work: str,
) -> Formula | None:
    bits = values.view(f"u{dtype.itemsize}")
    for formula in _guesses(shape, wide, dtype, work):
        if np.isin(bits, formula.values(dtype).view(f"u{dtype.itemsize}")).all():
            return formula
    return None


def _guesses(
    shape: tuple[tuple[str, float | str], ...], wide: npt.NDArray[np.float64], dtype: DType, work: str
) -> Iterator[Formula]:
    """Formulas of this shape that may give these values, the likeliest first."""

    def filled(offset: float = 0.0, scale: float = 1.0) -> Formula:
        found = {"offset": offset, "scale": scale}
        return Formula(tuple((op, (found[x] if isinstance(x, str) else x,)) for op, x in shape), work)

    unknown = [operand for _, operand in shape if isinstance(operand, str)]
    if not unknown:
        yield filled()
        return
    if shape[-1] == ("/", "scale"):
        yield from (filled(mean, std) for mean, std in _KNOWN)
    if dtype.itemsize == 2:
        return  # half floats are too coarse to tell constants by their spacing
    gaps = np.diff(wide)
    steps = np.rint(gaps / gaps.min())
    if not steps.sum() <= 255:
        return
    span = int(steps.sum())
    slope = float((wide[-1] - wide[0]) / span)
    if np.abs(gaps - steps * slope).max() > 0.02 * slope:
        return
    yield from (filled(offset, scale) for offset, scale in _constants(shape, slope, float(wide[0]), 255 - span, work))


def _constants(
    shape: tuple[tuple[str, float | str], ...], slope: float, lowest: float, freedom: int, work: str
) -> Iterator[tuple[float, float]]:
    """Offsets and scales that give about this slope; the lowest value may be that of any k from 0 to `freedom`."""
    fixed = [(operation, operand) for operation, operand in shape if not isinstance(operand, str)]
    unit = 1.0 if not fixed else float(fixed[0][1]) if fixed[0][0] == "*" else 1 / float(fixed[0][1])
    divides = shape[-1] == ("/", "scale")
    shifts_last = shape[-1] == ("+", "offset")
    for scale, digits in _near(unit / slope if divides else slope, work, exact=freedom == 0):
        if scale == 0 or not np.isfinite(scale):  # values too close together, or too far apart
            continue
        for start in range(freedom + 1):
            # the value of k = start before scaling gives the offset
            if shifts_last:
                offset = lowest - scale * start
            else:
                offset = start * unit - (lowest * scale if divides else lowest / scale)
            for guess, _ in _near(offset, work, exact=digits is None, only=digits):
                yield guess, scale


def _near(x: float, work: str, *, exact: bool, only: int | None = None) -> Iterator[tuple[float, int | None]]:
    """Short decimals beside x; if `exact`, then also x and its neighbours in the work type."""
    tolerance = 4e-6 * max(abs(x), 0.05)
    for digits in (2, 3, 4, 5, 6) if only is None else (only,):
        decimal = round(x, digits)
        if abs(decimal - x) <= tolerance:
            yield decimal, digits
            break
    if exact:
        middle = np.dtype(work).type(x)
        yield float(middle), None
        up = down = middle
        for _ in range(4):
            up, down = np.nextafter(up, np.inf), np.nextafter(down, -np.inf)
            yield float(up), None
            yield float(down), None


def _join(channels: Sequence[Formula], work: str) -> Formula:
    steps = []
    for i, (operation, _) in enumerate(channels[0].steps):
        operands = tuple(formula.steps[i][1][0] for formula in channels)
        steps.append((operation, operands[:1] if len(set(operands)) == 1 else operands))
    return Formula(tuple(steps), work)
