"""palette: floats that hold few values become 8- or 16-bit codes.

    palette[c] = the distinct bit patterns of channel c, in numeric order; code = place in the palette

A float image made from uint8 by /255 and Normalize has 256 values a channel, so its codes are the uint8 image again.
Where the palette is: in the frame, in the plan, or nowhere, because a formula gives it (see formula.py). Bit patterns
are compared, so -0.0, NaN payloads and denormals come back as they were.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from cordwood.codecs.formula import Formula
from cordwood.codecs.stages.base import Stage
from cordwood.errors import UsageError

SOURCES = {"frame": 0, "formula": 1, "plan": 2}


@dataclass(frozen=True)
class Palette(Stage):
    """``axis`` counts from the end (-3: the channels of ...CHW) and is None when one palette serves the whole array."""

    name: ClassVar[str] = "palette"
    place: ClassVar[int] = 0
    axis: int | None = None
    bits: int = 8
    source: str = "frame"
    formula: Formula | None = None

    def __post_init__(self) -> None:
        self._check("bits", (8, 16))
        self._check("source", tuple(SOURCES))
        if self.axis is not None and (type(self.axis) is not int or not -64 <= self.axis < 0):
            raise UsageError(f"palette: axis is {self.axis!r}, but counts from the end: -1 to -64, or None")
        if (self.source == "formula") != isinstance(self.formula, Formula):
            raise UsageError("palette: a formula goes with source='formula', and only with it")

    def __str__(self) -> str:
        return "palette" if self.axis is None else "palette[channel]"

    def settings(self) -> dict[str, int]:
        return {"value": 2, "palette_bits": self.bits, "palette_source": SOURCES[self.source]}

    def parameters(self) -> dict[str, Any]:
        shown = super().parameters()
        if self.formula is not None:
            steps = [[operation, list(operands)] for operation, operands in self.formula.steps]
            shown["formula"] = {"steps": steps, "work": self.formula.work, "count": self.formula.count}
        return shown
