"""Calls the decoders that are faster than Pillow, each for what it decodes to the same pixels.

    pixels = simplejpeg(data, header, scale=1)  # rows x columns x 3, or None: let Pillow judge

None means that the bytes are not quite what they should be. Pillow then decodes what can be decoded, or says what is
wrong, so that an image is accepted or refused alike whatever is installed.
"""

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from cordwood.images.header import ImageHeader

Pixels = np.ndarray[Any, np.dtype[np.uint8]]


@cache
def module(name: str) -> Any | None:
    """A package that need not be there, imported once; None if it is not, or does not work."""
    try:
        return import_module(name)
    except ImportError:
        return None


def scaled(length: int, scale: int) -> int:
    """How long a side is at 1/scale: rounded up, as JPEG's scaled decoding does."""
    return -(-length // scale)


def simplejpeg(data: bytes, header: ImageHeader, scale: int) -> Pixels | None:
    """A JPEG by libjpeg-turbo through simplejpeg."""
    package: Any = module("simplejpeg")
    wanted = scaled(header.height, scale), scaled(header.width, scale)
    smallest = {"min_height": wanted[0], "min_width": wanted[1]} if scale > 1 else {}
    try:
        pixels: Pixels = package.decode_jpeg(data, "RGB", **smallest)
    except ValueError:
        return None
    return pixels if pixels.shape == (*wanted, 3) else None


def opencv(data: bytes, header: ImageHeader, scale: int) -> Pixels | None:
    """A JPEG, PNG or WebP image by OpenCV, without its own way of turning images.

    A WebP file that is longer or shorter than it says is left to Pillow: OpenCV reads on beyond the end.
    """
    package: Any = module("cv2")
    if header.format == "webp" and 8 + int.from_bytes(data[4:8], "little") != len(data):
        return None
    colour = getattr(package, "IMREAD_COLOR_RGB", None)
    flags = package.IMREAD_IGNORE_ORIENTATION | (package.IMREAD_COLOR if colour is None else colour)
    if scale > 1:
        # The name says grey, but it is the bit for the size alone: the colours are in the other flag.
        flags |= getattr(package, f"IMREAD_REDUCED_GRAYSCALE_{scale}")
    try:
        pixels: Pixels | None = package.imdecode(np.frombuffer(data, np.uint8), flags)
    except package.error:
        return None
    if pixels is None or pixels.shape != (scaled(header.height, scale), scaled(header.width, scale), 3):
        return None
    return pixels[:, :, ::-1] if colour is None else pixels


def bitmap(data: bytes, header: ImageHeader) -> Pixels | None:
    """A plain BMP image, which is its pixels from the lowest row up, as blue, green, red: a view of the data."""
    start = int.from_bytes(data[10:14], "little")
    row = -(-header.width * 3 // 4) * 4
    if start < 14 + 40 or len(data) < start + row * header.height:
        return None
    rows = np.frombuffer(data, np.uint8, row * header.height, start).reshape(header.height, row)
    pixels = rows[:, : header.width * 3].reshape(header.height, header.width, 3)[:, :, ::-1]
    from_above = data[25] >= 0x80  # a negative height
    return pixels if from_above else pixels[::-1]


def planes(pixels: Pixels, out: Pixels | None = None) -> Pixels:
    """Rows x columns x 3 as three planes, in new memory or in `out`, which is contiguous."""
    height, width, channels = pixels.shape
    if out is None:
        out = np.empty((channels, height, width), np.uint8)
    cv2 = module("cv2")
    if cv2 is not None and pixels.flags.c_contiguous and _splits_in_place(cv2):
        cv2.split(pixels, list(out))  # three times as fast as NumPy's strided copy
    else:
        np.copyto(out, pixels.transpose(2, 0, 1))
    return out


@cache
def _splits_in_place(cv2: Any) -> bool:
    """Whether this OpenCV writes into the arrays that it is given, as its documentation has it."""
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    out = np.zeros((3, 4, 4), np.uint8)
    cv2.split(pixels, list(out))
    return np.array_equal(out, pixels.transpose(2, 0, 1))
