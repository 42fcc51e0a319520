"""narrow: integers become distances from their minimum, in as few bytes as the range needs.

    minimum = min(array); code = (element - minimum) << shift; 0, 1, 8, 16, 32 or 64 bits a code

A constant array has codes of 0 bits: nothing but the header is left. Two values need one bit each, eight to a byte.
With `align_top` codes are shifted to the top of their bytes: the first plane then holds the eight bits that matter
most, and what is left over in the last plane costs only the bits it has (300 values cost 8.23 bits, not 9).
"""

from dataclasses import dataclass
from typing import ClassVar

from cordwood.codecs.stages.base import Stage


@dataclass(frozen=True)
class Narrow(Stage):
    """Subtract the minimum; ``pack_bits`` allows eight two-valued elements in a byte."""

    name: ClassVar[str] = "narrow"
    place: ClassVar[int] = 0
    pack_bits: bool = True
    align_top: bool = False

    def __post_init__(self) -> None:
        self._check("pack_bits", (True, False))
        self._check("align_top", (True, False))

    def settings(self) -> dict[str, int]:
        return {"value": 1, "pack_bits": int(self.pack_bits), "align_top": int(self.align_top)}
