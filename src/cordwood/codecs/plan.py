"""A plan: the chain of stages chosen for a kind of array, and what it owns. It does not change once chosen.

>>> p = plan([image], "small")
>>> print(p)
palette[channel] | predict | entropy
>>> Plan.from_json(p.to_json()) == p
True
"""

import base64
import json
import struct
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, get_args

from cordwood.codecs.assets import Assets
from cordwood.codecs.dtypes import DTYPES, DType
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
from cordwood.common.arguments import one_of
from cordwood.errors import FormatError, Reason, UsageError

Goal = Literal["small", "balanced", "fast", "raw"]
GOALS: Final[tuple[Goal, ...]] = get_args(Goal)
STAGES: dict[str, type[Stage]] = {
    kind.name: kind for kind in (Narrow, Palette, Predict, Planes, Entropy, Zstd, Lz4, Raw)
}
_VERSION = 1


@dataclass(frozen=True)
class Plan:
    """Made by ``plan()``; ``str()`` shows the chain, ``hash`` is how frames name it, ``to_json()`` keeps it."""

    goal: str
    dtype: str
    stages: tuple[Stage, ...]
    assets: Assets = field(default_factory=Assets)

    def __post_init__(self) -> None:
        one_of("goal", self.goal, GOALS)
        one_of("dtype", self.dtype, DTYPES)
        if not all(isinstance(stage, Stage) for stage in self.stages):
            raise UsageError(f"stages are made of {', '.join(STAGES)}, but these are {self.stages!r}")
        places = [stage.place for stage in self.stages]
        if not places or places[-1] != 3 or places != sorted(set(places)):
            raise UsageError(f"the chain {self} does not go value | predict | planes | coder, one of each at most")
        self._check_chain(DTYPES[self.dtype].kind)

    def _check_chain(self, kind: str) -> None:
        """Stages that cannot be applied to the dtype, or to what the stage before them gives."""
        value = self.stages[0] if self.stages[0].place == 0 else None
        if isinstance(value, Narrow) and kind not in ("bool", "integer"):
            raise UsageError(f"narrow is for integers and bool, not for {self.dtype}")
        if isinstance(value, Palette) and kind not in ("float", "complex"):
            raise UsageError(f"palette is for floats, not for {self.dtype}")
        if isinstance(value, Palette) and kind == "complex" and (value.axis is not None or value.formula is not None):
            raise UsageError(f"palette: {self.dtype} takes one palette, of values, for the whole array")
        if isinstance(self.stages[-1], Raw) and any(isinstance(stage, Predict | Planes) for stage in self.stages):
            raise UsageError("raw stores elements or codes as they are: predict and planes need a coder after them")

    def __str__(self) -> str:
        return " | ".join(map(str, self.stages))

    @property
    def hash(self) -> int:
        """64 bits over what the plan owns; frames that use any of it carry this number."""
        return self.assets.hash

    @cached_property
    def _fixed(self) -> dict[str, int]:
        settings = dict(DEFAULTS)
        for stage in self.stages:
            settings.update(stage.settings())
        settings["dtype"] = DTYPES[self.dtype].code
        return settings

    def settings(self, rank: int) -> tuple[int, ...]:
        """The native encoder's numbers for an array of this rank."""
        axis = self.palette.axis if self.palette else None
        if axis is None:
            return tuple(self._fixed.values())
        # an axis the array lacks: no number of palettes fits, and the encoder falls back
        return tuple({**self._fixed, "palette_axis": rank + axis if rank + axis >= 0 else 254}.values())

    @cached_property
    def palette(self) -> Palette | None:
        """The palette stage, if the chain has one."""
        return next((stage for stage in self.stages if isinstance(stage, Palette)), None)

    @cached_property
    def formula(self) -> bytes:
        """The palette's formula in the frame's bytes."""
        return self.palette.formula.to_bytes() if self.palette and self.palette.formula else b""

    def to_json(self) -> str:
        """Everything, as text; what the plan owns is in base64."""
        stages = [{"stage": stage.name, **stage.parameters()} for stage in self.stages]
        assets = base64.b64encode(self.assets.encoded).decode()
        body = {"cordwood_plan": _VERSION, "goal": self.goal, "dtype": self.dtype, "stages": stages, "assets": assets}
        return json.dumps(body, indent=1)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Plan":
        """The plan that ``to_json`` wrote; FormatError says what is wrong with anything else."""
        try:
            body = json.loads(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise FormatError(f"a plan is JSON, but this is not: {error}") from None
        if not isinstance(body, dict) or "cordwood_plan" not in body:
            raise FormatError("a plan is a JSON object with a member 'cordwood_plan', which is missing here")
        if body["cordwood_plan"] != _VERSION:
            raise FormatError(
                f"a plan of version {body['cordwood_plan']!r}, but this Cordwood reads version {_VERSION}: upgrade it",
                Reason.VERSION,
            )
        try:
            stages = tuple(_stage(**entry) for entry in body["stages"])
            assets = Assets(base64.b64decode(body["assets"], validate=True))
            return cls(body["goal"], body["dtype"], stages, assets)
        except FormatError:
            raise
        except KeyError as error:
            raise FormatError(f"a plan without {error}") from None
        except (TypeError, ValueError, AttributeError, OverflowError, struct.error) as error:
            raise FormatError(f"a plan that cannot be: {error}") from None


def _stage(stage: str, **parameters: Any) -> Stage:
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
        made.to_bytes()  # operands that the format cannot hold are refused now, not when an array comes
        parameters["formula"] = made
    return kind(**parameters)


def fallback(dtype: DType, goal: str) -> Plan:
    """For arrays that a plan's palette does not fit: byte planes, and the goal's coder."""
    if goal in ("raw", "fast"):
        return Plan(goal, dtype.name, (Raw(),))
    layout: tuple[Stage, ...] = (Planes(rotated=dtype.kind in ("float", "complex")),) if dtype.itemsize > 1 else ()
    return Plan(goal, dtype.name, (*layout, Entropy("ans" if goal == "small" else "huffman", or_zstd=goal == "small")))
