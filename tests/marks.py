"""Marks for parametrized tests.

@pytest.mark.parametrize("kind", slow_after(1, KINDS))
"""

from collections.abc import Iterable
from typing import Any

import pytest


def slow_after(count: int, values: Iterable[Any]) -> list[Any]:
    """Return the values, all but the first `count` of them marked slow."""
    return [
        value if place < count else pytest.param(value, marks=pytest.mark.slow) for place, value in enumerate(values)
    ]
