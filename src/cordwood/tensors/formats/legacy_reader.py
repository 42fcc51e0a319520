"""Reads the files that torch wrote before 1.6: several pickles, then the bytes of the storages."""

from collections.abc import Iterable, Mapping
from typing import Any

from torch.storage import UntypedStorage

from cordwood.common.text import brief
from cordwood.errors import FormatError, Reason
from cordwood.tensors.content.dtypes import storage_dtypes
from cordwood.tensors.content.storage_memory import bytes_of, new_storage
from cordwood.tensors.formats.shared import LEGACY_MAGIC_NUMBER, LEGACY_VERSION, slice_storage
from cordwood.tensors.io.memory_budget import Allotment
from cordwood.tensors.io.source import ByteSource
from cordwood.tensors.unpickle.describe import Description, Global, describe

_FIRST_READ = 1 << 20
MAGIC_PICKLE = b"\x8a\n" + LEGACY_MAGIC_NUMBER.to_bytes(10, "little") + b"."  # after the two bytes of the protocol


def is_legacy(first_bytes: bytes) -> bool:
    """Whether a file begins with the magic number's pickle."""
    start = 11 if first_bytes[2:3] == b"\x95" else 2  # newer protocols put a frame around it
    return first_bytes[:1] == b"\x80" and first_bytes[start : start + len(MAGIC_PICKLE)] == MAGIC_PICKLE


class LegacyFile:
    """A file of the old format."""

    kind = "pt-legacy"
    byteorder = "little"

    def __init__(self, source: ByteSource, allotment: Allotment) -> None:
        self.source = source
        self.where = f"{source.name}: the pickle"
        length = min(source.size, _FIRST_READ)
        while True:
            # The pickles tell where they end only by ending: read more until they do.
            if length > _FIRST_READ:
                allotment.take(length, f"{source.name}: the pickles")
            data = bytes(source.read(0, length))
            try:
                keys = self._parse(data, allotment.left)
            except FormatError as error:
                if length == source.size or error.reason != Reason.TRUNCATED:
                    raise
            else:
                break
            length = min(source.size, length * 8)
        self._places = self._lay_out(keys)

    def _parse(self, data: bytes, room: int) -> Description:
        """The object's pickle, described, and those around it; the list of storages is told."""
        name = self.source.name
        magic = describe(data, f"{name}: the magic number", 0, room)
        version = describe(data, f"{name}: the version", magic.machine.position, room)
        system = describe(data, f"{name}: the system's facts", version.machine.position, room)
        if magic.root != LEGACY_MAGIC_NUMBER or version.root != LEGACY_VERSION:
            raise FormatError(f"{name}: version {brief(version.root)} of the old format; {LEGACY_VERSION} is known")
        if not isinstance(system.root, dict) or system.root.get("little_endian") is not True:
            raise FormatError(f"{name}: written on a big-endian machine, which is not supported")
        self.start = system.machine.position
        self.description = describe(data, self.where, self.start, room)
        self.pickle = data
        return describe(data, f"{name}: the list of storages", self.description.machine.position, room)

    def _lay_out(self, keys: Description) -> dict[str, tuple[int, int]]:
        """Offset and size of every storage, each behind a count of its own."""
        if type(keys.root) is not list or not all(is_key(key) for key in keys.root):
            raise FormatError(f"{self.source.name}: the list of storages is not one of keys")
        itemsizes = self._itemsizes()
        places: dict[str, tuple[int, int]] = {}
        position = keys.machine.position
        for key in map(str, keys.root):
            if key not in itemsizes or key in places:
                raise FormatError(f"{self.source.name}: storage {key[:40]} is listed, but not used once in the pickle")
            itemsize, numel = itemsizes[key]
            nbytes = itemsize * numel
            if position + 8 + nbytes > self.source.size:
                raise FormatError(
                    f"{self.source.name}: storage {key[:40]} needs {nbytes} bytes at {position + 8}, but the file "
                    f"ends at {self.source.size}; it was cut short",
                    Reason.TRUNCATED,
                )
            count = int.from_bytes(bytes(self.source.read(position, 8)), "little", signed=True)
            if count != numel:
                raise FormatError(f"{self.source.name}: storage {key[:40]} has {count} items, the pickle says {numel}")
            places[key] = (position + 8, nbytes)
            position += 8 + nbytes
        self.end = position  # where another object may begin
        return places

    def _itemsizes(self) -> dict[str, tuple[int, int]]:
        """Item size and count of every storage that the pickle names."""
        found: dict[str, tuple[int, int]] = {}
        sizes = {name: dtype.itemsize for name, dtype in storage_dtypes().items()}
        for persistent in self.description.hooks.persistents:
            identity: tuple[Any, ...] = persistent.identity
            if len(identity) != 6 or word(identity[0]) != "storage":
                continue
            kind, key, numel = identity[1], identity[2], identity[4]
            if not isinstance(kind, Global) or kind.name not in sizes or not _is_count(numel):
                raise FormatError(f"{self.source.name}: storage {brief(key)} of an unknown kind or size")
            if not is_key(word(key)):
                raise FormatError(f"{self.source.name}: a storage whose key is {brief(key)}")
            found.setdefault(str(word(key)), (sizes[kind.name], numel))
        return found

    def keys(self) -> list[str]:
        """Of all storages in the file."""
        return list(self._places)

    def place(self, key: str) -> tuple[int, int]:
        """Offset and length of a storage's bytes in the source."""
        if key not in self._places:
            raise FormatError(f"{self.source.name}: storage {key[:40]} is not in the file; it is damaged")
        return self._places[key]

    def nbytes(self, key: str) -> int:
        """The size of a storage."""
        return self.place(key)[1]

    def read(self, keys: Iterable[str], allotment: Allotment) -> Mapping[str, UntypedStorage]:
        """Storages, read into new memory."""
        storages = {}
        for key in keys:
            offset, nbytes = self.place(key)
            allotment.take(nbytes, f"{self.source.name}: storage {key[:40]}")
            storages[key] = new_storage(nbytes)
            self.source.read_into(offset, memoryview(bytes_of(storages[key])))
        return storages

    def mapped(self, key: str, whole: UntypedStorage) -> UntypedStorage:
        """A storage inside a mapping of the file."""
        offset, nbytes = self.place(key)
        return slice_storage(whole, self.source.base + offset, nbytes)

    def coding(self, key: str) -> str:
        """How the record is kept, in a word."""
        return "stored"

    def stored(self, key: str) -> int:
        """Bytes that the storage takes in the file."""
        return self.place(key)[1]


def word(value: Any) -> Any:
    """Text as text, also if Python 2 wrote it as bytes."""
    return value.decode("ascii", "replace") if isinstance(value, bytes) else value


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def is_key(value: Any) -> bool:
    """Whether a value can be a storage's key, which older files write as an integer."""
    return type(value) is str or (type(value) is int and 0 <= value < 1 << 64)
