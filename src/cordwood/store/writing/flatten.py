"""From a sample to what a store keeps of it: arrays for frames, the bytes of its columns, the states of its places.

    >>> flat = flatten(schema, {"image": image, "label": 3})
    >>> flat.arrays[0].shape, flat.columns

The schema is compiled once into a function a place, so that a small sample costs a few microseconds. A sample that does
not fit is refused with the field, what was expected and what came; nothing is kept of it.

A function a leaf that takes its value from a sample: the array for its frame, or the bytes for its column. An array of
another shape than its column has is kept apart.
"""

import struct
from collections import OrderedDict
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import torch

from cordwood.codecs import DTYPES
from cordwood.common.text import brief
from cordwood.errors import UsageError
from cordwood.store.format.rows import RowLayout, pack_states
from cordwood.store.schema.node import CONTAINERS, DICTS, Node
from cordwood.store.schema.schema import ABSENT, APART, NONE, Leaf, Schema, SchemaNode, described_node, shown_names
from cordwood.store.values.accepted_types import NDARRAYS, TENSORS, array_dtype, came, tensor_dtype, where
from cordwood.store.values.any_value import encode
from cordwood.store.values.arrays import Array, from_ndarray, from_tensor, known

_PYTHON: Final[dict[str, tuple[type, Callable[[Any], bytes]]]] = {
    "float": (float, struct.Struct("<d").pack),
    "bool": (bool, struct.Struct("<?").pack),
    "complex": (complex, lambda value: struct.pack("<2d", value.real, value.imag)),
}


class Mismatch(Exception):  # noqa: N818 - never leaves the store: it becomes a UsageError that tells the place
    """A part of a sample is not what the schema says."""

    def __init__(
        self, place: SchemaNode, value: object, *, key: object = None, note: str = "", missing: bool = False
    ) -> None:
        super().__init__()
        self.place, self.value, self.key, self.note, self.missing = place, value, key, note, missing


def array_taker(leaf: Leaf, place: SchemaNode) -> Callable[[Any], Array]:
    """For a leaf with frames."""
    match leaf.node.kind:
        case "tensor":
            return _tensors(leaf, place)
        case "ndarray":
            return _ndarrays(leaf, place)
        case "any":
            return lambda value: np.frombuffer(encode(value, leaf.name), np.uint8)
        case "str":
            return _texts(place)
        case _:
            return _bytes(place)


def column_taker(leaf: Leaf, place: SchemaNode) -> Callable[[Any], bytes]:
    """For a leaf with a column."""
    match leaf.node.type:
        case "int":
            return _ints(place)
        case "numpy":
            return _numpy_scalars(leaf, place)
        case "tensor":
            of_tensor, tensors = _tensors(leaf, place), TENSORS

            def take_tensor(value: Any) -> bytes:
                if type(value) in tensors and value.ndim:
                    raise Mismatch(place, value)
                return of_tensor(value).tobytes()

            return take_tensor
        case "ndarray":
            of_ndarray = _ndarrays(leaf, place)

            def take_ndarray(value: Any) -> bytes:
                if type(value) in NDARRAYS and value.ndim:
                    raise Mismatch(place, value)
                return of_ndarray(value).tobytes()

            return take_ndarray
        case kind:
            return _python_numbers(*_PYTHON[kind], place)


def _tensors(leaf: Leaf, place: SchemaNode) -> Callable[[Any], Array]:
    name, dtype, plain = leaf.name, known(leaf.node.dtype), torch.Tensor

    def take(value: Any) -> Array:
        if (type(value) is not plain and type(value) not in TENSORS) or value.dtype is not dtype:
            if isinstance(value, torch.Tensor):
                tensor_dtype(value, name)  # a kind that no schema has gets a message of its own
            raise Mismatch(place, value)
        array = from_tensor(value, name)
        if not array.size:
            tensor_dtype(value, name)  # of empty ones also the shape is looked at
        return array

    return take


def _ndarrays(leaf: Leaf, place: SchemaNode) -> Callable[[Any], Array]:
    name, dtype = leaf.name, DTYPES[leaf.node.dtype].numpy

    def take(value: Any) -> Array:
        if type(value) not in NDARRAYS or value.dtype != dtype or not value.size:
            if not isinstance(value, np.ndarray) or array_dtype(value, name) != leaf.node.dtype:
                raise Mismatch(place, value)
            return from_ndarray(value)
        array: Array = value if value.flags.c_contiguous else value.copy()
        return array

    return take


def _texts(place: SchemaNode) -> Callable[[Any], Array]:
    def take(value: Any) -> Array:
        if type(value) is not str:
            raise Mismatch(place, value)
        return np.frombuffer(value.encode("utf-8", "surrogatepass"), np.uint8)

    return take


def _bytes(place: SchemaNode) -> Callable[[Any], Array]:
    def take(value: Any) -> Array:
        if type(value) is not bytes:
            raise Mismatch(place, value)
        return np.frombuffer(value, np.uint8)

    return take


def _ints(place: SchemaNode) -> Callable[[Any], bytes]:
    def take(value: Any) -> bytes:
        if type(value) is not int:
            raise Mismatch(place, value)
        try:
            return value.to_bytes(8, "little", signed=True)
        except OverflowError:
            raise Mismatch(place, value, note="it does not fit into 64 bits") from None

    return take


def _python_numbers(cls: type, pack: Callable[[Any], bytes], place: SchemaNode) -> Callable[[Any], bytes]:
    def take(value: Any) -> bytes:
        if type(value) is not cls:
            raise Mismatch(place, value)
        return pack(value)

    return take


def _numpy_scalars(leaf: Leaf, place: SchemaNode) -> Callable[[Any], bytes]:
    name, dtype, scalar_type = leaf.name, leaf.node.dtype, DTYPES[leaf.node.dtype].numpy.type

    def take(value: Any) -> bytes:
        if type(value) is not scalar_type and (not isinstance(value, np.generic) or array_dtype(value, name) != dtype):
            raise Mismatch(place, value)
        return from_ndarray(np.asarray(value)).tobytes()

    return take


_MISSING: Final = object()
_VARIES: Final = "make a new store at another path with fields={{{!r}: cw.Field(varies=True)}}"
_OPTIONAL: Final = "make a new store at another path with fields={{{!r}: cw.Field(optional=True)}}"


Apart = tuple[tuple[int, Array], ...]  # the numbers of columns in order, and arrays


class Flat(NamedTuple):
    """A sample taken apart."""

    arrays: list[Array | None]  # one a leaf with frames; possibly still the caller's memory
    columns: bytes  # as they lie in a row
    states: bytes  # as they lie in a row
    apart: Apart  # arrays that do not fit their columns, whose bytes are zero


class _Taken:
    """What was found of a sample so far."""

    __slots__ = ("apart", "arrays", "columns", "states")

    def __init__(self, arrays: list[Array | None], columns: list[bytes], states: bytearray | None) -> None:
        self.arrays, self.columns, self.states = arrays, columns, states
        self.apart: Apart = ()


_Taker = Callable[[Any, _Taken], None]


def flatten(schema: Schema, sample: object) -> Flat:
    """A sample taken apart; UsageError names the field that does not fit, what was expected and what came."""
    return flattener(schema)(sample)


@lru_cache(maxsize=16)
def flattener(schema: Schema) -> "Flattener":
    """The compiled form of a schema."""
    return Flattener(schema)


class Flattener:
    """Takes samples of one schema apart: ``Flattener(schema)(sample)``.

    `optional` are the names of the places that a sample may lack, or have None at; None stands for all.
    """

    def __init__(self, schema: Schema, optional: Collection[str] | None = None) -> None:
        self.schema = schema
        self._optional = optional
        self._no_arrays: list[Array | None] = [None] * len(schema.frames)
        self._no_columns = [bytes(part.stop - part.start) for part in RowLayout(schema).column_slices]
        self._nones = bytearray(NONE if place.node.kind == "none" else 0 for place in schema.places)
        self.all_present = pack_states(self._nones)
        self._take = self._compile(schema.place)

    def __call__(self, sample: object) -> Flat:
        """The sample's parts; see :func:`flatten`."""
        taken = _Taken(self._no_arrays.copy(), self._no_columns.copy(), None)
        try:
            self._take(sample, taken)
        except Mismatch as mismatch:
            raise self._refusal(sample, mismatch) from None
        states = self.all_present if taken.states is None else pack_states(taken.states)
        return Flat(taken.arrays, b"".join(taken.columns), states, taken.apart)

    def _compile(self, place: SchemaNode) -> _Taker:
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
        if leaf.is_column_array:
            return self._array_column_taker(leaf, place)
        return _into_columns(column_taker(leaf, place), leaf.column)

    def _array_column_taker(self, leaf: Leaf, place: SchemaNode) -> _Taker:
        take, shape, column, number = array_taker(leaf, place), leaf.node.shape, leaf.column, place.number
        width = len(self._no_columns[column])

        def take_array(value: Any, taken: _Taken) -> None:
            array = take(value)
            if array.shape == shape:
                taken.columns[column] = array.tobytes().ljust(width, b"\0")
                return
            if taken.states is None:
                taken.states = self._nones.copy()
            taken.states[number] = APART
            taken.apart += ((column, array),)

        return take_array

    def _dict_taker(self, place: SchemaNode, children: list[tuple[SchemaNode, _Taker]]) -> _Taker:
        node, mark, may_miss, may_be_none = place.node, self._mark, self._may_miss, self._may_be_none
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
                    if not may_be_none(child):
                        raise Mismatch(child, None)
                    mark(child, NONE, taken)
                elif item is not _MISSING:
                    take(item, taken)
                elif may_miss(child):
                    mark(child, ABSENT, taken)
                    continue
                else:
                    raise Mismatch(child, value, missing=True)
                left -= 1
            if left:  # a dict that was changed meanwhile
                raise Mismatch(place, value)

        return take_dict

    def _sequence_taker(self, place: SchemaNode, children: list[tuple[SchemaNode, _Taker]]) -> _Taker:
        node, mark, may_be_none, count = place.node, self._mark, self._may_be_none, len(children)
        fits: Callable[[Any], bool] = (
            _is_named(node) if node.kind == "namedtuple" else _is_exactly(list if node.kind == "list" else tuple)
        )

        def take_sequence(value: Any, taken: _Taken) -> None:
            if not fits(value) or len(value) != count:
                raise Mismatch(place, value)
            for (child, take), item in zip(children, value, strict=True):
                if item is None:
                    if not may_be_none(child):
                        raise Mismatch(child, None)
                    mark(child, NONE, taken)
                else:
                    take(item, taken)

        return take_sequence

    def _may_miss(self, place: SchemaNode) -> bool:
        return self._optional is None or place.node.kind == "none" or place.name in self._optional

    def _may_be_none(self, place: SchemaNode) -> bool:
        return place.node.kind == "any" or self._may_miss(place)

    def _mark(self, place: SchemaNode, state: int, taken: _Taken) -> None:
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
        if mismatch.missing or mismatch.value is None:
            keys = shown_names([str(key) for key in mismatch.value]) if isinstance(mismatch.value, dict) else ""
            what = f"is missing (found: {keys})" if mismatch.missing else "is None"
            return UsageError(
                f"{where(place.name)} {what}, but each of the store's first samples has a value there: give it one, or "
                f"if samples may lack it, {_OPTIONAL.format(place.name)}"
            )
        note = f": {mismatch.note}" if mismatch.note else ""
        hint = f"; convert it, or if it is meant to vary, {_VARIES.format(place.name)}" if place.name else ""
        return UsageError(
            f"{where(place.name)}: expected {described_node(place.node)}, but {came(mismatch.value)} came{note}{hint}"
        )


def _refuse_all(place: SchemaNode) -> _Taker:
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
