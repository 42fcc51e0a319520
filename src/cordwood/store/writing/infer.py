"""From samples to their schema.

    >>> infer([{"image": image, "label": 3}, {"image": other, "label": 1, "note": "blurred"}])
    image  tensor of uint8
    label  int
    note   str

Samples are joined: a key that some of them lack is a field that may be absent, None beside a value is a field that may
be None. Where they do not agree on a type, a dtype or a length, the smallest part around the disagreement is kept as it
comes, as "any". Arrays may have other shapes in every sample.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, Final

import numpy as np
import torch

from cordwood.codecs import DTYPES
from cordwood.common.suggest import did_you_mean
from cordwood.errors import UsageError
from cordwood.store.schema.field import Field
from cordwood.store.schema.node import ARRAYS, CONTAINERS, DEEPEST, DICTS, Node, is_key, scalar
from cordwood.store.schema.schema import ROOT_NAME, Schema, described_node, shown_names
from cordwood.store.values.accepted_types import INT64, array_dtype, named_tuple, refusal, tensor_dtype, where
from cordwood.store.values.any_value import check_key

_ANY: Final = Node("any")
_NONE: Final = Node("none")
_BY_TYPE: Final[dict[type, Node]] = {
    type(None): _NONE,
    bool: scalar("bool"),
    float: scalar("float"),
    complex: scalar("complex"),
    str: Node("str"),
    bytes: Node("bytes"),
}
_PLAIN: Final = frozenset((int, *_BY_TYPE))  # types that need no second look


def infer(samples: Iterable[Any], fields: Mapping[str, Field] | None = None) -> Schema:
    """The schema that all these samples fit; UsageError names a part that cannot be stored, and a wrong field."""
    given = dict(fields or {})
    for name, field in given.items():
        if not isinstance(field, Field):
            raise UsageError(f"fields has {field!r} for {name!r}, but takes cw.Field(...)")
    varying = frozenset(name for name, field in given.items() if field.varies)
    root: Node | None = None
    for sample in samples:
        seen = observe(sample, varying)
        root = seen if root is None else _join(root, seen)
    if root is None:
        raise UsageError("a schema is made from samples, and there are none")
    for name in varying:
        root = _with_place_for(name.split("."), root, name)
    plain = Schema(root)
    _check_fields(plain, given)
    return Schema(root, {name: field.store_as for name, field in given.items() if field.store_as is not None})


def fitting(samples: Iterable[Any], more: Iterable[Any], varying: frozenset[str]) -> list[Any]:
    """Those of `more` that may add fields to the structure of the samples, but change none that these have."""
    root = reduce(_join, (observe(sample, varying) for sample in samples))
    found = []
    for sample in more:
        joined = _join(root, observe(sample, varying))
        if _extends(joined, root):
            root = joined
            found.append(sample)
    return found


def _extends(node: Node, of: Node) -> bool:
    if of.kind not in CONTAINERS:
        return of.kind == "none" or node == of
    if (node.kind, node.name) != (of.kind, of.name):
        return False
    below = dict(zip(node.labels, node.items, strict=True))
    return all(_extends(below[label], item) for label, item in zip(of.labels, of.items, strict=True))


def observe(sample: Any, varying: frozenset[str]) -> Node:
    """The structure of one sample, in which the fields of these names may be anything."""
    if sample is None:
        raise UsageError("a sample is None: a store keeps tensors, numbers, texts, and nestings of these")
    return _observe(sample, "", 0, varying)


def _observe(value: Any, name: str, depth: int, varying: frozenset[str]) -> Node:
    """The structure of one value; everything in it is looked at, also where it will be kept as it comes."""
    if depth >= DEEPEST:
        raise UsageError(f"{where(name)} is nested deeper than {DEEPEST} levels; does it hold itself?")
    node = _observe_leaf(value, name)
    if node is None:
        node = _observe_container(value, name, depth, varying)
    return _ANY if (name if depth else ROOT_NAME) in varying and (depth or node.kind not in CONTAINERS) else node


def _observe_leaf(value: Any, name: str) -> Node | None:
    if type(value) is int:
        return scalar("int") if value in INT64 else _ANY
    node = _BY_TYPE.get(type(value))
    if node is not None:
        return node
    if isinstance(value, torch.Tensor):
        dtype = tensor_dtype(value, name)
        return Node("tensor", dtype=dtype) if value.ndim else scalar("tensor", dtype)
    if isinstance(value, np.ndarray):
        dtype = array_dtype(value, name)
        return Node("ndarray", dtype=dtype) if value.ndim else scalar("ndarray", dtype)
    return scalar("numpy", array_dtype(value, name)) if isinstance(value, np.generic) else None


def _observe_container(value: Any, name: str, depth: int, varying: frozenset[str]) -> Node:
    prefix = f"{name}." if depth else ""
    kind = type(value)
    if kind in (dict, OrderedDict):
        for key in value:
            check_key(key, name)
        items = tuple(_observe(item, f"{prefix}{key}", depth + 1, varying) for key, item in value.items())
        if not all(map(is_key, value)):
            return _ANY
        return Node("dict" if kind is dict else "ordereddict", items, tuple(value))
    named = None if kind in (list, tuple) else named_tuple(value, name)
    if named is not None:
        below = tuple(_observe(x, prefix + key, depth + 1, varying) for key, x in zip(named[1], value, strict=True))
        return Node("namedtuple", below, named[1], named[0])
    if kind not in (list, tuple):
        raise refusal(value, name)
    if kind is list and _PLAIN.issuperset(map(type, value)):
        return _ANY
    items = tuple(_observe(item, f"{prefix}{place}", depth + 1, varying) for place, item in enumerate(value))
    if kind is list and not _holds_arrays(value):
        return _ANY  # lists of plain values are collections: the next one has another length
    return Node("list" if kind is list else "tuple", items)


def _holds_arrays(value: Any) -> bool:
    if isinstance(value, torch.Tensor | np.ndarray):
        return True
    if isinstance(value, dict):
        return any(map(_holds_arrays, value.values()))
    return isinstance(value, list | tuple) and any(map(_holds_arrays, value))


def _join(a: Node, b: Node) -> Node:
    """The structure that both fit."""
    if a == b or b.kind == "none":
        return a
    if a.kind == "none":
        return b
    if a.kind in DICTS and a.kind == b.kind:
        return _join_dicts(a, b)
    if a.kind in CONTAINERS and (a.kind, a.keys, a.name) == (b.kind, b.keys, b.name) and len(a.items) == len(b.items):
        return Node(a.kind, tuple(map(_join, a.items, b.items)), a.keys, a.name)
    arrays = {node.kind if node.kind in ARRAYS else node.type for node in (a, b)}
    if len(arrays) == 1 and arrays <= set(ARRAYS) and a.dtype == b.dtype:
        return Node(arrays.pop(), dtype=a.dtype)  # of no dimension in one sample, of some in the other
    return _ANY


def _join_dicts(a: Node, b: Node) -> Node:
    of_a, of_b = dict(zip(a.keys, a.items, strict=True)), dict(zip(b.keys, b.items, strict=True))
    keys = list(a.keys)
    place = 0
    for key in b.keys:  # a new key goes behind the one it follows in its sample
        if key in of_a:
            place = keys.index(key) + 1
        else:
            keys.insert(place, key)
            place += 1
    if a.kind == "ordereddict" and [key for key in keys if key in of_b] != list(b.keys):
        return _ANY  # order is part of their equality, and a schema has one order
    items = tuple(_join(of_a.get(key, _NONE), of_b.get(key, _NONE)) for key in keys)
    return Node(a.kind, items, tuple(keys))


def _with_place_for(path: list[str], node: Node, name: str) -> Node:
    """`node` with a field that varies at this path below it, where no sample had one."""
    if node.kind in CONTAINERS:
        for taken in range(1, len(path) + 1):
            label = ".".join(path[:taken])
            if label in node.labels:
                at = node.labels.index(label)
                below = _ANY if taken == len(path) else _with_place_for(path[taken:], node.items[at], name)
                items = (*node.items[:at], below, *node.items[at + 1 :])
                return Node(node.kind, items, node.keys, node.name)
        if node.kind in DICTS and len(path) == 1:
            return Node(node.kind, (*node.items, _ANY), (*node.keys, path[0]))
    elif node.kind == "any":
        return node
    raise UsageError(f"fields names {name!r}, but no sample looked at has a dict where that could be a key")


def _check_fields(schema: Schema, fields: Mapping[str, Field]) -> None:
    containers = {place.name for place in schema.places if place.node.kind in CONTAINERS}
    for name, field in fields.items():
        if name in containers and field == Field(optional=True):
            continue
        if name not in schema.names:
            below = [leaf for leaf in schema.names if leaf.startswith(f"{name}.")]
            found = f"it is made of {shown_names(below)}" if below else f"samples have {shown_names(schema.names)}"
            meant = did_you_mean(name, schema.names)
            raise UsageError(f"fields names {name!r}, which is no field of the samples: {found}{meant}")
        node = schema.leaf(name).node
        if field.keep_encoded and node.kind != "bytes":
            raise UsageError(
                f"field {name!r} has keep_encoded=True, so it takes the bytes of an image file, but samples have "
                f"{described_node(node)} there"
            )
        if field.store_as is not None and node.kind == "scalar":
            raise UsageError(f"field {name!r} is a single number: store_as is for arrays; round it before it is stored")
        if field.classes is not None and DTYPES.get(node.dtype, DTYPES["bool"]).kind != "integer":
            raise UsageError(f"field {name!r} has classes, but no integers that they could be the names of")
