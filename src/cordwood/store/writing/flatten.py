"""From a sample to what a store keeps of it: arrays for frames, the bytes of its columns, the states of its places.

    >>> flat = flatten(schema, {"image": image, "label": 3})
    >>> flat.arrays[0].shape, flat.columns

The schema is compiled once into a function a place, so that a small sample costs a few microseconds. A sample that does
not fit is refused with the field, what was expected and what came; nothing is kept of it.
"""

from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

from cordwood.codecs.dtypes import DTYPES
from cordwood.common.saferepr import brief
from cordwood.errors import UsageError
from cordwood.store.format.rows import pack_states
from cordwood.store.schema.node import CONTAINERS, DICTS, Node
from cordwood.store.schema.schema import ABSENT, NONE, Place, Schema, described_node, shown_names
from cordwood.store.values.accepted_types import came, where
from cordwood.store.values.arrays import Array
from cordwood.store.writing.leaf_takers import Mismatch, array_taker, column_taker

_MISSING: Final = object()
_VARIES: Final = "make the store with fields={{{!r}: cw.Field(varies=True)}}"


class Flat(NamedTuple):
    """A sample taken apart."""

    arrays: list[Array | None]  # one a leaf with frames; possibly still the caller's memory
    columns: bytes  # as they lie in a row
    states: bytes  # as they lie in a row


class _Taken:
    """What was found of a sample so far."""

    __slots__ = ("arrays", "columns", "states")

    def __init__(self, arrays: list[Array | None], columns: list[bytes], states: bytearray | None) -> None:
        self.arrays, self.columns, self.states = arrays, columns, states


_Taker = Callable[[Any, _Taken], None]


def flatten(schema: Schema, sample: object) -> Flat:
    """A sample taken apart; UsageError names the field that does not fit, what was expected and what came."""
    return flattener(schema)(sample)


@lru_cache(maxsize=16)
def flattener(schema: Schema) -> "Flattener":
    """The compiled form of a schema."""
    return Flattener(schema)


class Flattener:
    """Takes samples of one schema apart: ``Flattener(schema)(sample)``."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._no_arrays: list[Array | None] = [None] * len(schema.frames)
        self._no_columns = [bytes(DTYPES[leaf.node.dtype].itemsize) for leaf in schema.columns]
        self._nones = bytearray(NONE if place.node.kind == "none" else 0 for place in schema.places)
        self._all_present = pack_states(self._nones)
        self._take = self._compile(schema.place)

    def __call__(self, sample: object) -> Flat:
        """The sample's parts; see :func:`flatten`."""
        taken = _Taken(self._no_arrays.copy(), self._no_columns.copy(), None)
        try:
            self._take(sample, taken)
        except Mismatch as mismatch:
            raise self._refusal(sample, mismatch) from None
        states = self._all_present if taken.states is None else pack_states(taken.states)
        return Flat(taken.arrays, b"".join(taken.columns), states)

    def _compile(self, place: Place) -> _Taker:
        node = place.node
        if node.kind in CONTAINERS:
            children = [self.schema.places[number] for number in self.schema.children(place)]
            takers = [(child, self._compile(child)) for child in children]
            if node.kind in DICTS:
                return self._dict_taker(place, takers)
            return self._sequence_taker(place, takers)
        if node.kind == "none":
            return _refuse_all(place)
        leaf = self.schema.leaves[place.leaves.start]
        if leaf.frame >= 0:
            return _into_arrays(array_taker(leaf, place), leaf.frame)
        return _into_columns(column_taker(leaf, place), leaf.column)

    def _dict_taker(self, place: Place, children: list[tuple[Place, _Taker]]) -> _Taker:
        node, mark = place.node, self._mark
        cls: type[dict[Any, Any]] = dict if node.kind == "dict" else OrderedDict
        steps = [(key, child, take) for key, (child, take) in zip(node.keys, children, strict=True)]
        key_types = {key: type(key) for key in node.keys}
        ordered = node.kind == "ordereddict"

        def take_dict(value: Any, taken: _Taken) -> None:
            if type(value) is not cls:
                raise Mismatch(place, value)
            left = len(value)
            for key in value:
                if type(key) is not key_types.get(key):
                    raise Mismatch(place, value, key=key)
            if ordered and [key for key in key_types if key in value] != list(value):
                raise Mismatch(place, value, note="its keys have another order")
            for key, child, take in steps:
                item = value.get(key, _MISSING)
                if item is None:
                    mark(child, NONE, taken)
                elif item is not _MISSING:
                    take(item, taken)
                else:
                    mark(child, ABSENT, taken)
                    continue
                left -= 1
            if left:  # a dict that was changed meanwhile
                raise Mismatch(place, value)

        return take_dict

    def _sequence_taker(self, place: Place, children: list[tuple[Place, _Taker]]) -> _Taker:
        node, mark, count = place.node, self._mark, len(children)
        fits: Callable[[Any], bool] = (
            _is_named(node) if node.kind == "namedtuple" else _is_exactly(list if node.kind == "list" else tuple)
        )

        def take_sequence(value: Any, taken: _Taken) -> None:
            if not fits(value) or len(value) != count:
                raise Mismatch(place, value)
            for (child, take), item in zip(children, value, strict=True):
                if item is None:
                    mark(child, NONE, taken)
                else:
                    take(item, taken)

        return take_sequence

    def _mark(self, place: Place, state: int, taken: _Taken) -> None:
        """Note that a place is not present, and so nothing below it."""
        if state == NONE and place.node.kind == "none":
            return
        if taken.states is None:
            taken.states = self._nones.copy()
        taken.states[place.number : place.end] = bytes([ABSENT]) * (place.end - place.number)
        taken.states[place.number] = state

    def _refusal(self, sample: object, mismatch: Mismatch) -> UsageError:
        if sample is None:
            return UsageError("a sample is None: a store keeps tensors, numbers, texts, and nestings of these")
        place = mismatch.place
        if mismatch.key is not None:
            full = f"{place.name}.{mismatch.key}" if place.name else str(mismatch.key)
            hint = f"; if some samples have it, {_VARIES.format(full)}" if type(mismatch.key) is str else ""
            return UsageError(
                f"{where(place.name)} has a key {brief(mismatch.key)} that is not in the schema (keys: "
                f"{shown_names([str(key) for key in place.node.keys])}){hint}"
            )
        note = f": {mismatch.note}" if mismatch.note else ""
        hint = f"; convert it, or if it is meant to vary, {_VARIES.format(place.name)}" if place.name else ""
        return UsageError(
            f"{where(place.name)}: expected {described_node(place.node)}, but {came(mismatch.value)} came{note}{hint}"
        )


def _refuse_all(place: Place) -> _Taker:
    def refuse(value: Any, taken: _Taken) -> None:
        raise Mismatch(place, value)

    return refuse


def _into_arrays(take: Callable[[Any], Array], frame: int) -> _Taker:
    def take_array(value: Any, taken: _Taken) -> None:
        taken.arrays[frame] = take(value)

    return take_array


def _into_columns(take: Callable[[Any], bytes], column: int) -> _Taker:
    def take_column(value: Any, taken: _Taken) -> None:
        taken.columns[column] = take(value)

    return take_column


def _is_exactly(cls: type) -> Callable[[Any], bool]:
    return lambda value: type(value) is cls


def _is_named(node: Node) -> Callable[[Any], bool]:
    def fits(value: Any) -> bool:
        kind = type(value)
        return isinstance(value, tuple) and kind.__name__ == node.name and getattr(kind, "_fields", None) == node.keys

    return fits
