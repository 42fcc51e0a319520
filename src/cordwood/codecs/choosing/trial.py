"""Tries chains on the same arrays, and keeps what each makes of every array.

trial = Trial(samples, dtype, "balanced", shape, is_menu=True)
tried = trial.consider((Narrow(), Raw()))
tried.sizes, tried.scores
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cordwood.codecs.assets import Assets
from cordwood.codecs.chain import Chain, Shape, code_share, costs
from cordwood.codecs.dtypes import Array, DType
from cordwood.codecs.plan import WEIGHT, Goal, Plan
from cordwood.codecs.stages.base import Stage
from cordwood.codecs.stages.narrow import Narrow
from cordwood.codecs.stages.palette import Palette
from cordwood.native import _native

Stages = tuple[Stage, ...]


@dataclass(frozen=True)
class Tried:
    """A chain, and what it makes of each array: bytes, and bytes with what decoding costs."""

    chain: Chain
    sizes: npt.NDArray[np.float64]
    scores: npt.NDArray[np.float64]
    total: float  # what chains are compared by: the score of all arrays, as a part of their bytes


class Trial:
    """Chains that are tried on the same arrays."""

    def __init__(
        self, samples: Sequence[Array], dtype: DType, goal: Goal, shape: Shape | None, *, is_menu: bool
    ) -> None:
        self.is_menu = is_menu
        self.samples = samples
        self.dtype = dtype
        self.goal = goal
        self.shape = shape
        self.tried: list[Tried] = []
        self.palettes: dict[Palette, bytes] = {}  # of plans, as assets keep them
        self.nbytes = np.array([array.nbytes for array in samples], np.float64)

    def consider(self, stages: Stages) -> Tried:
        """Try a chain that owns nothing but its palettes."""
        return self.add(Chain(stages, self.assets(stages)))

    def assets(self, stages: Stages, tables: bytes = b"") -> Assets:
        """What a chain of these stages owns, with these tables."""
        first = stages[0]
        return Assets.of(self.palettes.get(first, b"") if isinstance(first, Palette) else b"", tables)

    def add(self, chain: Chain) -> Tried:
        """Try a chain with what it owns, once."""
        chain = chain.with_short(self.dtype.name, self.shape)
        found = next((one for one in self.tried if one.chain == chain), None)
        if found is None:
            found = self.measured(chain)
            self.tried.append(found)
        return found

    def measured(self, chain: Chain) -> Tried:
        """What a chain makes of the arrays."""
        sizes = self._sizes(chain)
        share = code_share(chain.stages, self.dtype.name)
        if self.dtype.kind != "bool":  # codes of which may be less than a byte
            share = code_width(self.samples, self.dtype, chain.stages) / self.dtype.itemsize
        once, per_byte = costs(chain.stages, share, owns=bool(chain.assets.encoded))
        weight = WEIGHT[self.goal]
        scores = sizes + weight * (per_byte * self.nbytes + (once if self.shape is not None else 0))
        total = float(sizes.sum()) / float(self.nbytes.sum()) + weight * per_byte
        return Tried(chain, sizes, scores, total)

    def _sizes(self, chain: Chain) -> npt.NDArray[np.float64]:
        shape = self.shape if all(has_shape(array, self.shape) for array in self.samples) else None
        alone = Plan(self.goal, self.dtype.name, (chain,), shape)
        found = []
        for array in self.samples:
            encoder = alone.encoder(array.ndim, short=shape is not None, resorts=False)
            answer = _native.encode(array, array.shape, encoder, 1)
            # a chain that cannot take an array is worth what the array is
            found.append(len(answer) if isinstance(answer, bytes) else array.nbytes + 64)
        return np.array(found, np.float64)

    def best(self) -> Tried:
        """The chain that is best for all arrays together; of equals the one that was tried first."""
        return min(self.tried, key=lambda one: one.total)


def has_shape(array: Array, shape: Shape | None) -> bool:
    """Whether short frames of this shape can hold the array."""
    if shape is None or array.ndim != len(shape):
        return False
    return all(wanted is None or wanted == size for size, wanted in zip(array.shape, shape, strict=True))


def code_width(samples: Sequence[Array], dtype: DType, stages: Stages) -> int:
    """Bytes of a code after the value stage, if these stages begin with one."""
    match stages[:1]:
        case (Palette(bits=bits),):
            return bits // 8
        case (Narrow(),):
            spread = max(int(array.max()) - int(array.min()) for array in samples)
            return min(
                dtype.itemsize, 1 if spread < 1 << 8 else 2 if spread < 1 << 16 else 4 if spread < 1 << 32 else 8
            )
        case _:
            return dtype.itemsize
