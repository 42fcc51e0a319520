"""The rows of one object: a list of samples, or columns with the same first dimension.

    rows_of([sample, sample], "a.pt")                            # each item
    rows_of({"x": tensor[1000, 8], "y": tensor[1000]}, "a.pt")   # {"x": x[i], "y": y[i]}
    rows_of((tensor[1000, 8], tensor[1000]), "a.pt")             # (x[i], y[i])
    rows_of(tensor[1000, 8], "a.pt")                             # x[i]

Whatever has no rows, such as a checkpoint, is refused with what was found in it.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from cordwood.errors import UsageError

_SHOWN = 5


class Rows:
    """The samples in an object, by number; each has memory of its own."""

    def __init__(self, length: int, row: Callable[[int], Any]) -> None:
        self._length = length
        self._row = row

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, number: int) -> Any:
        return self._row(number)


def rows_of(found: Any, where: str) -> Rows:
    """The samples in an object; a UsageError says what it is if it holds none."""
    if isinstance(found, list):
        if not found:
            raise UsageError(f"{where} holds an empty list: there is nothing to pack")
        return Rows(len(found), lambda number: own(found[number]))
    if isinstance(found, torch.Tensor | np.ndarray):
        if not found.ndim:
            raise UsageError(f"{where} holds one number: samples are the rows of a tensor of one dimension or more")
        return Rows(len(found), lambda number: own(found[number]))
    if isinstance(found, Mapping) and found and all(isinstance(key, str) for key in found):
        columns = dict(found)
        count = _common_length(columns, where)
        return Rows(count, lambda number: {key: own(column[number]) for key, column in columns.items()})
    if isinstance(found, tuple) and found:
        count = _common_length(dict(enumerate(found)), where)
        if hasattr(found, "_fields"):
            return Rows(count, lambda number: type(found)(*(own(column[number]) for column in found)))
        return Rows(count, lambda number: tuple(own(column[number]) for column in found))
    raise UsageError(
        f"{where} holds {_shape_of(found)}, and a file of samples holds a list of them, or tensors with a common first "
        "dimension: one, or a dict or tuple of them; for another structure write a function that returns a list, and "
        "give its module:name"
    )


def own(found: Any) -> Any:
    """The same with tensors of its own: a transform may write to them, and a view would travel with all its storage."""
    if isinstance(found, torch.Tensor):
        return found.clone()
    if isinstance(found, np.ndarray):
        return found.copy()
    if type(found) is dict:
        return {key: own(value) for key, value in found.items()}
    if type(found) in (list, tuple):
        return type(found)(map(own, found))
    return found


def _common_length(columns: Mapping[Any, Any], where: str) -> int:
    lengths = {key: _length(column) for key, column in columns.items()}
    if None in lengths.values() or len(set(lengths.values())) > 1:
        told = ", ".join(f"{key}: {_shape_of(column)}" for key, column in list(columns.items())[:_SHOWN])
        more = f" and {len(columns) - _SHOWN} more" if len(columns) > _SHOWN else ""
        raise UsageError(
            f"{where} holds {told}{more}, with no first dimension in common, so it has no rows that could be samples: "
            "a checkpoint is kept with cw.save; a file of samples holds a list of them, or tensors that all have as "
            "many rows as there are samples"
        )
    count = next(iter(lengths.values()))
    return count if count is not None else 0


def _length(column: Any) -> int | None:
    if isinstance(column, torch.Tensor | np.ndarray):
        return len(column) if column.ndim else None
    return len(column) if isinstance(column, list | tuple) else None


def _shape_of(found: Any) -> str:
    if isinstance(found, torch.Tensor | np.ndarray):
        return f"{type(found).__name__}{list(found.shape)}"
    if isinstance(found, Mapping | list | tuple):
        return f"{type(found).__name__} of {len(found)}"
    return type(found).__name__
