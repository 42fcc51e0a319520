"""The order as the page of the format defines it, and how far counts are from what chance gives.

::

    defined()["sample_at"](position, length, seed, epoch)
    shuffled(len(ds), seed, epoch)                          # the numbers of an epoch in their order
    abs(deviation(np.bincount(found), expected)) < 4
"""

import functools
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

PAGE = Path(__file__).parents[3] / "docs" / "format" / "order.md"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@functools.cache
def defined() -> dict[str, Any]:
    """The functions of the page's Python."""
    names: dict[str, Any] = {"__name__": "page"}
    for code in _BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        exec(compile(code, str(PAGE), "exec"), names)
    return names


def shuffled(length: int, seed: int, epoch: int) -> list[int]:
    """The numbers of an epoch's samples in their order, for at most 65,536 samples."""
    return sorted(range(length), key=lambda number: defined()["mixed"](1, seed, epoch, number))


def sample_seeds(length: int, seed: int, epoch: int) -> npt.NDArray[np.uint64]:
    """The seed of every sample in an epoch."""
    return np.array([defined()["mixed"](2, seed, epoch, number) for number in range(length)], np.uint64)


def deviation(counts: npt.NDArray[np.int64], expected: float | npt.NDArray[np.float64]) -> float:
    """How many standard deviations Pearson's chi-square is away from where it should be."""
    freedom = counts.size - 1
    return float((((counts - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom))
