"""The samples of a store that a dataset shows, in order: a range if possible, else an array of numbers.

>>> choose(range(0, 100), slice(10, 20, 5))
range(10, 20, 5)
>>> numbers_of(range(10, 20), [0, -1])
array([10, 19])
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cordwood.errors import UsageError
from cordwood.native import _native

Numbers = npt.NDArray[np.int64]
Choice = range | Numbers


def choose(choice: Choice, part: slice) -> Choice:
    """A slice of the samples chosen; no array is made of a range."""
    return choice[part]


def positions(choice: Choice) -> Numbers:
    """The numbers of all samples chosen, as an array."""
    if isinstance(choice, range):
        return np.arange(choice.start, choice.stop, choice.step, dtype=np.int64)
    return choice


def numbers_of(choice: Choice, indices: Any) -> Numbers:
    """The samples at these places among the chosen ones; negative ones count from the end, bools are a mask."""
    count = len(choice)
    if type(indices) is list:  # what most loaders ask with
        given = np.empty(len(indices), np.int64)
        if _native.sample_numbers(indices, count, given):
            return _chosen(choice, given)
    given = _as_array(indices)
    if given.dtype == np.bool_:
        if len(given) != count:
            raise UsageError(f"a mask of {len(given)} bools for {count} samples: it needs one for each")
        given = np.flatnonzero(given)
    if not len(given):
        return np.zeros(0, np.int64)
    wide = given.astype(np.int64, copy=False)
    # Negative numbers are huge ones without a sign: one look finds all that need another one.
    if (wide.view(np.uint64) >= count).any():
        wrong = given[(given < -count) | (given >= count)]
        if len(wrong):
            raise IndexError(f"sample {wrong[0]} of {count}")
        wide = np.where(wide < 0, wide + count, wide)
    return _chosen(choice, np.ascontiguousarray(wide))


def _chosen(choice: Choice, given: Numbers) -> Numbers:
    if isinstance(choice, range):
        return given if choice.start == 0 and choice.step == 1 else given * choice.step + choice.start
    return np.asarray(choice[given])


def _as_array(indices: Any) -> npt.NDArray[Any]:
    if isinstance(indices, torch.Tensor):
        indices = indices.detach().cpu().numpy()
    elif isinstance(indices, range):
        return np.arange(indices.start, indices.stop, indices.step, dtype=np.int64)
    try:
        given = np.asarray(indices if isinstance(indices, np.ndarray) else list(indices))
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"{type(indices).__name__} is no list of sample numbers") from None
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iub"):
        raise UsageError(
            f"samples are asked for by a list of whole numbers, not by {given.dtype} of shape {given.shape}"
        )
    return given
