"""The order as the page of the format defines it, and how far counts are from what chance gives.

::

    defined()["sample_at"](position, length, seed, epoch)
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


def deviation(counts: npt.NDArray[np.int64], expected: float | npt.NDArray[np.float64]) -> float:
    """How many standard deviations Pearson's chi-square is away from where it should be."""
    freedom = counts.size - 1
    return float((((counts - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom))
