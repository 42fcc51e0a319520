"""Writes a `.pt` file in torch's own layout, readable by plain ``torch.load``.

Compressed files carry a tripwire. Torch reads deflated records well, but ``torch.load(mmap=True)`` takes their
compressed bytes for the tensors' and says nothing. So the last record of such a file is a storage that is longer,
unpacked, than what follows its place in the file; a tensor over it hangs on the first tensor's empty dict of hooks.
Loading reads it and forgets it; mapping finds it out of bounds and raises. Records that would tell torch how to
compute offsets without looking (``.format_version``) are left out.
"""

import hashlib
import pickle
import struct
import zlib
from typing import Any

from cordwood.native import _native
from cordwood.tensors.content.file_content import Content, Parcel, Scratch
from cordwood.tensors.formats.shared import LEGACY_MAGIC_NUMBER, LEGACY_VERSION, Write
from cordwood.tensors.io.zip_writer import ZipWriter, deflate

_VERSION = b"3\n"
_LARGE = 64 << 20
_SAMPLES, _SAMPLE = 32, 1 << 18
_WORTH = 0.9  # a record is kept deflated from 10% saved on


def write_pt(content: Content, write: Write, prefix: str, *, compress: bool = False) -> None:
    """The whole archive, forward only."""
    parcel = content.parcel()
    archive = _Archive(write, parcel.prefix or prefix)
    if not compress:
        archive.add("data.pkl", [parcel.pickle])
        archive.add("byteorder", [parcel.byteorder.encode()])
        archive.add_storages(parcel)
        archive.finish(parcel, 0)
        return
    # The tripwire's size is in the pickle and depends on what was deflated: the pickle comes after the storages.
    archive.add("byteorder", [parcel.byteorder.encode()])
    deflated = archive.add_storages(parcel, deflated=content.has_tripwire)
    size = archive.room_behind(parcel) if deflated else 0
    archive.add("data.pkl", [content.parcel(size).pickle], deflated=True)
    archive.finish(parcel, size)


class _Archive:
    """The records of one file, under one name."""

    def __init__(self, write: Write, prefix: str) -> None:
        self._zip = ZipWriter(write)
        self._prefix = prefix
        self._entries = 0
        self._names = 0
        self._digest = hashlib.sha256()

    def add(self, name: str, pieces: list[Any], *, deflated: bool = False) -> bool:
        """One record; whether it was worth deflating."""
        full = f"{self._prefix}/{name}"
        self._entries += 1
        self._names += len(full)
        size = sum(memoryview(piece).nbytes for piece in pieces)
        crc = 0
        for piece in pieces:
            crc = _native.crc32(piece, crc)
        self._digest.update(struct.pack("<QI", size, crc) + full.encode())
        if deflated and size:
            data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            if size > _LARGE:
                # Both forms at once would be too much memory: some samples tell whether it is worth it.
                if _worth_deflating(data):
                    self._zip.add_deflating(full, data)
                    return True
            else:
                chunks, _ = deflate(data)
                if sum(map(len, chunks)) <= size * _WORTH:
                    self._zip.add_deflated(full, chunks, size, crc)
                    return True
        self._zip.add(full, pieces, crc=crc)
        return False

    def add_storages(self, parcel: Parcel, *, deflated: bool = False) -> bool:
        """All of them; whether one was worth deflating."""
        scratch = Scratch()
        worth = False
        for storage in parcel.storages:
            worth |= self.add(f"data/{storage.key}", storage.pieces(scratch), deflated=deflated)
        return worth

    def room_behind(self, parcel: Parcel) -> int:
        """More bytes than the tripwire's record and the directory can take."""
        fixed = 46 + 32 + len(self._prefix) + 64
        names = self._names + sum(map(len, parcel.extras))
        return 2 * (names + (self._entries + len(parcel.extras) + 8) * fixed + 1024)

    def finish(self, parcel: Parcel, trip_bytes: int) -> None:
        """The records that every archive ends with, the tripwire, and the directory."""
        for name, data in parcel.extras.items():
            self.add(name, [data])
        if "version" not in parcel.extras:
            self.add("version", [_VERSION])
        # Torch logs this number to tell files apart; any that depends on the content alone will do.
        number = int.from_bytes(self._digest.digest()[:16], "little")
        self.add(".data/serialization_id", [f"{number:040d}".encode()])
        if parcel.tripwire is not None:
            zeros = bytes(trip_bytes)
            name = f"{self._prefix}/data/{parcel.tripwire}"
            if zeros:
                self._zip.add_deflated(name, *_deflated(zeros))
            else:
                self._zip.add(name, [zeros])
        self._zip.finish()


def _worth_deflating(data: Any) -> bool:
    view = memoryview(data).cast("B")
    step = len(view) // _SAMPLES
    sampled = [view[start : start + _SAMPLE] for start in range(0, len(view) - _SAMPLE, step)]
    return sum(len(zlib.compress(one, 6)) for one in sampled) <= _WORTH * _SAMPLE * len(sampled)


def _deflated(data: bytes) -> tuple[list[bytes], int, int]:
    chunks, crc = deflate(data)
    return chunks, len(data), crc


def write_legacy(content: Content, write: Write) -> None:
    """The layout from before torch 1.6: pickles one after the other, then the storages."""
    parcel = content.parcel()
    system = {
        "protocol_version": LEGACY_VERSION,
        "little_endian": True,
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    for value in (LEGACY_MAGIC_NUMBER, LEGACY_VERSION, system):
        write(pickle.dumps(value, 2))
    write(parcel.pickle)
    write(pickle.dumps([storage.key for storage in parcel.storages], 2))
    scratch = Scratch()
    for storage in parcel.storages:
        write(struct.pack("<q", storage.nbytes // parcel.itemsizes[storage.key]))
        for piece in storage.pieces(scratch):
            write(piece)
