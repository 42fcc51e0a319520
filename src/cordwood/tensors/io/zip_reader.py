"""Reads zip archives, stored and deflated, from untrusted bytes.

    archive = Archive(source)
    pickle = archive.read(archive.entries["model/data.pkl"])

The central directory is believed only as far as it fits the file: every size, offset and count is checked before it is
used, entries may not overlap, and what an entry claims to inflate to must be possible. What cannot be meant is a
FormatError. Nothing is ever extracted, so names are never paths; those that would be traps as paths are refused anyway.
"""

import zlib
from bisect import bisect_right
from collections.abc import Iterator

from cordwood.errors import FormatError, Reason, UsageError
from cordwood.native import _native
from cordwood.tensors.io.source import ByteSource
from cordwood.tensors.io.zip_directory import (
    DEFLATED,
    END_SIGNATURE,
    LOCAL,
    LOCAL_SIGNATURE,
    STORED,
    ZipEntry,
    read_directory,
    read_local_headers,
    shown,
)

__all__ = ["DEFLATED", "STORED", "Archive", "ZipEntry", "is_zip"]

_ENCRYPTED = 1 | 1 << 6 | 1 << 13
_PATCH = 1 << 5
_METHODS = {1: "shrunk", 6: "imploded", 9: "deflate64", 12: "bzip2", 14: "lzma", 93: "zstd", 95: "xz", 98: "ppmd"}
# Deflate spends at least 2 bits on 258 bytes: no stream inflates to more than 1032 times its size.
_BEST_RATIO = 1032
_PIECE = 1 << 18  # bytes that pass through memory at a time
_PIECE_DEFLATED = 1 << 16  # small, because what is left of it is copied whenever a piece of output is full


def is_zip(first_bytes: bytes | memoryview) -> bool:
    """Whether a file that starts so is a zip archive; 4 bytes are enough."""
    return bytes(first_bytes[:4]) in (LOCAL_SIGNATURE, END_SIGNATURE)


class Archive:
    """A zip archive whose directory has been read and checked; contents are read when they are asked for.

    ::

        archive = Archive(open_source("model.pt"))
        for name, entry in archive.entries.items():
            print(name, entry.size)
    """

    __slots__ = ("_end", "_headers", "_starts", "entries", "is_recovered", "source")

    def __init__(self, source: ByteSource) -> None:
        self.source = source
        self.is_recovered = False
        self._starts: dict[int, int] = {}
        self._headers: list[int] | None = None
        self.entries: dict[str, ZipEntry]
        self.entries, self._end = read_directory(source)

    @classmethod
    def recover(cls, source: ByteSource) -> "Archive":
        """What is left of an archive without its directory: local headers, from the start on, as far as they are whole.

        ::

            try:
                archive = Archive(source)
            except FormatError:
                archive = Archive.recover(source)

        An entry whose data are cut short is listed if its size is known, and reading it is a FormatError.
        """
        archive = cls.__new__(cls)
        archive.source = source
        archive.is_recovered = True
        archive._starts, archive._headers = {}, None
        archive.entries, archive._end = read_local_headers(source), source.size
        return archive

    def start(self, entry: ZipEntry) -> int:
        """The offset of the entry's data, after a look at its local header."""
        start = self._starts.get(entry.header)
        if start is None:
            start = self._starts[entry.header] = self._check_local(entry)
        return start

    def _check_local(self, entry: ZipEntry) -> int:
        source, stored, size = self.source, entry.stored, entry.size
        if entry.flags & (_ENCRYPTED | _PATCH):
            what = "encrypted" if entry.flags & _ENCRYPTED else "a patch"
            raise self._refused(entry, f"found an entry that is {what}, expected plain contents: pack it again so.")
        if entry.method not in (STORED, DEFLATED):
            method = f"{entry.method} ({_METHODS.get(entry.method, 'unknown')})"
            raise self._refused(
                entry, f"found compression method {method}, expected 0 (stored) or 8 (deflated): pack it again so."
            )
        if entry.method == STORED and stored != size:
            raise self._refused(entry, f"found {stored} stored bytes, expected its size, {size}.")
        if size > stored * _BEST_RATIO:
            raise self._refused(
                entry,
                f"found a size of {size}, expected at most {stored * _BEST_RATIO}, the most that {stored} deflated "
                "bytes can inflate to: the archive is damaged or a bomb.",
                Reason.LIMIT,
            )
        name = entry.raw_name
        header = source.read(entry.header, LOCAL.size + len(name))
        signature, _, _, method, _, _, _, _, _, name_length, extra_length = LOCAL.unpack_from(header)
        if signature != LOCAL_SIGNATURE:
            raise self._refused(entry, f"found {signature!r}, expected a local header, {LOCAL_SIGNATURE!r}.")
        if name_length != len(name) or header[LOCAL.size :] != name:
            found = shown(bytes(header[LOCAL.size :])[:name_length])
            raise self._refused(entry, f"found the name {found} in its local header, expected {shown(name)}.")
        if method != entry.method:
            raise self._refused(entry, f"found method {method} in its local header, expected {entry.method}.")
        start = int(entry.header + LOCAL.size + name_length + extra_length)
        if self._headers is None:
            self._headers = sorted(other.header for other in self.entries.values())
        following = bisect_right(self._headers, entry.header)
        end = self._headers[following] if following < len(self._headers) else self._end
        if start + stored > end and not self.is_recovered:
            raise self._refused(
                entry,
                f"found data up to offset {start + stored}, expected its end at {end} or before, where the next thing "
                "starts: the archive is damaged or a bomb.",
            )
        return start

    def _refused(self, entry: ZipEntry, what: str, reason: int = 0) -> FormatError:
        return FormatError(f"{self.source.name}: {entry}: {what}", reason)

    def read(self, entry: ZipEntry, limit: int | None = None) -> bytes:
        """The contents, if they are no larger than `limit` bytes."""
        if limit is not None and entry.size > limit:
            raise self._refused(
                entry,
                f"found {entry.size} bytes, expected at most {limit}. If you trust the source, allow more.",
                Reason.LIMIT,
            )
        if entry.method == STORED:
            return bytes(self.source.read(self.start(entry), entry.stored))
        return b"".join(self._pieces(entry))

    def read_into(self, entry: ZipEntry, buffer: memoryview) -> None:
        """The contents, into a buffer of just their size."""
        if len(buffer) != entry.size:
            raise UsageError(f"the buffer has {len(buffer)} bytes, {shown(entry.name)} has {entry.size}")
        if entry.method == STORED:
            self.source.read_into(self.start(entry), buffer)
            return
        done = 0
        for piece in self._pieces(entry):
            buffer[done : done + len(piece)] = piece
            done += len(piece)

    def check(self, entry: ZipEntry) -> bool:
        """Whether the contents have the checksum that the archive tells."""
        crc = 0
        for piece in self._pieces(entry):
            crc = _native.crc32(piece, crc)
        return crc == entry.crc

    def _pieces(self, entry: ZipEntry) -> Iterator[bytes | memoryview]:
        """The contents, exactly `entry.size` bytes in all, a little at a time."""
        start, stored, source = self.start(entry), entry.stored, self.source
        if entry.method == STORED:
            for offset in range(0, stored, _PIECE):
                yield source.read(start + offset, min(_PIECE, stored - offset))
            return
        stream, left = zlib.decompressobj(-zlib.MAX_WBITS), entry.size
        try:
            for offset in range(0, stored, _PIECE_DEFLATED):
                deflated: bytes | memoryview = source.read(start + offset, min(_PIECE_DEFLATED, stored - offset))
                full = True
                while (deflated or full) and not stream.eof:
                    # One byte more than is left, to see a stream that goes on, and to let one that ends reach its end.
                    room = min(_PIECE, left + 1)
                    piece = stream.decompress(deflated, room)
                    left -= len(piece)
                    if left < 0:
                        raise self._refused(entry, f"found more than {entry.size} inflated bytes, expected no more.")
                    yield piece
                    deflated = stream.unconsumed_tail
                    full = len(piece) == room
                if stream.eof and (stream.unused_data or offset + _PIECE_DEFLATED < stored):
                    raise self._refused(entry, "found bytes after the end of the deflate stream, expected none.")
        except zlib.error as error:
            raise self._refused(
                entry, f"found a broken deflate stream ({error}), expected {entry.size} bytes."
            ) from None
        if left or not stream.eof:
            found = f"found {entry.size - left} inflated bytes in a deflate stream that ends early"
            raise self._refused(entry, f"{found}, expected {entry.size}.", Reason.TRUNCATED)
