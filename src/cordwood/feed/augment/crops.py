"""The steps of an augmentation: checks their arguments, and applies them to the parts of images.

    RandomCrop(32, padding=4).apply(parts, words)

``words`` has as many rows of hashes as the class says; a step draws from nothing else.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from cordwood.common.arguments import whole_number
from cordwood.errors import UsageError
from cordwood.feed.augment.boxes import Lengths, Parts, Words

Size = tuple[int, int]

_LONGEST_SIDE: Final = (1 << 20) - 1


@dataclass(frozen=True)
class RandomResizedCrop:
    """A part of random area, shape and place, resized to `size`; the usual way to train on photographs.

    ::

        RandomResizedCrop(224)
        RandomResizedCrop((192, 256), scale=(0.3, 1), ratio=(1, 1.5))

    :param size: height and width that come out, or one number for both.
    :param scale: least and greatest area, as fractions of the image's.
    :param ratio: least and greatest width / height of the part; its logarithm is drawn evenly. After ten draws that do
        not fit, the largest part in the middle is taken whose ratio is allowed.

    ``RandomResizedCrop(224, scale=(1, 1), ratio=(1, 1))`` is the largest square in the middle, whatever the images'
    sizes: for evaluation.
    """

    size: int | Sequence[int]
    scale: Sequence[float] = (0.08, 1.0)
    ratio: Sequence[float] = (3 / 4, 4 / 3)

    tries: ClassVar[int] = 10
    words: ClassVar[int] = tries + 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", size_of("RandomResizedCrop", self.size))
        object.__setattr__(self, "scale", _range("RandomResizedCrop: scale", self.scale, 1))
        object.__setattr__(self, "ratio", _range("RandomResizedCrop: ratio", self.ratio, 1000))

    def apply(self, parts: Parts, words: Words) -> None:
        """Leave a part of every part."""
        height, width, found = parts.shapes(words[: self.tries], self.scale, self.ratio)
        top, left = parts.places(words[self.tries], height, width)
        if not found.all():
            rows, columns = parts.spare(height, width)
            top, left = np.where(found, top, rows // 2), np.where(found, left, columns // 2)
        parts.cut(top, left, height, width)


@dataclass(frozen=True)
class RandomCrop:
    """A part of the given size from a random place, not resized.

    ::

        RandomCrop(224)
        RandomCrop(32, padding=4)            # small pictures: up to four pixels beyond the edges
        RandomCrop(32, padding=4, fill=128)

    :param size: height and width, or one number for both. Images that are smaller are refused.
    :param padding: pixels that are added at every edge before; or two numbers, for left and right and for top and
        bottom; or four: left, top, right, bottom.
    :param fill: the value of added pixels, as values are stored (so before any normalisation).
    """

    size: int | Sequence[int]
    padding: int | Sequence[int] = 0
    fill: float = 0.0

    words: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", size_of("RandomCrop", self.size))
        object.__setattr__(self, "padding", _padding(self.padding))
        object.__setattr__(self, "fill", _number("RandomCrop: fill", self.fill))

    @property
    def padded(self) -> bool:
        """Does it add pixels?"""
        return any(_padding(self.padding))

    def apply(self, parts: Parts, words: Words) -> None:
        """Leave a part of every part."""
        size = size_of("RandomCrop", self.size)
        parts.pad(*_padding(self.padding))
        parts.check_holds(self, *size)
        parts.cut(*parts.places(words[0], *size), *size)


@dataclass(frozen=True)
class CenterCrop:
    """The part of the given size in the middle, not resized: for evaluation.

    ::

        CenterCrop(224)

    :param size: height and width, or one number for both. Images that are smaller are refused.
    """

    size: int | Sequence[int]

    words: ClassVar[int] = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", size_of("CenterCrop", self.size))

    def apply(self, parts: Parts, words: Words) -> None:
        """Leave a part of every part."""
        size = size_of("CenterCrop", self.size)
        parts.check_holds(self, *size)
        rows, columns = parts.spare(*size)
        parts.cut(_halved(rows), _halved(columns), *size)


@dataclass(frozen=True)
class RandomFlip:
    """Mirrored left to right with probability `p`.

    ::

        RandomFlip()
        RandomFlip(p=0.25)
    """

    p: float = 0.5

    words: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", _number("RandomFlip: p", self.p))
        if not 0 <= self.p <= 1:
            raise UsageError(f"RandomFlip: p is {self.p}, but a probability is from 0 to 1")

    def apply(self, parts: Parts, words: Words) -> None:
        """Mirror some."""
        parts.mirror(words[0], self.p)


def _halved(length: Lengths) -> Lengths:
    """Of two middles the even one, as Python and torchvision round."""
    return round(length / 2) if isinstance(length, int) else np.rint(length / 2).astype(np.int64)


def size_of(what: str, given: Any) -> Size:
    """Height and width, of two numbers or one for both; `what` is named where they are none."""
    sides = tuple(given) if isinstance(given, list | tuple) else (given, given)
    sides = tuple(whole_number(f"{what}: size", side, 1, _LONGEST_SIDE) for side in sides)
    if len(sides) == 1:
        sides *= 2
    if len(sides) != 2:
        raise UsageError(f"{what}: size must be a height and a width, or one number for both, got {given!r}")
    return sides[0], sides[1]


def _padding(given: Any) -> tuple[int, int, int, int]:
    edges = tuple(given) if isinstance(given, list | tuple) else (given,)
    edges = tuple(whole_number("RandomCrop: padding", edge, 0, _LONGEST_SIDE) for edge in edges)
    if len(edges) not in (1, 2, 4):
        raise UsageError(
            "RandomCrop: padding must be a number of pixels, or two (left and right, top and bottom), or four (left, "
            f"top, right, bottom), got {given!r}"
        )
    left, top, right, bottom = edges * (4 // len(edges))
    return left, top, right, bottom


def _number(what: str, given: Any) -> float:
    try:
        number = float(given)
    except (TypeError, ValueError):
        raise UsageError(f"{what} is {given!r}, but is a number") from None
    if not math.isfinite(number):
        raise UsageError(f"{what} is {number}, but is a finite number")
    return number


def _range(what: str, given: Any, most: float) -> tuple[float, float]:
    if not isinstance(given, list | tuple) or len(given) != 2:
        raise UsageError(f"{what} is {given!r}, but is two numbers, the least and the greatest")
    least, greatest = (_number(what, number) for number in given)
    if not 1 / 1e6 <= least <= greatest <= most:
        raise UsageError(f"{what} is {given!r}, but goes from 0.000001 or more to {most} or less, the least first")
    return least, greatest
