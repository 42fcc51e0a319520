"""Rounds floats to a narrower dtype where the caller asked for it, and computes the error."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cordwood.codecs import DTYPES
from cordwood.errors import UsageError
from cordwood.store.schema.schema import Leaf

Array = NDArray[Any]


def store_as(array: Array, leaf: Leaf) -> tuple[Array, float]:
    """The array in the dtype that the leaf is stored as, and the largest absolute error of a value.

    ::

        stored, worst = store_as(np.array([0.1], np.float32), leaf)   # leaf.store_as == "float16"

    Infinities and NaN stay what they are and make no error. UsageError for a finite number that the narrower dtype
    has no room for. A leaf that is stored as it comes is given back as it is, with no error.
    """
    if leaf.store_as is None:
        return array, 0.0
    # A value and its rounding are so close that their difference is exact in the wider dtype.
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        stored = _rounded(array, leaf.store_as)
        worst = float(np.fmax.reduce(np.abs(widened(stored, leaf) - array), axis=None, initial=0.0))
    if worst == np.inf:
        largest = float(np.abs(array[np.isfinite(array)]).max())
        raise UsageError(
            f"field {leaf.name!r} is stored as {leaf.store_as}, which has no number as large as {largest:g}; scale the "
            "values, or store them as they are"
        )
    return stored, worst


def widened(stored: Array, leaf: Leaf) -> Array:
    """Stored values in the dtype that the caller gave; a new array unless nothing is to be done."""
    given = DTYPES[leaf.node.dtype].numpy
    if stored.dtype == given:
        return stored
    if leaf.stored != "bfloat16":
        return stored.astype(given)
    bits = stored.astype(np.uint32) << np.uint32(16)  # a bfloat16 is the upper half of a float32
    return bits.view(np.float32).astype(given, copy=False)


def _rounded(array: Array, dtype: str) -> Array:
    if dtype != "bfloat16":
        return array.astype(dtype)
    tensor = torch.from_numpy(np.require(array, requirements=["C", "W"]))
    return np.asarray(tensor.to(torch.bfloat16).view(torch.uint16).numpy())
