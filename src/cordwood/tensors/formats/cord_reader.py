"""Reads `.cord` files: checks the manifest, and decodes records through the codecs."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch.storage import UntypedStorage

from cordwood import codecs
from cordwood.codecs import DTYPES
from cordwood.common.text import brief
from cordwood.errors import FormatError, Reason
from cordwood.native import _native
from cordwood.tensors.content.file_content import Bytes
from cordwood.tensors.content.storage_memory import bytes_of, new_storage
from cordwood.tensors.formats.shared import (
    CORD_MANIFEST_NAME,
    CORD_MARK_NAME,
    CORD_PICKLE_NAME,
    CORD_VERSION,
    in_threads,
    slice_storage,
)
from cordwood.tensors.io.memory_budget import Allotment
from cordwood.tensors.io.source import ByteSource
from cordwood.tensors.io.zip_reader import STORED, Archive, ZipEntry

_MOST_PADDING = 15
_LARGEST_STORAGE = 1 << 56
_IN_MEMORY = 1 << 20  # such a file was read whole when it was opened
_BATCH = 8 << 20
_WORTH_THREADS = 1 << 20


@dataclass(frozen=True, slots=True)
class CordRecord:
    """A piece of a storage, and where it is kept."""

    name: str
    offset: int
    nbytes: int
    coding: str
    crc32c: int | None
    entry: ZipEntry


@dataclass(frozen=True, slots=True)
class StorageRow:
    """A storage as the manifest tells it."""

    nbytes: int
    records: tuple[CordRecord, ...]


def is_cord(first_bytes: bytes) -> bool:
    """Whether an archive begins with the mark."""
    length = int.from_bytes(first_bytes[26:28], "little")
    return first_bytes[30 : 30 + length] == CORD_MARK_NAME.encode()


class CordFile:
    """A `.cord` file."""

    kind = "cord"
    byteorder = "little"
    start = 0

    def __init__(self, source: ByteSource, archive: Archive, allotment: Allotment) -> None:
        self.source = source
        self.archive = archive
        self.where = f"{source.name}: {CORD_PICKLE_NAME}"
        manifest = self._checked(CORD_MANIFEST_NAME, allotment.take_text)
        self.pickle = self._checked(CORD_PICKLE_NAME, allotment.take)
        try:
            self.manifest = _JSON.decode(manifest.decode())
        except (ValueError, RecursionError) as error:
            raise FormatError(
                f"{source.name}: {CORD_MANIFEST_NAME} is not JSON ({error!s:.100}); the file is damaged"
            ) from None
        self._check_version()
        self._rows = self._read_rows()

    def _checked(self, name: str, take: Callable[[int, str], None]) -> bytes:
        entry = self._entry(name, stored=False)
        take(entry.size, f"{self.source.name}: {name}")
        data = self.archive.read(entry, entry.size)
        crc = _native.crc32(data)
        if crc != entry.crc:
            raise FormatError(
                f"{self.source.name}: the checksum of {name} is {crc:08x}, not {entry.crc:08x}; the file is damaged",
                Reason.BLOCK_CHECKSUM,
            )
        return data

    def _entry(self, name: str, *, stored: bool = True) -> ZipEntry:
        found = self.archive.entries.get(name)
        if found is None:
            raise FormatError(f"{self.source.name}: the archive has no entry {name[:80]}; the file is damaged")
        if stored and found.method != STORED:
            raise FormatError(
                f"{self.source.name}: record {name[:80]} is deflated, and in a .cord file they are stored"
            )
        return found

    def _bad(self, what: str) -> FormatError:
        return FormatError(f"{self.source.name}: {CORD_MANIFEST_NAME}: {what}; the file is damaged")

    def _check_version(self) -> None:
        manifest = self.manifest
        if not isinstance(manifest, dict) or manifest.get("format") != "cordwood-tensors":
            raise self._bad("it does not say that this is a cordwood-tensors file")
        version = manifest.get("version")
        if not isinstance(version, list) or len(version) != 2 or not all(type(part) is int for part in version):
            raise self._bad(f"version {brief(version)}")
        if version[0] != CORD_VERSION[0]:
            raise FormatError(
                f"{self.source.name}: version {version[0]}.{version[1]} of the format, and this Cordwood reads "
                f"{CORD_VERSION[0]}.x; install a newer one",
                Reason.VERSION,
            )
        requires = manifest.get("requires", [])
        if not isinstance(requires, list) or requires:
            raise FormatError(
                f"{self.source.name}: the file needs {brief(requires)}, which this Cordwood does not know; install "
                "a newer one",
                Reason.FLAGS,
            )

    def _read_rows(self) -> dict[str, StorageRow]:
        storages = self.manifest.get("storages")
        if not isinstance(storages, dict):
            raise self._bad("storages is not a table")
        seen: set[str] = set()
        return {key: self._read_row(key, row, seen) for key, row in storages.items()}

    def _read_row(self, key: str, row: Any, seen: set[str]) -> StorageRow:
        if not isinstance(row, dict) or not isinstance(row.get("records"), list):
            raise self._bad(f"storage {key[:40]} has no list of records")
        nbytes = row.get("nbytes")
        if type(nbytes) is not int or not 0 <= nbytes < _LARGEST_STORAGE:
            raise self._bad(f"storage {key[:40]} of {brief(nbytes)} bytes")
        end = 0
        records = []
        for index, given in enumerate(row["records"]):
            record = self._read_record(f"record {index} of storage {key[:40]}", given)
            if not 0 <= record.offset - end <= _MOST_PADDING or record.nbytes > nbytes - record.offset:
                raise self._bad(
                    f"{record.name[:80]} lies at {record.offset}, {record.nbytes} bytes, in a storage of "
                    f"{nbytes}, behind {end}"
                )
            if record.name in seen:
                raise self._bad(f"{record.name[:80]} is used twice")
            seen.add(record.name)
            end = record.offset + record.nbytes
            records.append(record)
        if nbytes - end > (_MOST_PADDING if records else 0):
            raise self._bad(f"storage {key[:40]} has {nbytes} bytes, of which records tell {end}")
        return StorageRow(nbytes, tuple(records))

    def _read_record(self, what: str, given: Any) -> CordRecord:
        if not isinstance(given, dict):
            raise self._bad(f"{what} is not a table")
        name, offset, nbytes = given.get("name"), given.get("offset"), given.get("nbytes")
        coding, crc = given.get("coding"), given.get("crc32c")
        if type(name) is not str or type(offset) is not int or type(nbytes) is not int or offset < 0 or nbytes <= 0:
            raise self._bad(f"{what} has no name, offset or size")
        entry = self._entry(name)
        if coding not in ("raw", "frame"):
            raise self._bad(f"{what} has the coding {brief(coding)}, and known are raw and frame")
        if coding == "raw" and (type(crc) is not int or entry.size != nbytes):
            raise self._bad(f"{what}, raw, has no checksum or another size ({entry.size}) than it says ({nbytes})")
        return CordRecord(name, offset, nbytes, coding, crc, entry)

    def row(self, key: str) -> StorageRow:
        """A storage, by its key."""
        if key not in self._rows:
            raise FormatError(f"{self.source.name}: storage {key[:40]} is not in the manifest; the file is damaged")
        return self._rows[key]

    def keys(self) -> list[str]:
        """Of all storages in the file."""
        return list(self._rows)

    def nbytes(self, key: str) -> int:
        """The size of a storage in memory."""
        return self.row(key).nbytes

    def read(self, keys: Iterable[str], allotment: Allotment) -> Mapping[str, UntypedStorage]:
        """Storages, decoded into new memory; frames by the batch, in one native call each."""
        storages: dict[str, UntypedStorage] = {}
        batch = _Batch(self)
        raw: list[tuple[CordRecord, Bytes]] = []
        for key in keys:
            row = self.row(key)
            allotment.take(row.nbytes, f"{self.source.name}: storage {key[:40]}")
            memory = bytes_of(storages.setdefault(key, new_storage(row.nbytes)))
            end = 0
            for record in row.records:
                memory[end : record.offset] = 0
                end = record.offset + record.nbytes
                if record.coding == "raw":
                    raw.append((record, memory[record.offset : end]))
                else:
                    batch.add(record, memory[record.offset : end])
            memory[end:] = 0
        batch.decode()
        in_threads(self._read_raw, raw, sum(record.nbytes for record, _ in raw))
        return storages

    def _read_raw(self, given: tuple[CordRecord, Bytes]) -> None:
        record, out = given
        self.archive.read_into(record.entry, memoryview(out))
        if _native.crc32c(out) != record.crc32c:
            raise FormatError(
                f"{self.source.name}: {record.name}: the checksum of its bytes is {_native.crc32c(out):08x}, not "
                f"{record.crc32c:08x}; the record is damaged",
                Reason.BLOCK_CHECKSUM,
            )

    def can_map(self, key: str) -> bool:
        """Whether a storage is one raw record and nothing else."""
        row = self.row(key)
        return len(row.records) == 1 and row.records[0].coding == "raw" and row.records[0].nbytes == row.nbytes

    def mapped(self, key: str, whole: UntypedStorage) -> UntypedStorage:
        """A storage inside a mapping of the file."""
        (record,) = self.row(key).records
        return slice_storage(whole, self.source.base + self.archive.start(record.entry), record.nbytes)

    def coding(self, key: str) -> str:
        """How the records are kept: raw, or the chain of stages."""
        codings = []
        for record in self.row(key).records:
            if record.coding == "raw":
                codings.append("raw")
                continue
            frame = self.source.read(self.archive.start(record.entry), record.entry.size)
            codings.append(codecs.frame_info(frame).chain)
        return ", ".join(dict.fromkeys(codings)) or "raw"

    def stored(self, key: str) -> int:
        """Bytes that the records take in the file."""
        return sum(record.entry.stored for record in self.row(key).records)


class _Batch:
    """Frames that wait to be decoded together, in memory that is used again."""

    def __init__(self, file: CordFile) -> None:
        self.file = file
        self._buffer: Bytes | None = None
        self._used = 0
        self._frames: list[Any] = []
        self._outs: list[Any] = []
        self._names: list[str] = []

    def add(self, record: CordRecord, out: Bytes) -> None:
        """Read a frame; those before it are decoded first when there is no more room."""
        file = self.file
        size = record.entry.size
        start = file.archive.start(record.entry)
        if self._buffer is None and file.source.size <= _IN_MEMORY:
            frame: Any = file.source.read(start, size)
        else:
            frame = self._room(size)
            file.source.read_into(start, memoryview(frame))
        try:
            info = codecs.frame_info(frame)
        except FormatError as error:
            raise FormatError(f"{file.source.name}: {record.name}: {error}", error.reason) from None
        carrier = DTYPES[info.dtype].numpy
        if info.nbytes != record.nbytes or info.plan_hash is not None or record.offset % carrier.itemsize:
            raise FormatError(
                f"{file.source.name}: {record.name}: its frame holds {info.nbytes} bytes of {info.dtype}, the "
                f"manifest says {record.nbytes} bytes at {record.offset}"
            )
        self._frames.append(frame)
        self._outs.append(out.view(carrier).reshape(info.shape))
        self._names.append(record.name)

    def _room(self, size: int) -> Bytes:
        if self._buffer is None or self._used + size > len(self._buffer):
            self.decode()
            if self._buffer is None or size > len(self._buffer):
                self._buffer = np.empty(max(size, _BATCH), np.uint8)
        room = self._buffer[self._used : self._used + size]
        self._used += size
        return room

    def decode(self) -> None:
        """Decode what waits."""
        frames, outs, names = self._frames, self._outs, self._names
        self._frames, self._outs, self._names, self._used = [], [], [], 0
        if not frames:
            return
        try:
            codecs.decode_into(frames, outs, None if sum(out.nbytes for out in outs) > _WORTH_THREADS else 1)
        except FormatError:
            # Say which record, in the codecs' own words.
            for frame, out, name in zip(frames, outs, names, strict=True):
                try:
                    codecs.decode(frame, out=out)
                except FormatError as error:
                    raise FormatError(f"{self.file.source.name}: {name}: {error}", error.reason) from None
            raise


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is used twice")
    return found


_JSON = json.JSONDecoder(object_pairs_hook=_unique)
