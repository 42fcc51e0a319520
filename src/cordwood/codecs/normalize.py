"""Decodes uint8 images as normalised floats, in one pass.

    images = np.empty((64, 3, 224, 224), np.float32)
    codecs.decode_into(frames, list(images), normalize=codecs.Normalize(mean, std))

The floats are those of ``x.float().div(255).sub(mean).div(std)``, bit for bit, then cast.
"""

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cordwood.codecs.dtypes import DTYPES
from cordwood.codecs.formula import Formula
from cordwood.errors import UsageError


@dataclass(frozen=True)
class Normalize:
    """Mean and standard deviation of each channel, on the scale of 0 to 1; ``axis`` is where the channels are (0:
    CHW, 2: HWC).

    The output's dtype is that of the array decoded into; bfloat16 is asked for by ``dtype="bfloat16"`` and goes into
    uint16.
    """

    mean: Sequence[float]
    std: Sequence[float]
    axis: int = 0
    dtype: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.mean, Sized) or not isinstance(self.std, Sized):
            raise UsageError("normalize: mean and std are lists, a number for each channel: Normalize([0.5], [0.5])")
        object.__setattr__(
            self, "mean", tuple(map(float, self.mean))
        )  # tuples, so that it can be hashed and cannot change
        object.__setattr__(self, "std", tuple(map(float, self.std)))
        if not 1 <= len(self.mean) == len(self.std) <= 65536:
            raise UsageError(
                f"normalize: {len(self.mean)} means and {len(self.std)} standard deviations; each channel needs both"
            )
        if self.axis < 0:
            raise UsageError(f"normalize: axis is {self.axis}, but counts from the front: 0 for CHW, 2 for HWC")

    def output(self, given: "np.dtype[np.generic] | None") -> str:
        """The name of the output's dtype when the out array has this one."""
        name = self.dtype or (given.name if given is not None else "float32")
        if name not in ("float32", "float16", "bfloat16"):
            raise UsageError(f"normalize: the output can be float32, float16 or bfloat16, not {name}")
        if given is not None and given != DTYPES[name].numpy:
            raise UsageError(f"normalize: {name} goes into an array of {DTYPES[name].carrier}, but out is of {given}")
        return name

    @cached_property
    def _terms(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        return np.asarray(self.mean, np.float32).ravel(), np.asarray(self.std, np.float32).ravel()

    @cached_property
    def _tables(self) -> dict[str, bytes]:
        return {}

    def native(self, output: str) -> tuple[bytes, int, int, float, bytes, bytes]:
        """As the native call takes it: the table of all results, and the terms it came from."""
        mean, std = self._terms
        if output not in self._tables:
            steps = (("/", (255.0,)), ("-", tuple(map(float, mean))), ("/", tuple(map(float, std))))
            dtype = DTYPES[output]
            formula = Formula(steps)
            self._tables[output] = b"".join(formula.values(dtype, c).tobytes() for c in range(len(mean)))
        return self._tables[output], self.axis, DTYPES[output].itemsize, 255.0, mean.tobytes(), std.tobytes()
