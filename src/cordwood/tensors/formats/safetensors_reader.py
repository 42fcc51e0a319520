"""Reads `.safetensors` files: a length, a JSON header, and the bytes of the tensors."""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.storage import UntypedStorage

from cordwood.common.text import brief, counted
from cordwood.errors import FormatError, Reason
from cordwood.tensors.content.storage_memory import bytes_of, new_storage
from cordwood.tensors.formats.shared import slice_storage
from cordwood.tensors.io.memory_budget import Allotment
from cordwood.tensors.io.source import ByteSource

_LARGEST_HEADER = 100_000_000  # the format's own limit
_MOST_DIMENSIONS = 64
_MOST_ITEMS = 1 << 56
_DTYPES: Final = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F4": "float4_e2m1fn_x2",
}


def named_dtype(word: object) -> torch.dtype | None:
    """The dtype that a header names; None if torch has none of that name."""
    return getattr(torch, _DTYPES.get(word, ""), None) if isinstance(word, str) else None


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """One tensor of the header."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int  # in the file
    nbytes: int

    @property
    def strides(self) -> tuple[int, ...]:
        """Of a contiguous tensor."""
        return tuple(math.prod(self.shape[index + 1 :]) for index in range(len(self.shape)))


def is_safetensors(first_bytes: bytes, size: int) -> bool:
    """Whether a file begins with a length that fits and a JSON object."""
    length = int.from_bytes(first_bytes[:8], "little")
    return len(first_bytes) > 8 and first_bytes[8:9] == b"{" and 2 <= length <= min(_LARGEST_HEADER, size - 8)


class SafetensorsFile:
    """A `.safetensors` file."""

    kind = "safetensors"

    def __init__(self, source: ByteSource, allotment: Allotment) -> None:
        self.source = source
        length = int.from_bytes(bytes(source.read(0, 8)), "little")
        allotment.take_text(length, f"{source.name}: the header")
        try:
            text = bytes(source.read(8, length)).decode()  # from bytes, json would take what is no UTF-8
            header = json.loads(text, object_pairs_hook=_unique, parse_constant=_refused)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{source.name}: the header is not JSON ({error!s:.100}); the file is damaged") from None
        if not isinstance(header, dict):
            raise FormatError(f"{source.name}: the header is not a table of tensors")
        metadata = header.pop("__metadata__", None)
        self.metadata: dict[str, str] = {} if metadata is None else metadata
        if not isinstance(self.metadata, dict) or any(type(value) is not str for value in self.metadata.values()):
            raise FormatError(f"{source.name}: __metadata__ is not a table of texts")
        self.rows = {name: self._row(name, given, 8 + length) for name, given in header.items()}
        self._check_apart()
        self._check_complete(8 + length)

    def _row(self, name: str, given: Any, data: int) -> TensorEntry:
        where = f"{self.source.name}: tensor {name[:80]!r}"
        if not isinstance(given, dict):
            raise FormatError(f"{where} is not described by a table")
        word = given.get("dtype")
        dtype = named_dtype(word)
        if dtype is None:
            raise FormatError(f"{where} has the dtype {brief(word)}, which this torch does not have")
        shape, offsets = given.get("shape"), given.get("data_offsets")
        if not isinstance(shape, list) or len(shape) > _MOST_DIMENSIONS or not _counts(shape):
            raise FormatError(f"{where} has the shape {brief(shape)}")
        if not isinstance(offsets, list) or len(offsets) != 2 or not _counts(offsets):
            raise FormatError(f"{where} has the offsets {brief(offsets)}")
        start, end = offsets
        if word == "F4":
            # Two items a byte: torch counts the pairs.
            if not shape or shape[-1] % 2:
                raise FormatError(f"{where} has the shape {brief(shape)}, which does not fill whole bytes")
            shape = [*shape[:-1], shape[-1] // 2]
        nbytes = math.prod(shape) * dtype.itemsize
        if math.prod(max(count, 1) for count in shape) >= _MOST_ITEMS:
            raise FormatError(f"{where} has the shape {brief(shape)}, with which torch cannot count")
        if end - start != nbytes or data + end > self.source.size:
            raise FormatError(
                f"{where} needs {nbytes} bytes, and its offsets are {start} to {end} of {self.source.size - data}; "
                "the file is damaged or cut short",
                Reason.TRUNCATED,
            )
        return TensorEntry(name, dtype, tuple(shape), data + start, nbytes)

    def _check_apart(self) -> None:
        end, last = 0, ""
        for row in sorted(self.rows.values(), key=lambda row: (row.start, row.nbytes)):
            if row.nbytes and row.start < end:
                raise FormatError(f"{self.source.name}: tensors {last[:80]!r} and {row.name[:80]!r} overlap")
            if row.nbytes:
                end, last = row.start + row.nbytes, row.name

    def _check_complete(self, data: int) -> None:
        """The format leaves no byte without a tensor, so that a file can hide nothing."""
        end = data
        for row in sorted(self.rows.values(), key=lambda row: (row.start, row.nbytes)):
            if row.start != end:
                raise FormatError(
                    f"{self.source.name}: tensor {row.name[:80]!r} begins at byte {row.start - data} of the data, and "
                    f"what is before it ends at {end - data}; the format allows no bytes between tensors"
                )
            end += row.nbytes
        if end != self.source.size:
            raise FormatError(
                f"{self.source.name}: {counted(self.source.size - end, 'byte')} behind the last tensor; the format "
                "allows none"
            )

    def read(
        self, names: Iterable[str], allotment: Allotment, whole: UntypedStorage | None
    ) -> dict[str, UntypedStorage]:
        """The storages of tensors: windows into the mapped file, or read into new memory."""
        storages = {}
        for name in names:
            row = self.rows[name]
            # Where items do not start at multiples of their size, a copy is safer than what the mapping has.
            if whole is not None and not (self.source.base + row.start) % row.dtype.itemsize:
                storages[name] = slice_storage(whole, self.source.base + row.start, row.nbytes)
                continue
            allotment.take(row.nbytes, f"{self.source.name}: tensor {name[:80]!r}")
            storages[name] = new_storage(row.nbytes)
            self.source.read_into(row.start, memoryview(bytes_of(storages[name])))
        return storages


def _counts(values: list[Any]) -> bool:
    return all(type(value) is int and 0 <= value < 1 << 60 for value in values)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is used twice")
    for part in (part for pair in pairs for part in pair if type(part) is str):
        part.encode()  # an escaped half of a surrogate pair is no text
    return found


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no number")
