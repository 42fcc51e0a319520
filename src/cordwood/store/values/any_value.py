"""Encodes values of any structure as bytes, for fields whose type or structure differs from sample to sample.

    >>> decode(encode([1, {"box": (0.5, None)}]))
    [1, {'box': (0.5, None)}]

A byte for the type, then the value; docs/format/store.md has the table. Reading runs no code of the file's choosing:
the types are these and no others.
"""

import struct
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
import torch

from cordwood.codecs import BY_CODE, DTYPES
from cordwood.errors import FormatError, UsageError
from cordwood.store.schema.node import NOT_OF_NUMPY, is_named_tuple
from cordwood.store.values.accepted_types import (
    NDARRAYS,
    TENSORS,
    array_dtype,
    named_tuple,
    refusal,
    tensor_dtype,
    where,
)
from cordwood.store.values.arrays import from_ndarray, from_tensor, to_tensor
from cordwood.store.values.namedtuples import NamedTuples

DEEPEST: Final = 64  # so many containers may lie around a value
(
    _NONE,
    _FALSE,
    _TRUE,
    _INT,
    _FLOAT,
    _COMPLEX,
    _STR,
    _BYTES,
    _LIST,
    _TUPLE,
    _DICT,
    _ORDERED,
    _NAMED,
    _TENSOR,
    _NDARRAY,
    _SCALAR,
    _INTS,
    _FLOATS,
) = range(18)
_WORTH_PACKING = 4  # items of a list: from here on numbers of one type lie side by side
_WIDTHS = {1: "<i1", 2: "<i2", 4: "<i4", 8: "<i8"}
_LARGEST_DIMENSION, _LARGEST_ARRAY, _MOST_DIMENSIONS = 1 << 48, 1 << 56, 64


def encode(value: object, name: str = "") -> bytes:
    """The bytes of a value; UsageError, with the field's name, for what a sample cannot hold."""
    out = bytearray()
    _write(value, out, 0, name)
    return bytes(out)


def _write(value: object, out: bytearray, depth: int, name: str) -> None:
    if depth > DEEPEST:
        raise UsageError(f"{where(name)} is nested deeper than {DEEPEST} levels; does it hold itself?")
    writer = _WRITERS.get(type(value))
    if writer is not None:
        writer(value, out, depth, name)
    elif isinstance(value, torch.Tensor):
        tensor_dtype(value, name)  # raises: it is a subclass
    elif isinstance(value, np.generic):
        _write_array(_SCALAR, np.asarray(value), array_dtype(value, name), out)
    elif isinstance(value, np.ndarray):
        array_dtype(value, name)
    else:
        named = named_tuple(value, name)
        if named is None:
            raise refusal(value, name)
        out.append(_NAMED)
        _write_text(named[0], out)
        _write_varint(len(named[1]), out)
        for field in named[1]:
            _write_text(field, out)
        for item in value:  # type: ignore[attr-defined]
            _write(item, out, depth + 1, name)


def _write_varint(number: int, out: bytearray) -> None:
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)


def _write_text(text: str, out: bytearray) -> None:
    encoded = text.encode("utf-8", "surrogatepass")
    _write_varint(len(encoded), out)
    out += encoded


def _write_int(value: int, out: bytearray, depth: int, name: str) -> None:
    size = (value.bit_length() if value >= 0 else (~value).bit_length()) // 8 + 1
    out.append(_INT)
    _write_varint(size, out)
    out += value.to_bytes(size, "little", signed=True)


def _write_str(value: str, out: bytearray, depth: int, name: str) -> None:
    out.append(_STR)
    _write_text(value, out)


def _write_bytes(value: bytes, out: bytearray, depth: int, name: str) -> None:
    out.append(_BYTES)
    _write_varint(len(value), out)
    out += value


def _write_list(value: list[Any] | tuple[Any, ...], out: bytearray, depth: int, name: str) -> None:
    if type(value) is list and len(value) >= _WORTH_PACKING and _write_numbers(value, out):
        return
    out.append(_LIST if type(value) is list else _TUPLE)
    _write_varint(len(value), out)
    for item in value:
        _write(item, out, depth + 1, name)


def _write_numbers(value: list[Any], out: bytearray) -> bool:
    """A list of nothing but integers of 64 bits, or of floats: one look at the whole, not one at each."""
    kinds = set(map(type, value))
    if kinds == {float}:
        out.append(_FLOATS)
        _write_varint(len(value), out)
        out += struct.pack(f"<{len(value)}d", *value)
        return True
    if kinds != {int}:
        return False
    bits = max(max(value).bit_length(), (~min(value)).bit_length()) + 1
    width = next((width for width in _WIDTHS if bits <= 8 * width), None)
    if width is None:
        return False
    out.append(_INTS)
    out.append(width)
    _write_varint(len(value), out)
    out += np.array(value, _WIDTHS[width]).tobytes()
    return True


def _write_dict(value: dict[Any, Any], out: bytearray, depth: int, name: str) -> None:
    out.append(_DICT if type(value) is dict else _ORDERED)
    _write_varint(len(value), out)
    for key, item in value.items():
        check_key(key, name)
        _write(key, out, depth + 1, name)
        _write(item, out, depth + 1, name)


def check_key(key: object, name: str) -> None:
    """UsageError unless a dict in a sample may have this key; `name` is the dict's."""
    if not _is_key(key):
        raise UsageError(
            f"{where(name)} cannot be stored: a dict has a key of type {type(key).__name__}; keys are None, bool, int, "
            "float, str, bytes, and tuples of these"
        )


def _is_key(key: object, depth: int = 0) -> bool:
    if type(key) is tuple:
        return depth < DEEPEST and all(_is_key(item, depth + 1) for item in key)
    return key is None or type(key) in (bool, int, float, str, bytes)


def _write_tensor(value: torch.Tensor, out: bytearray, depth: int, name: str) -> None:
    dtype = tensor_dtype(value, name)
    _write_array(_TENSOR, from_tensor(value, name), dtype, out)


def _write_ndarray(value: np.ndarray[Any, Any], out: bytearray, depth: int, name: str) -> None:
    _write_array(_NDARRAY, value, array_dtype(value, name), out)


def _write_array(tag: int, array: np.ndarray[Any, Any], dtype: str, out: bytearray) -> None:
    out.append(tag)
    out.append(DTYPES[dtype].code)
    if tag != _SCALAR:
        out.append(array.ndim)
        for dimension in array.shape:
            _write_varint(dimension, out)
    out += from_ndarray(array).tobytes()


_WRITERS: Final[dict[type, Callable[[Any, bytearray, int, str], None]]] = {
    type(None): lambda value, out, depth, name: out.append(_NONE),
    bool: lambda value, out, depth, name: out.append(_TRUE if value else _FALSE),
    int: _write_int,
    float: lambda value, out, depth, name: out.extend(struct.pack("<Bd", _FLOAT, value)),
    complex: lambda value, out, depth, name: out.extend(struct.pack("<B2d", _COMPLEX, value.real, value.imag)),
    str: _write_str,
    bytes: _write_bytes,
    list: _write_list,
    tuple: _write_list,
    dict: _write_dict,
    OrderedDict: _write_dict,
    **dict.fromkeys(TENSORS, _write_tensor),
    **dict.fromkeys(NDARRAYS, _write_ndarray),
}


def decode(data: Any, classes: NamedTuples | None = None) -> Any:
    """The value that :func:`encode` was given; FormatError for bytes that it does not make."""
    reader = _ByteReader(bytes(data), classes or NamedTuples())
    value = reader.value(0)
    if reader.at != len(reader.data):
        raise FormatError(f"{len(reader.data) - reader.at} bytes too many behind a value of varying type")
    return value


class _ByteReader:
    """Bytes of a file and a position in them."""

    def __init__(self, data: bytes, classes: NamedTuples) -> None:
        self.data, self.classes, self.at = data, classes, 0

    def take(self, size: int) -> bytes:
        start, end = self.at, self.at + size
        if end > len(self.data):
            raise FormatError(f"a value of varying type ends after {len(self.data)} bytes, {end} are expected")
        self.at = end
        return self.data[start:end]

    def byte(self) -> int:
        return self.take(1)[0]

    def varint(self) -> int:
        number = shift = 0
        while True:
            byte = self.byte()
            number |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
            if shift > 63:
                break
        if number >> 64 or shift > 63 or (shift and not byte):
            raise FormatError(f"a number before byte {self.at} of a value of varying type is not written as it must be")
        return number

    def count(self) -> int:
        """A number of items, each of which takes a byte at least."""
        number = self.varint()
        if number > len(self.data) - self.at:
            raise FormatError(
                f"a value of varying type tells of {number} items, {len(self.data) - self.at} bytes are left"
            )
        return number

    def text(self) -> str:
        try:
            return self.take(self.varint()).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as error:
            raise FormatError(f"a text in a value of varying type is not UTF-8: {error.reason}") from None

    def value(self, depth: int) -> Any:
        if depth > DEEPEST:
            raise FormatError(f"a value of varying type is nested deeper than {DEEPEST} levels")
        tag = self.byte()
        if tag >= len(_READERS):
            raise FormatError(f"a value of varying type has the type {tag}, which is not known")
        return _READERS[tag](self, depth)

    def values(self, count: int, depth: int) -> Iterable[Any]:
        return (self.value(depth + 1) for _ in range(count))

    def dict(self, made: dict[Any, Any], depth: int) -> dict[Any, Any]:
        count = self.count()
        for _ in range(count):
            key = self.value(depth + 1)
            if not _is_key(key):
                raise FormatError(f"a dict of a value of varying type has a key of type {type(key).__name__}")
            if key in made:
                raise FormatError("a dict of a value of varying type has a key twice")
            made[key] = self.value(depth + 1)
        return made

    def numbers(self, dtype: str) -> list[Any]:
        count = self.varint()
        found: list[Any] = np.frombuffer(self.take(count * np.dtype(dtype).itemsize), dtype).tolist()
        return found

    def integers(self) -> list[Any]:
        width = self.byte()
        if width not in _WIDTHS:
            raise FormatError(f"a list in a value of varying type has integers of {width} bytes")
        return self.numbers(_WIDTHS[width])

    def named(self, depth: int) -> Any:
        name = self.text()
        fields = tuple(self.text() for _ in range(self.count()))
        if not is_named_tuple(name, fields):
            raise FormatError("a value of varying type has a named tuple that cannot be made")
        return self.classes(name, fields)._make(self.values(len(fields), depth))

    def array(self, tag: int) -> Any:
        code = self.byte()
        if code >= len(BY_CODE):
            raise FormatError(f"an array in a value of varying type has the dtype {code}, which is not known")
        dtype = BY_CODE[code]
        if tag != _TENSOR and dtype.name in NOT_OF_NUMPY:
            raise FormatError(f"a NumPy array in a value of varying type has dtype {dtype.name}, which NumPy lacks")
        rank = 0 if tag == _SCALAR else self.byte()
        if rank > _MOST_DIMENSIONS:
            raise FormatError(f"an array in a value of varying type has {rank} dimensions")
        shape = [self.varint() for _ in range(rank)]
        size = extent = dtype.itemsize
        for dimension in shape:
            size *= dimension
            extent *= max(dimension, 1)
            if dimension >= _LARGEST_DIMENSION or extent >= _LARGEST_ARRAY:
                raise FormatError("an array in a value of varying type is larger than any can be")
        raw = np.frombuffer(bytearray(self.take(size)), np.uint8)
        array = (raw != 0 if dtype.name == "bool" else raw.view(dtype.numpy)).reshape(shape)
        if tag == _TENSOR:
            return to_tensor(array, dtype.name)
        return array if tag == _NDARRAY else array[()]


# In the order of their tags.
_READERS: Final[tuple[Callable[[_ByteReader, int], Any], ...]] = (
    lambda reader, depth: None,
    lambda reader, depth: False,
    lambda reader, depth: True,
    lambda reader, depth: int.from_bytes(reader.take(reader.varint()), "little", signed=True),
    lambda reader, depth: struct.unpack("<d", reader.take(8))[0],
    lambda reader, depth: complex(*struct.unpack("<2d", reader.take(16))),
    lambda reader, depth: reader.text(),
    lambda reader, depth: reader.take(reader.varint()),
    lambda reader, depth: list(reader.values(reader.count(), depth)),
    lambda reader, depth: tuple(reader.values(reader.count(), depth)),
    lambda reader, depth: reader.dict({}, depth),
    lambda reader, depth: reader.dict(OrderedDict(), depth),
    lambda reader, depth: reader.named(depth),
    lambda reader, depth: reader.array(_TENSOR),
    lambda reader, depth: reader.array(_NDARRAY),
    lambda reader, depth: reader.array(_SCALAR),
    lambda reader, depth: reader.integers(),
    lambda reader, depth: reader.numbers("<f8"),
)
