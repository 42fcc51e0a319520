"""Collates samples for a batched transform, and cuts the batch that it returns into samples.

>>> collate([{"image": torch.zeros(3), "path": "a"}, {"image": torch.ones(3), "path": "b"}])
{"image": tensor([[0., 0., 0.], [1., 1., 1.]]), "path": ["a", "b"]}

Dicts and tuples are the structure of a sample; tensors and arrays of one shape are stacked, numbers become a tensor,
and everything else is a list with one item a sample. Cutting goes the same way back, so that a list never is anything
but a list of one item a row.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from cordwood.common.text import brief
from cordwood.errors import UsageError
from cordwood.store import shown_names
from cordwood.store.writing.batch_rows import below, odd_part, refuse_collated, transposed

_NUMBERS = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
_INT64 = range(-(1 << 63), 1 << 63)


def collate(samples: Sequence[Any]) -> Any:
    """One batch of samples that have the same keys or the same length."""
    first = samples[0]
    for number, sample in enumerate(samples):
        _check_alike(first, sample, number)
    return _collated(samples)


def _check_alike(first: Any, sample: Any, number: int) -> None:
    if isinstance(first, Mapping) and (not isinstance(sample, Mapping) or sample.keys() != first.keys()):
        found = f"the fields {shown_names(list(map(str, sample)))}" if isinstance(sample, Mapping) else brief(sample)
        wanted = f"the first one has {shown_names(list(map(str, first)))}"
    elif isinstance(first, tuple) and (type(sample) is not type(first) or len(sample) != len(first)):
        found, wanted = brief(sample), f"the first one is a tuple of {len(first)}"
    else:
        return
    raise UsageError(
        f"sample {number} of a batch has {found}, but {wanted}: a batched transform needs samples that are alike; use "
        "one that takes a sample at a time"
    )


def _collated(values: Sequence[Any]) -> Any:
    first = values[0]
    if isinstance(first, Mapping) and all(isinstance(one, Mapping) and one.keys() == first.keys() for one in values):
        kind = OrderedDict if isinstance(first, OrderedDict) else dict
        return kind((key, _collated([one[key] for one in values])) for key in first)
    if isinstance(first, tuple) and all(type(one) is type(first) and len(one) == len(first) for one in values):
        columns = [_collated(column) for column in zip(*values, strict=True)]
        return type(first)(*columns) if hasattr(first, "_fields") else tuple(columns)
    return _leaves(values)


def _leaves(values: Sequence[Any]) -> Any:
    first = values[0]
    if isinstance(first, torch.Tensor):
        alike = all(
            isinstance(one, torch.Tensor) and one.dtype == first.dtype and one.shape == first.shape for one in values
        )
        return torch.stack(list(values)) if alike else list(values)
    if isinstance(first, np.ndarray | np.generic):
        alike = all(
            isinstance(one, np.ndarray | np.generic) and one.dtype == first.dtype and one.shape == first.shape
            for one in values
        )
        try:
            return torch.from_numpy(np.stack(values)) if alike else list(values)
        except TypeError:  # texts and the like, which torch has no type for
            return list(values)
    kind = _NUMBERS.get(type(first))
    if kind is None or any(type(one) is not type(first) for one in values):
        return list(values)
    if type(first) is int and any(one not in _INT64 for one in values):
        return list(values)
    return torch.tensor(values, dtype=kind)


def cut(batch: Any) -> list[Any]:
    """The samples of a batch that a transform returned: a list or iterator of samples, or what `collate` makes."""
    if isinstance(batch, Iterator):
        return list(batch)
    if isinstance(batch, list):
        refuse_collated(batch)
        return batch
    length = next(_lengths(batch), None)
    if length is None:
        raise UsageError(
            f"a batched transform returned {brief(batch)}, which has no rows: it returns a dict or tuple of tensors "
            "and lists with one value a row, a tensor, or a list of samples"
        )
    return _rows(batch, length, "")


def _lengths(part: Any) -> Iterator[int]:
    """Rows of the parts, in order."""
    if isinstance(part, torch.Tensor | np.ndarray):
        if part.ndim:
            yield len(part)
    elif isinstance(part, list):
        yield len(part)
    elif isinstance(part, Mapping | tuple):
        for each in part.values() if isinstance(part, Mapping) else part:
            yield from _lengths(each)


def _rows(part: Any, length: int, name: str) -> list[Any]:
    if isinstance(part, Mapping):
        columns = [_rows(each, length, below(name, key)) for key, each in part.items()]
        kind = OrderedDict if isinstance(part, OrderedDict) else dict
        return [kind(zip(part, values, strict=True)) for values in transposed(columns, length)]
    if isinstance(part, tuple):
        columns = [_rows(each, length, below(name, key)) for key, each in enumerate(part)]
        made = transposed(columns, length)
        return [type(part)(*values) for values in made] if hasattr(part, "_fields") else made
    if not isinstance(part, torch.Tensor | np.ndarray | list):
        raise _odd(name, f"is {brief(part)}", length)
    if not isinstance(part, list) and not part.ndim:
        raise _odd(name, "has no dimension", length)
    if len(part) != length:
        raise _odd(name, f"has {len(part)} rows", length)
    return list(part.unbind(0)) if isinstance(part, torch.Tensor) else list(part)


def _odd(name: str, found: str, length: int) -> UsageError:
    return odd_part(name, found, length, "the batch that a transform returned")
