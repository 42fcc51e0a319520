"""A plan: a menu of chains for arrays of one dtype. Each frame is made by one of them. It does not change once chosen.

>>> p = plan(images, "small", own=True)
>>> print(p)
predict | entropy, or 3 others
>>> Plan.from_json(p.to_json()) == p
True
"""

import base64
import binascii
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, get_args

from cordwood.codecs.assets import Assets
from cordwood.codecs.chain import Chain, Shape, stage_from_json
from cordwood.codecs.dtypes import DTYPES, DType
from cordwood.codecs.native_errors import raise_if_refused
from cordwood.codecs.stages.base import Stage
from cordwood.codecs.stages.entropy import Entropy
from cordwood.codecs.stages.palette import Palette
from cordwood.codecs.stages.planes import Planes
from cordwood.codecs.stages.raw import Raw
from cordwood.common.arguments import one_of
from cordwood.errors import FormatError, Reason, UsageError
from cordwood.native import _native

Goal = Literal["small", "balanced", "fast", "raw"]
GOALS: Final[tuple[Goal, ...]] = get_args(Goal)
# How many bytes (as a part of the array) a nanosecond for each byte is worth.
WEIGHT: Final = {"small": 0.002, "balanced": 0.03, "fast": 0.8, "raw": 1.0}
_VERSION = 2
_MOST_CHAINS = 64
_POINT = 1 << 16  # parts of a byte that the native encoder counts costs in


@dataclass(frozen=True)
class Plan:
    """Made by ``plan()``; ``str()`` shows the first chain, ``to_json()`` keeps everything.

    `shape` is the usual shape of the arrays, None for a dimension that varies: short frames have it.
    """

    goal: str
    dtype: str
    chains: tuple[Chain, ...]
    shape: Shape | None = None

    def __post_init__(self) -> None:
        one_of("goal", self.goal, GOALS)
        one_of("dtype", self.dtype, DTYPES)
        if not 1 <= len(self.chains) <= _MOST_CHAINS:
            raise UsageError(f"a plan has 1 to {_MOST_CHAINS} chains, but this one has {len(self.chains)}")
        for chain in self.chains:
            chain.check_dtype(self.dtype)

    @classmethod
    def single(cls, goal: str, dtype: str, stages: tuple[Stage, ...], assets: Assets | None = None) -> "Plan":
        """A plan of one chain, whose frames are full ones."""
        return cls(goal, dtype, (Chain(stages, assets or Assets()),))

    def __str__(self) -> str:
        others = len(self.chains) - 1
        return f"{self.chains[0]}{f', or {others} others' if others > 1 else ', or another' if others else ''}"

    def __getstate__(self) -> dict[str, Any]:
        # Without what is computed on first use: native handles cannot be pickled.
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def with_chains_of(self, other: "Plan", most: int) -> "Plan":
        """This plan with the chains of another one for the same dtype behind its own, `most` of them in all."""
        shape = None
        if self.shape is not None and other.shape is not None and len(self.shape) == len(other.shape):
            shape = tuple(a if a == b else None for a, b in zip(self.shape, other.shape, strict=True))
        chains = (chain.with_short(self.dtype, shape) for chain in (*self.chains, *other.chains))
        return Plan(self.goal, self.dtype, tuple(dict.fromkeys(chains))[:most], shape)

    # ---- for native calls ----------------------------------------------------------------------------------------

    def native(self, name: int = 0) -> tuple[Any, ...]:
        """As the native call that makes sets of plans takes it; short frames find their plan by `name`."""
        shape = None if self.shape is None else tuple(-1 if n is None else n for n in self.shape)
        chains = tuple((chain.assets.hash, chain.assets.encoded, chain.short) for chain in self.chains)
        return name, DTYPES[self.dtype].code, shape, chains

    @cached_property
    def handle(self) -> Any:
        """A set of this plan alone, for native calls."""
        return plan_set([self.native()])

    @cached_property
    def _encoders(self) -> dict[tuple[int, bool, bool], Any]:
        return {}

    def encoder(self, rank: int, *, short: bool, resorts: bool = True) -> Any:
        """The handle by which arrays of this rank are encoded natively; `short` allows short frames.

        `resorts` takes arrays that none of the chains can take, too.
        """
        key = rank, short, resorts
        if key not in self._encoders:
            weight = WEIGHT[self.goal] * _POINT
            alternatives: list[Any] = []
            for chain in (*self.chains, *(self._last_resorts() if resorts else ())):
                settings = tuple(chain.settings(self.dtype, rank).values())
                owned = chain.assets.hash, chain.assets.encoded
                costs = (round(weight * nanoseconds) for nanoseconds in chain.costs(self.dtype))
                alternatives.append((settings, chain.formula, *owned, chain.short is not None, *costs))
            shape = self.native()[2] if short else None
            made = _native.encoder(shape, tuple(alternatives), len(self.chains))
            raise_if_refused(made, "plan")
            self._encoders[key] = made
        return self._encoders[key]

    def _last_resorts(self) -> Iterable[Chain]:
        """For arrays with other values than the palettes: a palette in the frame, at last no palette."""
        if not all(chain.palette for chain in self.chains):
            return
        palette = self.chains[0].palette
        assert palette is not None  # noqa: S101 - for the type checker
        if palette.source != "frame":
            first = self.chains[0]
            yield Chain((Palette(palette.axis, palette.bits, "frame"), *first.stages[1:]), first.assets)
        yield fallback(DTYPES[self.dtype], self.goal).chains[0]

    # ---- as text -------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Everything, as text; what the chains own is in base64."""
        chains = [
            {
                "assets": base64.b64encode(chain.assets.encoded).decode(),
                "short": None if chain.short is None else chain.short.hex(),
                "stages": chain.to_json(),
            }
            for chain in self.chains
        ]
        shape = None if self.shape is None else list(self.shape)
        told = {"goal": self.goal, "dtype": self.dtype, "shape": shape, "chains": chains}
        return json.dumps({"cordwood_plan": _VERSION, **told}, indent=1)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Plan":
        """The plan that ``to_json`` wrote, or version 1 of it; FormatError says what is wrong with anything else."""
        try:
            body = json.loads(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise FormatError(f"a plan is JSON, but this is not: {error}") from None
        if not isinstance(body, dict) or "cordwood_plan" not in body:
            raise FormatError("a plan is a JSON object with a member 'cordwood_plan', which is missing here")
        version = body["cordwood_plan"]
        if type(version) is not int or version not in (1, _VERSION):
            raise FormatError(
                f"a plan of version {version!r}, but this Cordwood reads versions 1 and {_VERSION}: upgrade it",
                Reason.VERSION,
            )
        try:
            if version == 1:
                return cls(body["goal"], body["dtype"], (_chain(body | {"short": None}),))
            chains = tuple(map(_chain, body["chains"]))
            return cls(body["goal"], body["dtype"], chains, _shape(body["shape"]))._checked()
        except FormatError:
            raise
        except KeyError as error:
            raise FormatError(f"a plan without {error}") from None
        except (TypeError, ValueError, AttributeError, OverflowError, binascii.Error) as error:
            raise FormatError(f"a plan that cannot be: {error}") from None

    def _checked(self) -> "Plan":
        """The plan, if its templates can be."""
        _ = self.handle
        return self


def _chain(body: dict[str, Any]) -> Chain:
    stages = tuple(stage_from_json(**entry) for entry in body["stages"])
    short = body["short"]
    assets = Assets(base64.b64decode(body["assets"], validate=True))
    return Chain(stages, assets, None if short is None else bytes.fromhex(short))


def _shape(found: Any) -> Shape | None:
    if found is None:
        return None
    if not isinstance(found, list) or not all(n is None or (type(n) is int and 0 <= n < 1 << 48) for n in found):
        raise FormatError(f"a plan for arrays of shape {found!r}, which cannot be")
    if len(found) > 64:
        raise FormatError(f"a plan for arrays of {len(found)} dimensions: at most 64 can be encoded")
    return tuple(found)


def plan_set(plans: Iterable[tuple[Any, ...]]) -> Any:
    """The handle of several plans, each as `Plan.native` gives it."""
    made = _native.plan_set(tuple(plans))
    raise_if_refused(made, "plan")
    return made


def fallback(dtype: DType, goal: str) -> Plan:
    """For arrays of which nothing is known, or that no palette fits: byte planes, and the goal's coder."""
    if goal in ("raw", "fast"):
        return Plan.single(goal, dtype.name, (Raw(),))
    layout: tuple[Stage, ...] = (Planes(rotated=dtype.kind in ("float", "complex")),) if dtype.itemsize > 1 else ()
    coder = Entropy("ans" if goal == "small" else "huffman", or_zstd=goal == "small")
    return Plan.single(goal, dtype.name, (*layout, coder))
