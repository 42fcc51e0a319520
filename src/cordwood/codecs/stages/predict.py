"""predict: codes become residuals that sit near zero.

    med:   code -= green or the previous channel; residual = zigzag(code - median(left, above, left + above - corner))
    mixed: as med, but each group of pixels takes the one of eight predictions that suits it
    delta: residual = zigzag(code - the code `lag` before it)

med is for images and other smooth planes of 8- or 16-bit codes: grey (hw), channels first (chw) or last (hwc), any
number of channels, batches as one tall image. mixed is for 8-bit codes and smaller; codes of
16 bits take med instead. delta is for lines: audio, offsets, timestamps.
"""

from dataclasses import dataclass
from typing import ClassVar

from cordwood.codecs.stages.base import Stage

GEOMETRIES = {"hw": 0, "chw": 1, "hwc": 2}
KINDS = {"med": 1, "delta": 2, "mixed": 3}
COLORS = {"none": 0, "green": 1, "previous": 2}


@dataclass(frozen=True)
class Predict(Stage):
    """``Predict("med", geometry="chw", color="green")`` or ``Predict("delta", lag=2)``."""

    name: ClassVar[str] = "predict"
    place: ClassVar[int] = 1
    kind: str = "med"
    geometry: str = "hw"
    color: str = "none"
    lag: int = 1

    def __post_init__(self) -> None:
        self._check("kind", tuple(KINDS))
        self._check("geometry", tuple(GEOMETRIES))
        self._check("color", tuple(COLORS))
        self._check("lag", range(1, 1 << 32))

    def __str__(self) -> str:
        return "predict" if self.kind == "med" else f"predict[{self.kind}]"

    def settings(self) -> dict[str, int]:
        if self.kind == "delta":
            return {"predict": KINDS[self.kind], "lag": self.lag}
        return {"predict": KINDS[self.kind], "geometry": GEOMETRIES[self.geometry], "color": COLORS[self.color]}
