"""Small pictures of image-like arrays, as PNG, made with nothing but zlib.

>>> picture = picture_of(np.zeros((3, 224, 224), np.float32))
>>> png(picture)[:4]
b'\\x89PNG'

An array is taken for an image by its shape alone: three or one channels before or after two sides of 8 or more, or the
two sides by themselves.
"""

import base64
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

Picture = npt.NDArray[np.uint8]

_SMALLEST_SIDE = 8
_LONGEST_SIDE = 96
_THINNEST = 16  # times as long as wide: a table, not an image
_CHANNELS = (1, 3)


def looks_like_image(shape: tuple[int, ...], dtype: str) -> bool:
    """Whether arrays of this shape and dtype are worth a picture."""
    return (dtype == "uint8" or dtype.startswith(("float", "bfloat"))) and _sides(shape) is not None


def _sides(shape: tuple[int, ...]) -> tuple[int, int] | None:
    """Height and width, if it is the shape of an image."""
    if len(shape) == 3:
        shape = shape[1:] if shape[0] in _CHANNELS else shape[:2] if shape[2] in _CHANNELS else ()
    if len(shape) != 2 or min(shape) < _SMALLEST_SIDE or max(shape) > _THINNEST * min(shape):
        return None
    return shape[0], shape[1]


def picture_of(array: npt.NDArray[Any]) -> Picture | None:
    """A picture of at most 96 pixels a side: height x width x 1 or 3 bytes. None if it is no image."""
    sides = _sides(array.shape)
    if sides is None or array.dtype.kind not in "uf":
        return None
    if array.ndim == 2:
        array = array[:, :, None]
    elif array.shape[0] in _CHANNELS:
        array = array.transpose(1, 2, 0)
    small = _shrunk(array)
    return small.round().astype(np.uint8) if array.dtype == np.uint8 else _stretched(small)


def _shrunk(array: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The mean of every square of pixels that becomes one."""
    height, width = array.shape[:2]
    step = -(-max(height, width) // _LONGEST_SIDE)
    rows = np.arange(0, height, step)
    columns = np.arange(0, width, step)
    with np.errstate(over="ignore", invalid="ignore"):  # infinities of both signs in one square
        sums = np.add.reduceat(np.add.reduceat(array.astype(np.float64), rows, axis=0), columns, axis=1)
    counts = np.diff(rows, append=height)[:, None, None] * np.diff(columns, append=width)[None, :, None]
    return np.asarray(sums / counts, np.float64)


def _stretched(image: npt.NDArray[np.float64]) -> Picture:
    """Floats from 0 to 1 as they are; others may be normalised in any way, so their own range becomes 0 to 255."""
    known = np.isfinite(image)
    if not known.any():
        return np.zeros(image.shape, np.uint8)
    dark, bright = float(image[known].min()), float(image[known].max())
    if dark >= 0 and bright <= 1:
        dark, bright = 0.0, 1.0
    scaled = (np.where(known, image, dark) / 2 - dark / 2) / max(
        bright / 2 - dark / 2, 1e-300
    )  # halves do not overflow
    return np.asarray((255 * scaled.clip(0, 1)).round(), np.uint8)


def png(picture: Picture) -> bytes:
    """The bytes of a PNG file."""
    height, width, channels = picture.shape
    lines = np.zeros((height, 1 + width * channels), np.uint8)  # every line begins with its filter: none
    lines[:, 1:] = picture.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )


def data_url(picture: Picture) -> str:
    """The picture inside a link, for a page that fetches nothing."""
    return "data:image/png;base64," + base64.b64encode(png(picture)).decode("ascii")
