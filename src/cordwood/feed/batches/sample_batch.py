"""Combines whole samples into a batch, as the store does with samples that it reads.

    >>> SampleBatch().of([{"x": torch.ones(2), "n": 1}, {"x": torch.zeros(2), "n": None}])
    {'x': tensor([[1., 1.], [0., 0.]]), 'n': [1, None]}

This is torch's ``default_collate``, with three differences, so that a batch has one form whether samples were
transformed or not: what cannot be stacked is a list (also what some samples lack, where None stands for it; what all
lack is None), a tuple stays a tuple, and numbers have one dtype whichever comes first.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import default_collate
from torch.utils.data._utils.collate import default_collate_fn_map

from cordwood.feed.batches.padding import from_numpy
from cordwood.feed.device.nesting import like_mapping
from cordwood.store import ROOT_NAME

Ragged = tuple[str, str, str]  # a field, and two shapes that differ
Ruled = Callable[[str, list[Any]], tuple[bool, Any]]  # whether a field is put together by a rule, and the result


def _no_rule(name: str, values: list[Any]) -> tuple[bool, Any]:
    return False, None


class SampleBatch:
    """Puts one batch together; afterwards it tells which fields it met, and which of them differ in shape.

    `selected` are the names of the items of samples that are tuples, `ruled` is asked for every field first.
    """

    def __init__(self, selected: Sequence[str] | None = None, ruled: Ruled = _no_rule) -> None:
        self.names: list[str] = []
        self.ragged: list[Ragged] = []
        self._selected = selected
        self._ruled = ruled

    def of(self, samples: Sequence[Any]) -> Any:
        """The batch of these samples."""
        values = list(samples)
        first = next((value for value in values if value is not None), None)
        if not isinstance(first, Mapping | tuple):
            done, made = self._asked(ROOT_NAME, values)
            if done:
                return made
        return self._put("", first, values)

    def _asked(self, name: str, values: list[Any]) -> tuple[bool, Any]:
        self.names.append(name)
        return self._ruled(name, values)

    def _put_below(self, name: str, label: str, values: list[Any]) -> Any:
        name = f"{name}.{label}" if name else label
        done, made = self._asked(name, values)
        return made if done else self._put(name, next((value for value in values if value is not None), None), values)

    def _put(self, name: str, first: Any, values: list[Any]) -> Any:
        if first is None:
            return None
        if isinstance(first, Mapping) and all(value is None or isinstance(value, Mapping) for value in values):
            return self._mapping(name, first, values)
        if isinstance(first, list | tuple) and _same_type(first, values):
            lengths = sorted({len(value) for value in values if value is not None})
            if len(lengths) == 1:
                return self._sequence(name, first, values)
            self.ragged.append((name or ROOT_NAME, f"length {lengths[0]}", f"length {lengths[-1]}"))
            return values
        return self._leaf(name or ROOT_NAME, values)

    # ---- containers --------------------------------------------------------------------------------------------------

    def _mapping(self, name: str, first: Mapping[Any, Any], values: list[Any]) -> Any:
        keys = dict.fromkeys(key for value in values if value is not None for key in value)
        items = {
            key: self._put_below(
                name, str(key), [None if value is None or key not in value else value[key] for value in values]
            )
            for key in keys
        }
        return items if type(first) is dict else like_mapping(first, items)

    def _sequence(self, name: str, first: Any, values: list[Any]) -> Any:
        labels: Sequence[str] = getattr(first, "_fields", None) or [str(place) for place in range(len(first))]
        if not name and type(first) is tuple and self._selected is not None and len(self._selected) == len(first):
            labels = self._selected
        items = [
            self._put_below(name, label, [None if value is None else value[place] for value in values])
            for place, label in enumerate(labels)
        ]
        if isinstance(first, tuple) and hasattr(first, "_fields"):
            return type(first)(*items)
        return tuple(items) if isinstance(first, tuple) else items

    # ---- leaves ------------------------------------------------------------------------------------------------------

    def _leaf(self, name: str, values: list[Any]) -> Any:
        values = with_tensors(values)
        present = [value for value in values if value is not None]
        if all(isinstance(value, torch.Tensor) for value in present):
            first = present[0]
            other = next((value for value in present if value.shape != first.shape), None)
            if other is not None:
                self.ragged.append((name, str(tuple(first.shape)), str(tuple(other.shape))))
            return default_collate(values) if other is None and len(present) == len(values) else values
        return _stacked(values) if len(present) == len(values) else values


def _stacked(values: list[Any]) -> Any:
    """One tensor of numbers; what torch was taught to collate; else the list as it is."""
    if all(isinstance(value, np.bool_ | np.number) for value in values):
        return _as_tensor(np.array(values))
    if all(isinstance(value, bool | int | float | complex) for value in values):
        return _numbers(values)
    first = values[0]
    if isinstance(first, str | bytes | np.generic | np.ndarray) or not _same_type(first, values):
        return values
    known = any(isinstance(first, kind) for kind in default_collate_fn_map)  # callers may have added types of theirs
    return default_collate(values) if known else values


def with_tensors(values: Sequence[Any]) -> list[Any]:
    """The same values, but tensors where NumPy has arrays of numbers."""
    return [_as_tensor(value) if isinstance(value, np.ndarray) else value for value in values]


def _as_tensor(array: npt.NDArray[Any]) -> Any:
    """The array as a tensor; texts, dates and the like stay what they are."""
    try:
        return from_numpy(array)
    except TypeError:
        return array


def _numbers(values: list[Any]) -> Any:
    kinds = [(complex, torch.complex128), (float, torch.float64)]
    dtype = next((dtype for kind, dtype in kinds if any(isinstance(value, kind) for value in values)), None)
    try:
        return torch.tensor(values, dtype=dtype)
    except (OverflowError, RuntimeError, ValueError):  # an int that no tensor holds
        return values


def _same_type(first: Any, values: list[Any]) -> bool:
    return all(value is None or type(value) is type(first) for value in values)
