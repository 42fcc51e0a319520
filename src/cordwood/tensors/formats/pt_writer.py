"""Writes a `.pt` file in torch's own layout, readable by plain ``torch.load``.

Compressed files carry a tripwire. Torch reads deflated records well, but ``torch.load(mmap=True)`` takes their
compressed bytes for the tensors' and says nothing. So the last record of such a file is a storage that is longer,
unpacked, than what follows its place in the file; a tensor over it hangs on the first tensor's empty dict of hooks.
Loading reads it and forgets it; mapping finds it out of bounds and raises.

``.format_version`` and ``.storage_alignment`` allow torch to compute the offsets of all storages from their sizes
(``torch.utils.serialization.config.load.calculate_storage_offsets``, ``_checkpoint_offset`` under ``FakeTensorMode``).
A file has them where that gives the right offsets: with nothing deflated, and storages counted from 0 on in the order
of the pickle.
"""

import hashlib
import pickle
import struct
import zlib
from typing import Any

import torch

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
    archive = _Archive(write, parcel.prefix or prefix, compress=compress)
    if not compress:
        archive.add("data.pkl", [parcel.pickle])
        if parcel.tripwire is None and (not parcel.storages or parcel.storages[0].key == "0"):
            archive.add(".format_version", [b"1"])
            archive.add(".storage_alignment", [str(archive.alignment).encode()])
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

    def __init__(self, write: Write, prefix: str, *, compress: bool) -> None:
        # torch.utils.serialization.config.save.storage_alignment, which early versions of torch do not have
        self.alignment: int = getattr(torch.serialization, "_get_storage_alignment", lambda: 64)()
        self._zip = ZipWriter(write, alignment=self.alignment, like_torch=not compress)
        self._prefix = prefix

    def add(self, name: str, pieces: list[Any], *, deflated: bool = False) -> bool:
        """One record; whether it was worth deflating."""
        full = f"{self._prefix}/{name}"
        if deflated and pieces:
            data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            size = memoryview(data).nbytes
            if size > _LARGE:
                # Both forms at once would be too much memory: some samples tell whether it is worth it.
                if _worth_deflating(data):
                    self._zip.add_deflating(full, data)
                    return True
            else:
                chunks, crc = deflate(data)
                if sum(map(len, chunks)) <= size * _WORTH:
                    self._zip.add_deflated(full, chunks, size, crc)
                    return True
        self._zip.add(full, pieces)
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
        fixed = 46 + 32 + len(self._prefix.encode()) + 64
        others = [name.encode() for name in parcel.extras if name != "version"]
        return 2 * (len(self._zip.directory) + sum(map(len, others)) + (len(others) + 8) * fixed + 1024)

    def finish(self, parcel: Parcel, trip_bytes: int) -> None:
        """The records that every archive ends with, the tripwire, and the directory."""
        for name, data in parcel.extras.items():
            self.add(name, [data])
        if "version" not in parcel.extras:
            self.add("version", [_VERSION])
        # Torch logs this number to tell files apart; any that depends on the content alone will do.
        number = int.from_bytes(hashlib.sha256(self._zip.directory).digest()[:16], "little")
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
