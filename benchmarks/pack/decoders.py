"""Every way from a file on the disk to the pixels of one image: JPEG decoders, BMP files, and stores of ours.

    for way in jpeg_ways():
        pixels = way.read("photographs/cat/000001.jpg")      # height, width, RGB

`half` decodes a JPEG file at half its size, which costs less: only a part of the transform behind the format is done.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.data.photographs import Pixels
from benchmarks.harness.packages import need
from benchmarks.harness.timing import UnavailableError
from cordwood import images

Read = Callable[[str], Pixels]


@dataclass(frozen=True)
class Way:
    """One reader of files, and the same at half size where there is such a thing."""

    name: str
    read: Read
    half: Read | None = None


def by_pillow() -> Way:
    image = need("PIL.Image")

    def read(path: str) -> Pixels:
        with image.open(path) as opened:
            return np.asarray(opened.convert("RGB"))

    def half(path: str) -> Pixels:
        with image.open(path) as opened:
            opened.draft("RGB", (opened.width // 2, opened.height // 2))
            return np.asarray(opened.convert("RGB"))

    return Way("JPEG, Pillow", read, half)


def by_opencv() -> Way:
    cv2 = need("cv2")

    def read(path: str) -> Pixels:
        return as_pixels(cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_COLOR_RGB))

    def half(path: str) -> Pixels:
        found = cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_REDUCED_COLOR_2)
        return as_pixels(cv2.cvtColor(found, cv2.COLOR_BGR2RGB))

    return Way("JPEG, OpenCV", read, half)


def by_simplejpeg() -> Way:
    simplejpeg = need("simplejpeg")

    def read(path: str) -> Pixels:
        return as_pixels(simplejpeg.decode_jpeg(Path(path).read_bytes()))

    def half(path: str) -> Pixels:
        data = Path(path).read_bytes()
        height, width, _, _ = simplejpeg.decode_jpeg_header(data)
        # The smallest scale that is no smaller than asked for.
        return as_pixels(simplejpeg.decode_jpeg(data, min_height=height // 2, min_width=width // 2))

    return Way("JPEG, simplejpeg", read, half)


def by_jpeg4py() -> Way:
    jpeg4py = need("jpeg4py")
    try:
        jpeg4py.JPEG(np.zeros(1, np.uint8))
    except OSError as error:
        raise UnavailableError(f"jpeg4py found no TurboJPEG library ({error})") from error

    def read(path: str) -> Pixels:
        return as_pixels(jpeg4py.JPEG(path).decode())

    def half(path: str) -> Pixels:
        one = jpeg4py.JPEG(path)
        one.parse_header()
        # Sides of half an image are rounded up; the library scales to what it is given.
        return as_pixels(one.decode(np.empty(((one.height + 1) // 2, (one.width + 1) // 2, 3), np.uint8)))

    return Way("JPEG, jpeg4py", read, half)


def by_cordwood() -> Way:
    """What `pack` itself calls: the fastest of the others, with checks before and planes behind it."""
    need("PIL")

    def read(path: str) -> Pixels:
        return rows_of(images.decode(Path(path).read_bytes()))

    def half(path: str) -> Pixels:
        data = Path(path).read_bytes()
        header = images.probe(data)
        return rows_of(images.decode(data, size=min(header.height, header.width) // 2))

    return Way(f"JPEG, cordwood by {images.best().jpeg}", read, half)


def rows_of(planes: torch.Tensor) -> Pixels:
    """The same memory, seen as rows of pixels."""
    pixels: Pixels = planes.numpy().transpose(1, 2, 0)
    return pixels


def bmp_by_opencv() -> Way:
    cv2 = need("cv2")
    return Way("BMP, OpenCV", lambda path: as_pixels(cv2.imread(path, cv2.IMREAD_COLOR_RGB)))


def bmp_by_pillow() -> Way:
    return Way("BMP, Pillow", by_pillow().read)


JPEG_WAYS: tuple[Callable[[], Way], ...] = (by_pillow, by_opencv, by_simplejpeg, by_jpeg4py, by_cordwood)
BMP_WAYS: tuple[Callable[[], Way], ...] = (bmp_by_opencv, bmp_by_pillow)


def installed(makers: tuple[Callable[[], Way], ...]) -> tuple[list[Way], list[str]]:
    """The ways whose packages are here, and a line for each that is not."""
    ways: list[Way] = []
    missing: list[str] = []
    for maker in makers:
        try:
            ways.append(maker())
        except UnavailableError as reason:
            missing.append(f"{maker.__name__.replace('_', ' ')}: {reason}")
    return ways, missing


def as_pixels(found: Any) -> Pixels:
    """What a decoder that tells a failure by None gave."""
    if found is None:
        raise UnavailableError("a decoder could not read one of the files")
    pixels: Pixels = found
    return pixels
