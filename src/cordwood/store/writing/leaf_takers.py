"""A function a leaf that takes its value from a sample: the array for its frame, or the bytes for its column."""

import struct
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch

from cordwood.codecs.dtypes import DTYPES
from cordwood.store.schema.schema import Leaf, Place
from cordwood.store.values.accepted_types import NDARRAYS, TENSORS, array_dtype, tensor_dtype
from cordwood.store.values.any_value import encode
from cordwood.store.values.arrays import Array, from_ndarray, from_tensor, known

_PYTHON: Final[dict[str, tuple[type, Callable[[Any], bytes]]]] = {
    "float": (float, struct.Struct("<d").pack),
    "bool": (bool, struct.Struct("<?").pack),
    "complex": (complex, lambda value: struct.pack("<2d", value.real, value.imag)),
}


class Mismatch(Exception):  # noqa: N818 - never leaves the store: it becomes a UsageError that tells the place
    """A part of a sample is not what the schema says."""

    def __init__(self, place: Place, value: object, *, key: object = None, note: str = "") -> None:
        super().__init__()
        self.place, self.value, self.key, self.note = place, value, key, note


def array_taker(leaf: Leaf, place: Place) -> Callable[[Any], Array]:
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


def column_taker(leaf: Leaf, place: Place) -> Callable[[Any], bytes]:
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


def _tensors(leaf: Leaf, place: Place) -> Callable[[Any], Array]:
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


def _ndarrays(leaf: Leaf, place: Place) -> Callable[[Any], Array]:
    name, dtype = leaf.name, DTYPES[leaf.node.dtype].numpy

    def take(value: Any) -> Array:
        if type(value) not in NDARRAYS or value.dtype != dtype or not value.size:
            if not isinstance(value, np.ndarray) or array_dtype(value, name) != leaf.node.dtype:
                raise Mismatch(place, value)
            return from_ndarray(value)
        array: Array = value if value.flags.c_contiguous else value.copy()
        return array

    return take


def _texts(place: Place) -> Callable[[Any], Array]:
    def take(value: Any) -> Array:
        if type(value) is not str:
            raise Mismatch(place, value)
        return np.frombuffer(value.encode("utf-8", "surrogatepass"), np.uint8)

    return take


def _bytes(place: Place) -> Callable[[Any], Array]:
    def take(value: Any) -> Array:
        if type(value) is not bytes:
            raise Mismatch(place, value)
        return np.frombuffer(value, np.uint8)

    return take


def _ints(place: Place) -> Callable[[Any], bytes]:
    def take(value: Any) -> bytes:
        if type(value) is not int:
            raise Mismatch(place, value)
        try:
            return value.to_bytes(8, "little", signed=True)
        except OverflowError:
            raise Mismatch(place, value, note="it does not fit into 64 bits") from None

    return take


def _python_numbers(cls: type, pack: Callable[[Any], bytes], place: Place) -> Callable[[Any], bytes]:
    def take(value: Any) -> bytes:
        if type(value) is not cls:
            raise Mismatch(place, value)
        return pack(value)

    return take


def _numpy_scalars(leaf: Leaf, place: Place) -> Callable[[Any], bytes]:
    name, dtype, scalar_type = leaf.name, leaf.node.dtype, DTYPES[leaf.node.dtype].numpy.type

    def take(value: Any) -> bytes:
        if type(value) is not scalar_type and (not isinstance(value, np.generic) or array_dtype(value, name) != dtype):
            raise Mismatch(place, value)
        return from_ndarray(np.asarray(value)).tobytes()

    return take
