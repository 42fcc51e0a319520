"""Reads and checks the two ends of a shard: its first 32 and its last 48 bytes.

    ends = read_ends("train.cordwood/shard-00000000.cws")
    ends.count, ends.rows_offset, ends.row_size

Between them lie the frames, the table and the rows (`ShardTable`), and a footer of JSON for people (`read_footer`). The
bytes are described in docs/format/store.md.
"""

import json
import os
import struct
from dataclasses import dataclass
from typing import Any

from cordwood.common.files import opened
from cordwood.errors import FormatError, Reason
from cordwood.native import _native

MAGIC = b"CWSH"
END_MAGIC = b"CWSE"
MAJOR, MINOR = 1, 1
HEADER_SIZE = 32
TRAILER_SIZE = 48
_HEADER = struct.Struct("<4sBBHQ12xI")
_TRAILER = struct.Struct("<QQIIIIQ4sI")
_PACKED = 0x01  # the shard has a table, and packed rows: what is called version 2
_MUST_KNOW = 0xFF  # flags whose meaning a reader has to know; the upper ones may be passed over


def shard_name(number: int) -> str:
    """The name of a shard's file: ``shard-00000007.cws``."""
    return f"shard-{number:08d}.cws"


@dataclass(frozen=True)
class ShardEnds:
    """What header and trailer say, once their checksums and every size in them were found right."""

    schema_hash: int
    rows_offset: int
    count: int
    row_size: int
    footer_size: int
    footer_crc: int
    rows_crc: int
    file_size: int
    trailer_crc: int
    is_packed: bool = True  # False: version 1

    @property
    def rows_size(self) -> int:
        """Bytes of all rows."""
        return self.count * self.row_size

    @property
    def footer_offset(self) -> int:
        """Where the footer begins."""
        return self.rows_offset + self.rows_size


def pack_header(schema_hash: int) -> bytes:
    """The first 32 bytes of a shard."""
    body = _HEADER.pack(MAGIC, MAJOR, MINOR, _PACKED, schema_hash, 0)[:-4]
    return body + struct.pack("<I", _native.crc32c(body))


def pack_trailer(
    rows_offset: int, count: int, row_size: int, footer_size: int, footer_crc: int, rows_crc: int
) -> bytes:
    """The last 48 bytes of a shard."""
    size = rows_offset + count * row_size + footer_size + TRAILER_SIZE
    fields = (rows_offset, count, row_size, footer_size, footer_crc, rows_crc, size, END_MAGIC, 0)
    body = _TRAILER.pack(*fields)[:-4]
    return body + struct.pack("<I", _native.crc32c(body))


def check_ends(where: str, header: bytes, trailer: bytes, size: int) -> ShardEnds:
    """Make sense of a shard's two ends, given the size of its file; `where` names the shard in messages."""
    if len(header) != HEADER_SIZE or len(trailer) != TRAILER_SIZE or size < HEADER_SIZE + TRAILER_SIZE:
        raise FormatError(
            f"{where}: {size} bytes, but a shard has at least {HEADER_SIZE + TRAILER_SIZE}: the file was cut short",
            Reason.TRUNCATED,
        )
    magic, major, minor, flags, schema_hash, crc = _HEADER.unpack(header)
    if magic != MAGIC:
        raise FormatError(f"{where}: begins with {magic!r}, but a shard with {MAGIC!r}: this is no shard", Reason.MAGIC)
    if major != MAJOR:
        raise FormatError(
            f"{where}: a shard of version {major}.{minor}, but this Cordwood reads version {MAJOR}: upgrade it",
            Reason.VERSION,
        )
    found = _native.crc32c(header[:-4])
    if found != crc:
        raise _damaged(where, "header", 0, found, crc)
    if flags & _MUST_KNOW & ~_PACKED:
        raise FormatError(f"{where}: flags {flags:#06x} are those of a newer Cordwood: upgrade it", Reason.FLAGS)
    rows_offset, count, row_size, footer_size, footer_crc, rows_crc, said, end_magic, crc = _TRAILER.unpack(trailer)
    if end_magic != END_MAGIC:
        raise FormatError(
            f"{where}: ends with {end_magic!r} where {END_MAGIC!r} is expected: the file was cut short, or something "
            "was written behind its end",
            Reason.TRUNCATED,
        )
    found = _native.crc32c(trailer[:-4])
    if found != crc:
        raise _damaged(where, "trailer", size - TRAILER_SIZE, found, crc)
    if said != size:
        raise FormatError(
            f"{where}: {size} bytes, but its trailer says {said}: the file was cut short or grew", Reason.TRUNCATED
        )
    is_packed = bool(flags & _PACKED)
    ends = ShardEnds(schema_hash, rows_offset, count, row_size, footer_size, footer_crc, rows_crc, size, crc, is_packed)
    if (
        rows_offset < HEADER_SIZE
        or count < 1
        or row_size < 1
        or rows_offset + ends.rows_size + footer_size + TRAILER_SIZE != size
    ):
        raise FormatError(
            f"{where}: its trailer speaks of {count} rows of {row_size} bytes at byte {rows_offset} and a footer of "
            f"{footer_size} bytes, which does not make {size} bytes"
        )
    return ends


def _damaged(where: str, part: str, offset: int, found: int, expected: int) -> FormatError:
    return FormatError(
        f"{where}: the {part} at byte {offset} has checksum {found:#010x}, but {expected:#010x} was written: the file "
        "is damaged; restore it from a copy, or keep what is good with `cordwood verify --salvage`"
    )


def read_ends(path: str | os.PathLike[str]) -> ShardEnds:
    """Header and trailer of a shard's file.

    ::

        ends = read_ends("train.cordwood/shard-00000000.cws")
    """
    with opened(path, "the shard") as fd:
        return read_ends_of(fd, os.fspath(path))


def read_ends_of(fd: int, where: str) -> ShardEnds:
    """The same of an open file."""
    size = os.fstat(fd).st_size
    header = os.pread(fd, HEADER_SIZE, 0)
    return check_ends(where, header, os.pread(fd, TRAILER_SIZE, max(size - TRAILER_SIZE, 0)), size)


def read_footer(path: str | os.PathLike[str], ends: ShardEnds) -> dict[str, Any]:
    """The statistics at a shard's end: ``{"fields": [...], "plans": [...]}``, its checksum found right.

    Every field has a name, ``raw_bytes`` and ``stored_bytes``, how often it was ``present``, ``none`` and ``absent``,
    and what is known of its shapes. Samples are read without it.
    """
    where = os.fspath(path)
    with opened(path, "the shard") as fd:
        data = os.pread(fd, ends.footer_size, ends.footer_offset)
    found = _native.crc32c(data)
    if found != ends.footer_crc or len(data) != ends.footer_size:
        raise _damaged(where, "footer", ends.footer_offset, found, ends.footer_crc)
    try:
        footer = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{where}: the footer is JSON, but this is not: {error}") from None
    if not isinstance(footer, dict) or not isinstance(footer.get("fields"), list):
        raise FormatError(f"{where}: the footer is a JSON object with a list of fields, but this is not")
    return footer
