"""Puts the stored values of a sample back into its structure.

    >>> rebuilder = Rebuilder(schema, ("label", "image"))
    >>> rebuilder.leaves                      # the numbers of the leaves that it needs, in order
    (0, 1)
    >>> rebuilder.build([image, 3])
    (3, tensor(...))

The values are put into their places and not looked at, so the same structure is built of a sample's values and of a
batch's.
"""

import struct
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final

import numpy as np

from cordwood.codecs import DTYPES
from cordwood.errors import FormatError, UsageError
from cordwood.store.schema.node import BYTE_LEAVES, CONTAINERS, DICTS, PYTHON_NUMBERS
from cordwood.store.schema.schema import NONE, PRESENT, Leaf, Schema, SchemaNode
from cordwood.store.values.any_value import decode
from cordwood.store.values.arrays import Array, to_tensor
from cordwood.store.values.namedtuples import NamedTuples
from cordwood.store.values.rounding import widened

_Values = Sequence[Any]
_States = Sequence[int]
_Plain = Callable[[_Values], Any]  # where every place is present
_Full = Callable[[_Values, _States], Any]
_NUMBERS: Final = {"int": "<q", "float": "<d", "bool": "<?", "complex": "<2d"}


class Rebuilder:
    """Puts values where they belong in a sample.

    With `names` the result is a tuple of those fields, or parts with fields below them, in that order; without, the
    whole sample. `types` are the caller's named tuple classes, taken where name and fields fit.
    """

    def __init__(self, schema: Schema, names: tuple[str, ...] | None = None, types: Sequence[type] = ()) -> None:
        if names is not None and not names:
            raise UsageError("no field is named: name at least one")
        self._schema = schema
        self._classes = NamedTuples(types)
        wanted = [schema.place] if names is None else [schema.find(name) for name in names]
        self.leaves = tuple(sorted({number for place in wanted for number in place.leaves}))
        self._position = {number: position for position, number in enumerate(self.leaves)}
        plain = [self._plain(place) for place in wanted]
        full = [(place.number, self._full(place)) for place in wanted]
        self._build_plain: _Plain = plain[0] if names is None else self._plain_tuple(wanted, plain)
        self._build_full: _Full = full[0][1] if names is None else _selection(full)

    def build(self, values: _Values, states: _States | None = None) -> Any:
        """The sample of these values, one for each of ``leaves``; `states` has one a place, None: all are present.

        A key that is absent is left out of its dict; a part that is asked for by name and absent is None.
        """
        return self._build_plain(values) if states is None else self._build_full(values, states)

    def _children(self, place: SchemaNode) -> list[SchemaNode]:
        return [self._schema.places[number] for number in self._schema.children(place)]

    def _plain(self, place: SchemaNode) -> _Plain:
        node = place.node
        if node.kind == "none":
            return lambda values: None
        if node.kind not in CONTAINERS:
            return itemgetter(self._position[place.leaves.start])
        below = self._children(place)
        items = _items_of(below, [self._plain(child) for child in below], self._run(below))
        return _filled(self._maker(place), items)

    def _run(self, places: Sequence[SchemaNode]) -> slice | None:
        """Where the values of these places are, if all are leaves whose values follow each other."""
        if not places or any(place.node.kind in (*CONTAINERS, "none") for place in places):
            return None
        at = [self._position[place.leaves.start] for place in places]
        return slice(at[0], at[-1] + 1) if at == list(range(at[0], at[0] + len(at))) else None

    def _plain_tuple(self, places: Sequence[SchemaNode], builders: Sequence[_Plain]) -> _Plain:
        return _filled(tuple, _items_of(places, builders, self._run(places)))

    def _maker(self, place: SchemaNode) -> Callable[[Any], Any]:
        """What makes the container of its items."""
        node = place.node
        if node.kind in DICTS:
            keys, cls = node.keys, dict if node.kind == "dict" else OrderedDict
            return lambda items: cls(zip(keys, items, strict=True))
        if node.kind == "namedtuple":
            make: Callable[[Any], Any] = self._classes(node.name, tuple(map(str, node.keys)))._make
            return make
        return list if node.kind == "list" else tuple

    def _full(self, place: SchemaNode) -> _Full:
        node = place.node
        if node.kind == "none":
            return lambda values, states: None
        if node.kind not in CONTAINERS:
            position = self._position[place.leaves.start]
            return lambda values, states: values[position]
        steps = [(child.number, self._full(child)) for child in self._children(place)]
        if node.kind in DICTS:
            return _dict_builder(dict if node.kind == "dict" else OrderedDict, node.keys, steps)
        make = self._maker(place)
        return lambda values, states: make(
            [build(values, states) if states[number] == PRESENT else None for number, build in steps]
        )


def _items_of(places: Sequence[SchemaNode], builders: Sequence[_Plain], run: slice | None) -> _Plain:
    if run is not None:
        return itemgetter(run)
    return lambda values: [build(values) for build in builders]


def _filled(make: Callable[[Any], Any], items: _Plain) -> _Plain:
    return lambda values: make(items(values))


def _dict_builder(cls: type[dict[Any, Any]], keys: Sequence[Any], steps: Sequence[tuple[int, _Full]]) -> _Full:
    def build_dict(values: _Values, states: _States) -> Any:
        made = cls()
        for key, (number, build) in zip(keys, steps, strict=True):
            state = states[number]
            if state == PRESENT:
                made[key] = build(values, states)
            elif state == NONE:
                made[key] = None
        return made

    return build_dict


def _selection(parts: Sequence[tuple[int, _Full]]) -> _Full:
    def build_selection(values: _Values, states: _States) -> Any:
        # Below a place that is not present nothing is, so its own state tells it all.
        return tuple(
            build(values, states) if number < 0 or states[number] == PRESENT else None for number, build in parts
        )

    return build_selection


@lru_cache(maxsize=64)
def _named_tuples(types: tuple[type, ...]) -> NamedTuples:
    return NamedTuples(types)


def restore(leaf: Leaf, stored: Array | bytes, types: Sequence[type] = ()) -> Any:
    """The value of a leaf, from the array of its frame (or the bytes of it) or from the bytes of its column.

    The array is taken over: a tensor or ndarray made of it has its memory. FormatError for bytes that are no value of
    the leaf's kind.
    """
    node = leaf.node
    if isinstance(stored, bytes):
        return _text(leaf, stored, types) if node.kind in BYTE_LEAVES else _number(leaf, stored)
    if node.kind == "tensor":
        return to_tensor(widened(stored, leaf), node.dtype)
    if node.kind not in BYTE_LEAVES:
        return widened(stored, leaf)
    if stored.ndim != 1 or stored.dtype != np.uint8:
        raise FormatError(
            f"field {leaf.name!r} holds {node.kind}, so its frame is a 1-d uint8 array, not one of {stored.dtype} with "
            f"shape {stored.shape}"
        )
    return _text(leaf, stored.tobytes(), types)


def _text(leaf: Leaf, stored: bytes, types: Sequence[type]) -> Any:
    if leaf.node.kind == "bytes":
        return stored
    try:
        if leaf.node.kind == "any":
            return decode(stored, _named_tuples(tuple(types)))
        return stored.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise FormatError(f"field {leaf.name!r} holds bytes that are no UTF-8 text: {error.reason}") from None
    except FormatError as error:
        raise FormatError(f"field {leaf.name!r}: {error}") from None


def _number(leaf: Leaf, column: bytes) -> Any:
    node, dtype = leaf.node, DTYPES[leaf.node.dtype]
    if len(column) != dtype.itemsize:
        raise FormatError(f"field {leaf.name!r} takes {dtype.itemsize} bytes of a row, not {len(column)}")
    if node.type in PYTHON_NUMBERS:
        found = struct.unpack(_NUMBERS[node.type], column)
        return complex(*found) if node.type == "complex" else found[0]
    bits = np.frombuffer(bytearray(column), np.uint8)
    array = (bits != 0 if dtype.name == "bool" else bits.view(dtype.numpy)).reshape(())
    if node.type == "tensor":
        return to_tensor(array, node.dtype)
    return array if node.type == "ndarray" else array[()]
