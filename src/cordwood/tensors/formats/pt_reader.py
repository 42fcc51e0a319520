"""Reads torch's zip archives (`.pt` since torch 1.6), stored or deflated."""

import sys
from collections.abc import Iterable, Mapping

import torch
from torch.serialization import LoadEndianness
from torch.storage import UntypedStorage

from cordwood.errors import FormatError
from cordwood.tensors.content.storage_memory import bytes_of, new_storage
from cordwood.tensors.formats.shared import in_threads, slice_storage
from cordwood.tensors.io.memory_budget import Allotment
from cordwood.tensors.io.source import ByteSource
from cordwood.tensors.io.zip_reader import STORED, Archive, ZipEntry


class PtFile:
    """A torch archive."""

    kind = "pt"

    def __init__(self, source: ByteSource, archive: Archive, prefix: str, allotment: Allotment) -> None:
        self.source = source
        self.archive = archive
        self.prefix = prefix
        if "constants.pkl" in self._names():
            raise FormatError(
                f"{source.name} is a TorchScript archive, which holds a program and not only tensors; "
                "load it with torch.jit.load"
            )
        self.pickle_entry = self._entry("data.pkl")
        allotment.take(self.pickle_entry.size, f"{source.name}: data.pkl")
        self.pickle = archive.read(self.pickle_entry, self.pickle_entry.size)
        self.where = f"{source.name}: data.pkl"
        self.byteorder = self._byteorder()
        self.start = 0

    def _names(self) -> set[str]:
        return {name.removeprefix(self.prefix) for name in self.archive.entries}

    def _entry(self, name: str) -> ZipEntry:
        found = self.archive.entries.get(self.prefix + name)
        if found is None:
            raise FormatError(
                f"{self.source.name}: the archive has no record {(self.prefix + name)[:120]}; the file is damaged"
            )
        return found

    def _byteorder(self) -> str:
        entry = self.archive.entries.get(self.prefix + "byteorder")
        if entry is None:
            # Files from before torch 2.1 do not state their byte order: torch assumes little unless a caller set it.
            config = getattr(getattr(torch.utils, "serialization", None), "config", None)
            assumed = config.load.endianness if config is not None else None
            if assumed is LoadEndianness.NATIVE:
                return sys.byteorder
            return "big" if assumed is LoadEndianness.BIG else "little"
        if entry.size > 16 or (order := self.archive.read(entry, 16)) not in (b"little", b"big"):
            raise FormatError(f"{self.source.name}: the record byteorder says neither little nor big")
        return order.decode()

    def entry(self, key: str) -> ZipEntry:
        """The record of a storage."""
        return self._entry(f"data/{key}")

    def keys(self) -> list[str]:
        """Of all storages in the file."""
        before = f"{self.prefix}data/"
        return [name[len(before) :] for name in self.archive.entries if name.startswith(before)]

    def nbytes(self, key: str) -> int:
        """The size of a storage in memory."""
        return self.entry(key).size

    def read(self, keys: Iterable[str], allotment: Allotment) -> Mapping[str, UntypedStorage]:
        """Storages, read into new memory; several at once when there is enough to read."""
        wanted = {}
        for key in keys:
            entry = self.entry(key)
            allotment.take(entry.size, f"{self.source.name}: {entry.name}")
            wanted[key] = entry
        storages = {key: new_storage(entry.size) for key, entry in wanted.items()}

        def fill(key: str) -> None:
            self.archive.read_into(wanted[key], memoryview(bytes_of(storages[key])))

        in_threads(fill, list(wanted), sum(entry.size for entry in wanted.values()))
        return storages

    def place(self, key: str) -> tuple[int, int]:
        """Offset and length of a stored record in the source; a deflated one has no place to be mapped from."""
        entry = self.entry(key)
        if entry.method != STORED:
            raise FormatError(
                f"{self.source.name}: {entry.name} is compressed and cannot be mapped; load without mmap=True"
            )
        return self.archive.start(entry), entry.size

    def mapped(self, key: str, whole: UntypedStorage) -> UntypedStorage:
        """A storage inside a mapping of the file."""
        start, size = self.place(key)
        return slice_storage(whole, self.source.base + start, size)

    def coding(self, key: str) -> str:
        """How the record is kept, in a word."""
        return "stored" if self.entry(key).method == STORED else "deflate"

    def stored(self, key: str) -> int:
        """Bytes that the record takes in the file."""
        return self.entry(key).stored
