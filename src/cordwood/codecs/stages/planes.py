"""planes: the bytes of wide codes are put apart, so that each plane holds bytes of one kind.

    plane b = byte b of every code, lowest first; rotated: after rotating each code left by one bit

Rotated, a float32's or bfloat16's exponent is one whole byte and the sign goes to the mantissa's end: the exponents
then compress well, and mantissas that are noise are left alone.
"""

from dataclasses import dataclass
from typing import ClassVar

from cordwood.codecs.stages.base import Stage


@dataclass(frozen=True)
class Planes(Stage):
    """Byte planes; ``rotated`` for floats taken as they are."""

    name: ClassVar[str] = "planes"
    place: ClassVar[int] = 2
    rotated: bool = False

    def __post_init__(self) -> None:
        self._check("rotated", (True, False))

    def settings(self) -> dict[str, int]:
        return {"planes": 2 if self.rotated else 1}
