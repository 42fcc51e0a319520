"""The part of each image that is left, and whether it is mirrored, while the steps of an augmentation are applied.

    parts = Parts("augment", 256, 256, samples=64)
    parts.cut(16, 16, 224, 224)
    parts.mirror(words, 0.5)
    parts.boxes()                       # [64, 5]: top, left, height, width, mirrored

All samples at once, in NumPy. What is drawn comes as words, hashes of 64 even bits, a row of them for each draw; so a
sample's part depends on its own words and on nothing else. Only arithmetic that is exact or rounded once is used, so
that the same parts come out on every machine.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from cordwood.errors import UsageError
from cordwood.store import Numbers

Words = npt.NDArray[np.uint64]
Lengths = int | Numbers  # of all samples, or one a sample

_RATIO_BITS: Final = 14
_AREA_BITS: Final = 48
_AREA_MASK, _RATIO_SHIFT = np.uint64((1 << _AREA_BITS) - 1), np.uint64(64 - _RATIO_BITS)
_HALF_WORD, _LOW_HALF = np.uint64(32), np.uint64((1 << 32) - 1)


class Parts:
    """The parts of images of these heights and widths; at first each is a whole image.

    Steps see what the steps before them left, so their places count from there, in the mirrored image if it is one.
    """

    def __init__(self, where: str, heights: Lengths, widths: Lengths, samples: int) -> None:
        self._where = where
        self._samples = samples
        self._top: Lengths = 0
        self._left: Lengths = 0
        self._height = heights
        self._width = widths
        self._mirrored: npt.NDArray[np.bool_] | None = None

    def mirror(self, words: Words, p: float) -> None:
        """Mirror a sample with probability `p`."""
        drawn = (words >> np.uint64(11)).astype(np.float64) < math.ldexp(p, 53)
        self._mirrored = drawn if self._mirrored is None else self._mirrored ^ drawn

    def pad(self, left: int, top: int, right: int, bottom: int) -> None:
        """Let the part hang over the edges of the image."""
        self.cut(-top, -left, self._height + top + bottom, self._width + left + right)

    def cut(self, top: Lengths, left: Lengths, height: Lengths, width: Lengths) -> None:
        """Leave a part of what is left."""
        if self._mirrored is not None:
            left = np.where(self._mirrored, self._width - left - width, left)
        self._top, self._left = self._top + top, self._left + left
        self._height, self._width = height, width

    def check_holds(self, what: object, height: int, width: int) -> None:
        """Refuse what is larger than the part that is left."""
        small = np.flatnonzero((np.asarray(self._height) < height) | (np.asarray(self._width) < width))
        if len(small):
            height_there, width_there = (int(np.ravel(sides)[small[0] % np.size(sides)]) for sides in self._sides())
            raise UsageError(
                f"{self._where}: {what} of {height_there} by {width_there} pixels (height by width), but at least "
                f"{height} by {width} are needed. Give a smaller size, RandomCrop's padding=, or RandomResizedCrop, "
                "which enlarges"
            )

    def _sides(self) -> tuple[Lengths, Lengths]:
        return self._height, self._width

    def spare(self, height: Lengths, width: Lengths) -> tuple[Lengths, Lengths]:
        """How many rows and columns are more than a part of this size needs."""
        return self._height - height, self._width - width

    def places(self, words: Words, height: Lengths, width: Lengths) -> tuple[Numbers, Numbers]:
        """Where parts of this size may begin, each place as likely as any other."""
        rows, columns = self.spare(height, width)
        return _below(rows + 1, words >> _HALF_WORD), _below(columns + 1, words & _LOW_HALF)

    def shapes(
        self, words: Words, scale: Sequence[float], ratio: Sequence[float]
    ) -> tuple[Numbers, Numbers, npt.NDArray[np.bool_]]:
        """Heights and widths of parts of random area and ratio, and which samples they were found for.

        `words` has a row for every try; a sample gets the first that fits into it. The others get the largest part
        whose ratio is allowed.
        """
        side = (words & _AREA_MASK).astype(np.float64)
        area = np.multiply(self._height, self._width, dtype=np.float64)
        side *= area * math.ldexp(scale[1] - scale[0], -_AREA_BITS)
        side += area * scale[0]
        np.sqrt(side, out=side)
        roots, inverses = _ratios(ratio[0], ratio[1])
        drawn = (words >> _RATIO_SHIFT).view(np.int64)
        width, height = roots.take(drawn), inverses.take(drawn)
        for sides in (width, height):
            np.multiply(sides, side, out=sides)
            np.rint(sides, out=sides)
        fits = (width <= self._width) & (height <= self._height)
        if np.min(area) * scale[0] * min(ratio[0], 1 / ratio[1]) < 1:  # a side may be less than a pixel
            fits &= np.minimum(width, height) >= 1
        tried, sample = fits.argmax(axis=0), np.arange(self._samples)
        height, width = height[tried, sample], width[tried, sample]
        found = fits[tried, sample]
        if not found.all():
            largest = self._largest(ratio)
            height, width = np.where(found, height, largest[0]), np.where(found, width, largest[1])
        return height.astype(np.int64), width.astype(np.int64), found

    def _largest(self, ratio: Sequence[float]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        height, width = np.asarray(self._height, np.float64), np.asarray(self._width, np.float64)
        given = width / height
        narrow, broad = given < ratio[0], given > ratio[1]
        # A part is a pixel high and wide at least, also of an image that is thinner than its ratio allows.
        return (
            np.maximum(np.where(narrow, np.rint(width / ratio[0]), height), 1),
            np.maximum(np.where(broad, np.rint(height * ratio[1]), width), 1),
        )

    def size(self) -> tuple[int, int] | None:
        """Height and width of what is left, if all samples have the same."""
        sides = [np.unique(np.asarray(length)) for length in self._sides()]
        return (int(sides[0][0]), int(sides[1][0])) if all(len(side) == 1 for side in sides) else None

    def boxes(self) -> Numbers:
        """Top, left, height, width and mirrored of every sample."""
        boxes = np.empty((self._samples, 5), np.int64)
        boxes[:, 0], boxes[:, 1], boxes[:, 2], boxes[:, 3] = self._top, self._left, self._height, self._width
        boxes[:, 4] = 0 if self._mirrored is None else self._mirrored
        return boxes


def _below(count: Lengths, halves: Words) -> Numbers:
    """Numbers below `count` from 32 even bits each: a product's upper half."""
    product = halves * (np.uint64(count) if isinstance(count, int) else count.view(np.uint64))
    return (product >> _HALF_WORD).view(np.int64)


@lru_cache(maxsize=16)
def _ratios(least: float, greatest: float) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Square roots of ratios whose logarithms are evenly spaced, and their inverses.

    By square roots and products, which are the same on every machine; exponentials are not. Ratio k of n is
    least * (greatest / least) ** ((2 * k + 1) / (2 * n)): a root for each binary digit of the numerator.
    """
    numerators = 2 * np.arange(1 << _RATIO_BITS) + 1
    table = np.full(len(numerators), math.sqrt(least))
    root = math.sqrt(greatest / least)
    for digit in reversed(range(_RATIO_BITS + 1)):
        root = math.sqrt(root)
        table *= np.where(numerators >> digit & 1, root, 1.0)
    return table, 1 / table
