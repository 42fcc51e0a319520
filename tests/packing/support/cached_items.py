"""``cw.cached`` over datasets that record which of their items are read.

cached(numbered(1, 2, 3), dest)
Items.read          # [0, 1, 2, 0, 1, 2]: the first ones are made again
"""

from pathlib import Path
from typing import Any

import pytest

import cordwood as cw


def cached(source: Any, dest: Path, transform: Any = None, **options: Any) -> cw.Dataset:
    """`cw.cached`, quietly, and by default in this process."""
    return cw.cached(source, dest, transform, **{"workers": 0, "progress": False, **options})


class Reads(list[int]):
    """Numbers of items that were read; as it cannot be pickled, it is no part of what a dataset is."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError


class Items:
    """A dataset of these items; `read` is what was read of all of them in this process."""

    read = Reads()

    def __init__(self, *items: Any) -> None:
        self._items = list(items)

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, number: int) -> Any:
        Items.read.append(number)
        return self._items[number]


def numbered(*numbers: int) -> Items:
    return Items(*({"number": number} for number in numbers))


def stopped_in(source: Any, dest: Path, transform: Any = None, **options: Any) -> None:
    """Begin a store, and leave it in the middle."""

    class Stop(Exception):  # noqa: N818 - no error
        pass

    def stop(state: Any) -> None:
        if state.inputs >= 290:
            raise Stop

    with pytest.raises(Stop):
        cached(source, dest, transform, **options, progress=stop)
