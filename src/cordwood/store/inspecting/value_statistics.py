"""Statistics of the values of a field: range, mean and spread, zeros and NaNs.

>>> values = Values()
>>> values.add(np.array([0.0, 1.0, np.nan, 3.0]))
>>> values.smallest, values.largest, values.nans, values.zeros
(0.0, 3.0, 1, 1)

Arrays come one by one; sums are kept as mean and squared distances from it, which stay exact enough whatever the
number of values (Chan, Golub and LeVeque, 1979).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cordwood.codecs import DTYPES
from cordwood.tensors import torch_dtype

Numbers = npt.NDArray[Any]


@dataclass(slots=True)
class Values:
    """The statistics of all values so far. Mean and spread are those of finite values; of complex ones, magnitudes."""

    count: int = 0
    finite: int = 0
    zeros: int = 0
    nans: int = 0
    infinities: int = 0
    smallest: int | float | None = None
    largest: int | float | None = None
    mean: float = 0.0
    squares: float = 0.0  # the sum of squared distances from the mean
    magnitudes: bool = False

    @property
    def spread(self) -> float:
        """The standard deviation."""
        return math.sqrt(self.squares / self.finite) if self.finite else 0.0

    def add(self, array: Numbers) -> None:
        """Take the values of one array in."""
        if array.dtype.kind == "c":
            array = np.abs(array)
            self.magnitudes = True
        if not array.size:
            return
        self.count += array.size
        self.zeros += array.size - int(np.count_nonzero(array))
        if array.dtype.kind == "f":
            array = self._without_nans(array)
            if not array.size:
                return
        smallest, largest = array.min().item(), array.max().item()
        self.smallest = smallest if self.smallest is None else min(self.smallest, smallest)
        self.largest = largest if self.largest is None else max(self.largest, largest)
        if isinstance(smallest, float) and not (math.isfinite(smallest) and math.isfinite(largest)):
            finite = array[np.isfinite(array)]
            self.infinities += array.size - finite.size
            array = finite
        self._mix(array)

    def _without_nans(self, array: Numbers) -> Numbers:
        missing = np.isnan(array)
        count = int(np.count_nonzero(missing))
        self.nans += count
        return array[~missing] if count else array

    def _mix(self, array: Numbers) -> None:
        if not array.size:
            return
        with np.errstate(over="ignore", invalid="ignore"):  # squares of the largest doubles
            mean = float(array.mean(dtype=np.float64))
            squares = float(np.square(array.astype(np.float64) - mean).sum())
            total = self.finite + array.size
            apart = mean - self.mean
            self.squares += squares + apart * apart * (self.finite * array.size / total)
            self.mean += apart * (array.size / total)
        self.finite = total

    def to_dict(self) -> dict[str, Any]:
        """For JSON, which has no word for infinity: such numbers are text there."""
        return {
            "count": self.count,
            "min": _plain(self.smallest),
            "max": _plain(self.largest),
            "mean": _plain(self.mean) if self.finite else None,
            "std": _plain(self.spread) if self.finite else None,
            "zeros": self.zeros,
            "nans": self.nans,
            "infinities": self.infinities,
            "magnitudes": self.magnitudes,
        }


def _plain(number: int | float | None) -> int | float | str | None:
    return number if number is None or isinstance(number, int) or math.isfinite(number) else str(number)


def numbers_of(value: object, dtype: str) -> Numbers | None:
    """A leaf's value as an array of numbers that NumPy can count with; None where it has none."""
    if isinstance(value, torch.Tensor):
        if value.dtype in (torch.complex32, torch.bfloat16) or "float8" in dtype:
            wide = torch.complex64 if value.dtype.is_complex else torch.float32
            return value.to(wide).numpy()
        return value.numpy() if dtype in DTYPES and "float4" not in dtype else None
    if not isinstance(value, np.ndarray | np.generic | bool | int | float | complex):
        return None
    array = np.asarray(value)
    known = DTYPES.get(dtype)
    if known is None or known.carrier == dtype:
        return array if array.dtype.kind in "biufc" else None
    meant = torch_dtype(dtype)
    if meant is None or "float4" in dtype:
        return None
    return numbers_of(torch.from_numpy(np.atleast_1d(array)).view(meant), dtype)
