"""A chain of stages, and what it owns: one way from an array to a frame.

>>> print(Chain((Palette(-3), Predict("med", "chw", "green"), Entropy("ans"))))
palette[channel] | predict | entropy
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from cordwood.codecs.assets import Assets, varint
from cordwood.codecs.dtypes import DTYPES
from cordwood.codecs.formula import OPERATIONS, Formula
from cordwood.codecs.stages.base import DEFAULTS, Stage
from cordwood.codecs.stages.entropy import Entropy
from cordwood.codecs.stages.lz4 import Lz4
from cordwood.codecs.stages.narrow import Narrow
from cordwood.codecs.stages.palette import Palette
from cordwood.codecs.stages.planes import Planes
from cordwood.codecs.stages.predict import Predict
from cordwood.codecs.stages.raw import Raw
from cordwood.codecs.stages.zstd import Zstd
from cordwood.errors import UsageError

STAGES: dict[str, type[Stage]] = {
    kind.name: kind for kind in (Narrow, Palette, Predict, Planes, Entropy, Zstd, Lz4, Raw)
}
Shape = tuple[int | None, ...]  # None: a dimension that varies
_DELTA, _IN_IMAGES = 2, (1, 3)


@dataclass(frozen=True)
class Chain:
    """Stages in their order. `short` is the template of short frames; without it the chain makes full frames only."""

    stages: tuple[Stage, ...]
    assets: Assets = field(default_factory=Assets)
    short: bytes | None = None

    def __post_init__(self) -> None:
        if not all(isinstance(stage, Stage) for stage in self.stages):
            raise UsageError(f"stages are made of {', '.join(STAGES)}, but these are {self.stages!r}")
        places = [stage.place for stage in self.stages]
        if not places or places[-1] != 3 or places != sorted(set(places)):
            raise UsageError(f"the chain {self} does not go value | predict | planes | coder, one of each at most")

    def check_dtype(self, dtype: str) -> None:
        """Raise UsageError if a stage cannot be applied to the dtype, or to what the stage before it gives."""
        kind = DTYPES[dtype].kind
        value = self.stages[0] if self.stages[0].place == 0 else None
        if isinstance(value, Narrow) and kind not in ("bool", "integer"):
            raise UsageError(f"narrow is for integers and bool, not for {dtype}")
        if isinstance(value, Palette) and kind not in ("float", "complex"):
            raise UsageError(f"palette is for floats, not for {dtype}")
        if isinstance(value, Palette) and kind == "complex" and (value.axis is not None or value.formula is not None):
            raise UsageError(f"palette: {dtype} takes one palette, of values, for the whole array")
        if isinstance(self.stages[-1], Raw) and any(isinstance(stage, Predict | Planes) for stage in self.stages):
            raise UsageError("raw stores elements or codes as they are: predict and planes need a coder after them")

    def __str__(self) -> str:
        return " | ".join(map(str, self.stages))

    @cached_property
    def palette(self) -> Palette | None:
        """The palette stage, if the chain has one."""
        return next((stage for stage in self.stages if isinstance(stage, Palette)), None)

    @cached_property
    def formula(self) -> bytes:
        """The palette's formula in the frame's bytes."""
        return self.palette.formula.to_bytes() if self.palette and self.palette.formula else b""

    def settings(self, dtype: str, rank: int) -> dict[str, int]:
        """The native encoder's numbers for an array of this rank, in its order."""
        found = dict(DEFAULTS)
        for stage in self.stages:
            found.update(stage.settings())
        found["dtype"] = DTYPES[dtype].code
        axis = self.palette.axis if self.palette else None
        if axis is not None:
            # an axis the array lacks: no number of palettes fits, and another chain is taken
            found["palette_axis"] = rank + axis if rank + axis >= 0 else 254
        return found

    def with_short(self, dtype: str, shape: Shape | None) -> "Chain":
        """The same chain with the template of short frames of arrays of this shape, if there can be one."""
        return replace(self, short=None if shape is None else self._template(dtype, shape))

    def _template(self, dtype: str, shape: Shape) -> bytes | None:
        """The bytes that docs/format/frame.md describes under "Short frames"."""
        told = self.settings(dtype, len(shape))
        out = bytes([told["value"]])
        if self.palette:
            axis = told["palette_axis"]
            if self.palette.source == "frame" or (axis != 255 and (axis >= len(shape) or not shape[axis])):
                return None
            palettes = 1 if axis == 255 else shape[axis]
            of_each = self.palette.formula.steps if self.palette.formula else ()
            if any(len(operands) not in (1, palettes) for _, operands in of_each):
                return None  # a formula for arrays of other shapes
            out += bytes([told["palette_bits"], axis, told["palette_source"]]) + self.formula
        out += bytes([told["predict"]])
        out += bytes([told["geometry"], told["color"]]) if told["predict"] in _IN_IMAGES else b""
        out += varint(told["lag"]) if told["predict"] == _DELTA else b""
        out += bytes([told["planes"], told["coder"]])
        return out + bytes([told["entropy"], told["tile_h"], told["tile_w"]]) if told["coder"] else out

    def costs(self, dtype: str) -> tuple[float, float]:
        """What decoding takes: nanoseconds per frame, and per byte of the array."""
        return costs(self.stages, code_share(self.stages, dtype), owns=bool(self.assets.encoded))

    def to_json(self) -> list[dict[str, Any]]:
        """The stages."""
        return [{"stage": stage.name, **stage.parameters()} for stage in self.stages]


def costs(stages: Sequence[Stage], code_share: float, *, owns: bool) -> tuple[float, float]:
    """Nanoseconds per frame, and per byte of the array; `code_share` is the codes' size as a part of the array's.

    Fixed numbers, never a measurement, so the same arrays give the same frames on every machine: round figures from
    profiles on one server core. Slow zstd levels cost more, because they slow the writer down. Only the ratios between
    the numbers matter.
    """
    once, total = 20.0, 0.05
    for stage in stages:
        match stage:
            case Narrow():
                total += 0.05
            case Palette(source=source):
                once += 500 if source == "frame" else 50
                total += 0.05
            case Predict(kind="med"):
                total += 0.15 * code_share
            case Predict(kind="mixed"):
                total += 0.25 * code_share
            case Predict():
                total += 0.5 * code_share
            case Planes():
                total += 0.15
            case Entropy(saving=saving) if saving >= 0.1:
                once += 300 if owns else 3000
                total += 0.06 * code_share  # few planes are coded at all
            case Entropy(coder="huffman"):
                once += 300 if owns else 3000
                total += 0.6 * code_share
            case Entropy():
                once += 500 if owns else 10000
                total += 1.2 * code_share
            case Zstd(level=level):
                once += 100
                total += (1.2 if level < 10 else 2.0) * code_share  # the slow levels cost the writer, not the reader
            case Lz4():
                once += 50
                total += 0.4 * code_share
            case Raw():
                total += 0.05 * code_share
    return once, total


def code_share(stages: Sequence[Stage], dtype: str) -> float:
    """The size of codes as a part of the array's; of narrow ones, which depend on the array, a guess, but for bool."""
    match stages[0]:
        case Palette(bits=bits):
            return bits / 8 / DTYPES[dtype].itemsize
        case Narrow(pack_bits=True) if DTYPES[dtype].kind == "bool":
            return 0.125
        case Narrow():
            return 1.0 if DTYPES[dtype].itemsize == 1 else 0.5
    return 1.0


def stage_from_json(stage: str, **parameters: Any) -> Stage:
    """The stage that `Chain.to_json` described."""
    kind = STAGES.get(stage)
    if kind is None:
        raise UsageError(f"stage {stage!r} is not known; known are {', '.join(STAGES)}")
    formula = parameters.get("formula")
    if formula is not None:
        steps = tuple((str(operation), tuple(float(x) for x in operands)) for operation, operands in formula["steps"])
        made = Formula(steps, str(formula["work"]), int(formula["count"]))
        if made.work not in ("float32", "float64") or not 1 <= made.count <= 65536 or not 1 <= len(steps) <= 4:
            raise UsageError(f"formula {formula!r} cannot be computed")
        if any(operation not in OPERATIONS or not operands for operation, operands in steps):
            raise UsageError(f"formula {formula!r} cannot be computed")
        try:
            made.to_bytes()  # operands that the format cannot hold are refused now, not when an array comes
        except (struct.error, OverflowError) as error:
            raise UsageError(f"formula {formula!r} cannot be computed: {error}") from None
        parameters["formula"] = made
    return kind(**parameters)
