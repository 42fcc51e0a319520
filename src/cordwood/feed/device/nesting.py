"""Applies a function to every tensor in a nested batch, and rebuilds the same nesting.

    replaced({"image": image, "labels": (a, b)}, lambda leaf: leaf.to("cuda"))

Batches are what people's collate functions make: dictionaries of all kinds, tuples, named tuples, lists, and objects of
their own. Containers are rebuilt in the way that torch's DataLoader rebuilds them when it pins memory, so that a type
which survives there survives here; what needs no change is not rebuilt but given back as it is.
"""

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any, cast

import torch


def replaced(data: Any, change: Callable[[Any], Any]) -> Any:
    """The data with `change` applied to everything in it that is no container; the data itself if nothing changed.

    An object that knows how to move, because it has a `to`, is not looked into, unless it is a mapping: that of a
    tokenizer has a `to`, and tensors for values. A TensorDict is a mapping too, but knows of streams: it moves itself.
    """
    if isinstance(data, torch.Tensor) or hasattr(data, "record_stream"):
        return change(data)
    if isinstance(data, str | bytes | bytearray):
        return data
    if isinstance(data, Mapping):
        return _mapping(data, change)
    if hasattr(data, "to"):
        return change(data)
    if isinstance(data, Sequence):
        return _sequence(data, change)
    return change(data)


def _mapping(data: Mapping[Any, Any], change: Callable[[Any], Any]) -> Mapping[Any, Any]:
    new = {key: replaced(value, change) for key, value in data.items()}
    return data if all(new[key] is value for key, value in data.items()) else like_mapping(data, new)


def like_mapping(data: Mapping[Any, Any], items: dict[Any, Any]) -> Mapping[Any, Any]:
    """A mapping of the same type with these items; a dict where that type cannot be made."""
    try:
        if not isinstance(data, MutableMapping):
            return cast(Any, type(data))(items)  # type: ignore[no-any-return]
        # A copy and not a new one: a type that a user defined may carry more than its items.
        clone = copy.copy(data)
        clone.update(items)
    except TypeError:  # it can be neither copied and updated nor made from a dict
        return items
    return clone


def _sequence(data: Sequence[Any], change: Callable[[Any], Any]) -> Sequence[Any]:
    new = [replaced(value, change) for value in data]
    if all(after is before for after, before in zip(new, data, strict=True)):
        return data
    kind = cast(Any, type(data))
    if isinstance(data, tuple):
        return kind(*new) if hasattr(data, "_fields") else kind(new)  # type: ignore[no-any-return]
    try:
        if not isinstance(data, MutableSequence):
            return kind(new)  # type: ignore[no-any-return]
        clone = copy.copy(data)
        for position, value in enumerate(new):
            clone[position] = value
    except TypeError:
        return new
    return clone
