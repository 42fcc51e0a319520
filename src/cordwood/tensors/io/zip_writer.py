"""Writes zip archives in one pass, with data aligned so that they can be mapped.

    with open("x.zip", "wb") as file:
        writer = ZipWriter(file.write)
        writer.add("x/data/0", array)
        writer.finish()

Sizes and checksums stand in the local headers (but for `add_deflating`, where they follow), so nothing has to be sought
back to, and a cut archive can be recovered. Equal contents give equal bytes: there is no clock in an archive. As in
torch's files, an extra field "FB" of the local header pushes the data to a multiple of the alignment.
"""

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from cordwood.common.threads import map_in_threads
from cordwood.errors import UsageError
from cordwood.native import _native
from cordwood.tensors.io.zip_directory import (
    CENTRAL_SIGNATURE,
    DEFLATED,
    END,
    END64,
    END64_SIGNATURE,
    END_SIGNATURE,
    LOCAL,
    LOCAL_SIGNATURE,
    LOCATOR,
    LOCATOR_SIGNATURE,
    MAX16,
    MAX32,
    STORED,
    UTF8,
    ZIP64_EXTRA,
    trap_in_name,
)

# Whatever has the buffer protocol; NumPy's arrays have it, but their types say so only from Python 3.12 on.
Buffer = Any
Write = Callable[[Buffer], object]

_VERSION, _VERSION_ZIP64 = 20, 45  # of the zip format that a reader needs
_LOCAL, _LOCAL_ZIP64 = (LOCAL_SIGNATURE + struct.pack("<H", version) for version in (_VERSION, _VERSION_ZIP64))
_CENTRAL, _CENTRAL_ZIP64 = (
    CENTRAL_SIGNATURE + struct.pack("<HH", _VERSION_ZIP64, version) for version in (_VERSION, _VERSION_ZIP64)
)
_COMMON = struct.Struct("<HHHHIII")
_PAIR = struct.Struct("<HH")
_CENTRAL_END = struct.Struct("<HH10xI")  # lengths of name and extra field, offset of the local header
_DATE = 1 << 5 | 1  # 1980-01-01, the first there is
_PADDING_EXTRA = 0x4246  # "FB"
_MOST_ALIGNED = 1 << 15  # the padding's length is a number of 16 bits
_SMALL = 1 << 16  # entries up to this size are written at once
_CHUNK = 1 << 20  # deflated by itself
_PIECES_AT_ONCE = 16
_DESCRIPTOR = 1 << 3  # the flag of an entry whose sizes follow its data
_DESCRIPTOR_SIGNATURE = 0x08074B50
_WINDOW = 1 << 15  # how far back deflate looks
_POLYNOMIAL = 0xEDB88320  # of the checksum, the lowest power in the highest bit


class ZipWriter:
    """Makes an archive of what is added, in that order; `finish` writes the directory.

    ::

        writer = ZipWriter(file.write, alignment=64)
        offset = writer.add("model/data/0", weights)
        writer.finish()

    `write` takes a buffer and must take all of it. `position` is the number of bytes written so far. With
    ``like_torch=True`` all offsets are those of torch's own writer, which torch can compute from the sizes alone: a
    descriptor follows the data of each entry, and there is a padding field even where nothing has to be padded.
    """

    def __init__(self, write: Write, *, alignment: int = 64, like_torch: bool = False) -> None:
        if not 1 <= alignment <= _MOST_ALIGNED:
            raise UsageError(f"the alignment must be between 1 and {_MOST_ALIGNED} bytes, got {alignment}")
        self.position = 0
        self._write = write
        self._alignment = alignment
        self._like_torch = like_torch
        self._names: set[str] = set()
        self._directory: list[bytes] = []

    @property
    def directory(self) -> bytes:
        """The directory's entries so far: names, sizes, checksums and offsets."""
        return b"".join(self._directory)

    def add(self, name: str, data: Buffer | Sequence[Buffer], *, align: bool = True) -> int:
        """Store a buffer, or several one after the other; returns the offset of the data."""
        pieces = [_flat(piece) for piece in (data if isinstance(data, list | tuple) else (data,))]
        crc = size = 0
        for piece in pieces:
            crc = _native.crc32(piece, crc)
            size += len(piece)
        return self._add(name, STORED, pieces, size, size, crc, self._alignment if align else 1)

    def add_deflated(self, name: str, compressed: Sequence[Buffer], size: int, crc: int) -> int:
        """Store what `deflate` made of `size` bytes with this checksum; returns the offset of the data."""
        pieces = [_flat(piece) for piece in compressed]
        return self._add(name, DEFLATED, pieces, sum(map(len, pieces)), size, crc, 1)

    def add_deflating(self, name: str, data: Buffer) -> int:
        """Deflate a buffer that is too large to hold its deflated form as well; returns the offset of the data.

        Its sizes are known only when it is written, so they follow it.
        """
        size = memoryview(data).nbytes
        wide = size >= MAX32 - (size >> 8)  # what cannot be made smaller grows a little
        encoded, header, flags = self._take(name), self.position, UTF8 | _DESCRIPTOR
        self._put(self._local(encoded, _common(flags, DEFLATED, 0, 0, 0, wide), 0, 0, wide, 1))
        start, crc = self.position, 0
        for piece, chunk_crc, length in deflating(data):
            self._put(piece)
            crc = combine_crc32(crc, chunk_crc, length)
        stored = self.position - start
        self._put(_descriptor(crc, stored, size, wide))
        self._list(encoded, _common(flags, DEFLATED, crc, stored, size, wide), stored, size, header, wide)
        return start

    def finish(self) -> None:
        """Write the directory. Nothing can be added after it."""
        offset = self.position
        self._put(self.directory)
        count, size = len(self._directory), self.position - offset
        if count >= MAX16 or size >= MAX32 or offset >= MAX32:
            at = self.position
            version = _VERSION_ZIP64
            self._put(END64.pack(END64_SIGNATURE, END64.size - 12, version, version, 0, 0, count, count, size, offset))
            self._put(LOCATOR.pack(LOCATOR_SIGNATURE, 0, at, 1))
        count = min(count, MAX16)
        self._put(END.pack(END_SIGNATURE, 0, 0, count, count, min(size, MAX32), min(offset, MAX32), 0))

    def _add(
        self, name: str, method: int, pieces: list[memoryview], stored: int, size: int, crc: int, align: int
    ) -> int:
        encoded, header = self._take(name), self.position
        wide = size >= MAX32 or stored >= MAX32
        described = self._like_torch and stored > 0
        common = _common(UTF8 | _DESCRIPTOR if described else UTF8, method, crc, stored, size, wide)
        local = self._local(encoded, common, stored, size, wide, align)
        tail = _descriptor(crc, stored, size, wide or header >= MAX32) if described else b""
        if stored < _SMALL:
            self._put(b"".join((local, *pieces, tail)))
        else:
            self._put(local)
            for piece in pieces:
                self._put(piece)
            self._put(tail)
        self._list(encoded, common, stored, size, header, wide)
        return header + len(local)

    def _take(self, name: str) -> bytes:
        """The name as it is written, if it can be the name of another entry."""
        encoded = name.encode()
        if name in self._names or trap_in_name(name) or len(encoded) > MAX16:
            what = "is in the archive already" if name in self._names else "cannot be the name of an entry"
            raise UsageError(f"{name[:100]!r} {what}")
        self._names.add(name)
        return encoded

    def _local(self, name: bytes, common: bytes, stored: int, size: int, wide: bool, align: int) -> bytes:
        """The local header that stands at the present position."""
        far = self._like_torch and self.position >= MAX32
        extra = _zip64(size, stored, self.position, wide, far) if wide or far else b""
        end = self.position + LOCAL.size + len(name) + len(extra)
        if self._like_torch or end % align:
            length = -(end + 4) % align
            extra += _PAIR.pack(_PADDING_EXTRA, length) + b"Z" * length
        version = _LOCAL_ZIP64 if wide or far else _LOCAL
        return b"".join((version, common, _PAIR.pack(len(name), len(extra)), name, extra))

    def _list(self, name: bytes, common: bytes, stored: int, size: int, header: int, wide: bool) -> None:
        """Remember the entry for the directory, where the offset too may need 64 bits and there is no padding."""
        far = header >= MAX32
        extra = _zip64(size, stored, header, wide, far) if wide or far else b""
        end = _CENTRAL_END.pack(len(name), len(extra), min(header, MAX32))
        self._directory.append(b"".join((_CENTRAL_ZIP64 if wide or far else _CENTRAL, common, end, name, extra)))

    def _put(self, data: bytes | memoryview) -> None:
        size = len(data)
        if size:
            self._write(data)
            self.position += size


def _common(flags: int, method: int, crc: int, stored: int, size: int, wide: bool) -> bytes:
    """The fields that stand in the local header and in the directory alike."""
    if wide:
        stored = size = MAX32
    return _COMMON.pack(flags, method, 0, _DATE, crc, stored, size)


def _zip64(size: int, stored: int, header: int, wide: bool, far: bool) -> bytes:
    """The extra field for sizes, if they are wide, and an offset, if it is far, in 64 bits."""
    values = ((size, stored) if wide else ()) + ((header,) if far else ())
    return struct.pack(f"<HH{len(values)}Q", ZIP64_EXTRA, 8 * len(values), *values)


def _descriptor(crc: int, stored: int, size: int, wide: bool) -> bytes:
    return struct.pack("<IIQQ" if wide else "<IIII", _DESCRIPTOR_SIGNATURE, crc, stored, size)


def _flat(data: Buffer) -> memoryview:
    view = memoryview(data)
    if view.format == "B" and view.ndim == 1 and view.c_contiguous:
        return view
    if not view.c_contiguous:
        raise UsageError("the data are not contiguous: copy them so that they are")
    return view.cast("B") if view.nbytes else memoryview(b"")


def deflate(data: Buffer, level: int = 6, threads: int = 2) -> tuple[list[bytes], int]:
    """Deflate a buffer with several threads; returns the pieces of one stream, and the checksum of the data.

    ::

        pieces, crc = deflate(array)
        writer.add_deflated("x/data/0", pieces, array.nbytes, crc)

    The data are cut at the same places whatever the number of threads, so the bytes are the same too.
    """
    chunks = list(deflating(data, level, threads))
    crc = 0
    for _, chunk_crc, length in chunks:
        crc = combine_crc32(crc, chunk_crc, length)
    return [piece for piece, _, _ in chunks], crc


def deflating(data: Buffer, level: int = 6, threads: int = 2) -> Iterator[tuple[bytes, int, int]]:
    """The pieces of a deflated stream as they are made, each with the checksum and the length of its data."""
    view = _flat(data)
    starts = range(0, max(1, len(view)), _CHUNK)

    def one(start: int) -> tuple[bytes, int, int]:
        chunk = view[start : start + _CHUNK]
        # Each chunk may refer to the end of the one before it, though that is deflated by another thread.
        before = view[max(0, start - _WINDOW) : start]
        stream = (
            zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS, zdict=before)
            if start
            else zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
        )
        last = start + _CHUNK >= len(view)
        piece = stream.compress(chunk) + stream.flush(zlib.Z_FINISH if last else zlib.Z_SYNC_FLUSH)
        return piece, _native.crc32(chunk), len(chunk)

    # Some at a time: the pool would otherwise run ahead of who takes the pieces, and hold them all.
    for first in range(0, len(starts), _PIECES_AT_ONCE):
        yield from map_in_threads(one, starts[first : first + _PIECES_AT_ONCE], threads)


def combine_crc32(first: int, second: int, length: int) -> int:
    """The checksum of two buffers one after the other, from the checksum of each and the length of the second."""
    return _multiply(_shift(length), first) ^ second


@lru_cache(maxsize=64)
def _shift(length: int) -> int:
    """x to the power of 8 * length, modulo the polynomial: what appending so many bytes does to a checksum."""
    result, factor = 1 << 31, 1 << 23  # x**0 and x**8
    while length:
        if length & 1:
            result = _multiply(result, factor)
        factor = _multiply(factor, factor)
        length >>= 1
    return result


def _multiply(a: int, b: int) -> int:
    """The product of two polynomials over GF(2), modulo that of the checksum."""
    product = 0
    for power in range(31, -1, -1):
        if a >> power & 1:
            product ^= b
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return product
