"""Reads and checks the directory of a zip archive, or its local headers if the directory is lost.

    entries, end = read_directory(source)

Bytes that nobody vouches for: every count, size and offset must fit the file, names must be unique and harmless, and no
two entries may share bytes. The layout is that of PKWARE's APPNOTE, sections 4.3 and 4.5.3.
"""

import re
import struct
from dataclasses import dataclass
from typing import Final

from cordwood.errors import FormatError, Reason
from cordwood.tensors.io.source import ByteSource

STORED: Final = 0
DEFLATED: Final = 8
LOCAL: Final = struct.Struct("<4s5H3I2H")
CENTRAL: Final = struct.Struct("<4s6H3I5H2I")
END: Final = struct.Struct("<4s4H2IH")
END64: Final = struct.Struct("<4sQ2H2I4Q")
LOCATOR: Final = struct.Struct("<4sIQI")
DESCRIPTOR32: Final = struct.Struct("<4s3I")
DESCRIPTOR64: Final = struct.Struct("<4sI2Q")
LOCAL_SIGNATURE: Final = b"PK\x03\x04"
CENTRAL_SIGNATURE: Final = b"PK\x01\x02"
END_SIGNATURE: Final = b"PK\x05\x06"
END64_SIGNATURE: Final = b"PK\x06\x06"
LOCATOR_SIGNATURE: Final = b"PK\x06\x07"
DESCRIPTOR_SIGNATURE: Final = b"PK\x07\x08"
UTF8: Final = 1 << 11  # flag: the name is UTF-8, else code page 437
DESCRIPTOR: Final = 1 << 3  # flag: crc and sizes follow the data; the local header may leave them 0
ZIP64_EXTRA: Final = 1
MAX16: Final = 0xFFFF
MAX32: Final = 0xFFFFFFFF

_LONGEST_COMMENT = MAX16
_PIECE = 1 << 18  # bytes that are searched at a time
# Empty, absolute (also the Windows way), with a zero byte, or with a step up.
_TRAP = re.compile(r"\A\Z|\A[/\\]|\A[A-Za-z]:[/\\]|\0|(?:\A|[/\\])\.\.(?:[/\\]|\Z)")


@dataclass(slots=True)
class ZipEntry:
    """One file in an archive, as the central directory tells it."""

    name: str
    method: int  # STORED, DEFLATED or another that we do not read
    size: int  # bytes of the contents
    stored: int  # bytes in the archive
    crc: int
    header: int  # offset of the local header
    flags: int

    @property
    def raw_name(self) -> bytes:
        """The name as it stands in the archive."""
        return self.name.encode("utf-8" if self.flags & UTF8 else "cp437")

    def __str__(self) -> str:
        return f"{shown(self.name)} at offset {self.header}"


def shown(name: str | bytes) -> str:
    """A name for a message: quoted, and not longer than a message should be."""
    return repr(name) if len(name) <= 100 else f"{name[:100]!r}..."


def trap_in_name(name: str) -> bool:
    """Whether the name would lead out of a folder, or hide something, if it were used as a path."""
    return _TRAP.search(name) is not None


def read_directory(source: ByteSource) -> tuple[dict[str, ZipEntry], int]:
    """The entries by name, in the directory's order, and the offset at which they end and the directory starts."""
    count, size, offset = _find_directory(source)
    return _read_entries(source, count, size, offset), offset


def _find_directory(source: ByteSource) -> tuple[int, int, int]:
    """Number of entries, bytes and offset of the central directory."""
    end, fields = _find_end(source)
    disk, first_disk, here, count, size, offset = fields
    if end >= LOCATOR.size + END64.size:
        locator = source.read(end - LOCATOR.size, LOCATOR.size)
        if locator[:4] == LOCATOR_SIGNATURE:
            fields64, end = _read_end64(source, locator, end - LOCATOR.size)
            for found, wide, most in zip(fields, fields64, (MAX16, MAX16, MAX16, MAX16, MAX32, MAX32), strict=True):
                if found not in (wide, most):
                    raise FormatError(
                        f"{source.name}: found {found} in the end record and {wide} in the zip64 end record at offset "
                        f"{end}, expected the same: the archive is damaged."
                    )
            disk, first_disk, here, count, size, offset = fields64
    if disk or first_disk or here != count:
        raise FormatError(
            f"{source.name}: found part {disk} of an archive of several files, expected a single one: join them."
        )
    if offset + size != end:
        if offset + size > end:
            what = f"it starts at offset {offset} and has {size} bytes, but must end at {end}"
        else:
            what = f"it ends at offset {offset + size} and not at {end}: something was put before or into the archive"
        raise FormatError(f"{source.name}: found a central directory that does not fit: {what}.")
    if count * CENTRAL.size > size:
        raise FormatError(
            f"{source.name}: found {count} entries in a central directory of {size} bytes at offset {offset}, expected "
            f"at most {size // CENTRAL.size}."
        )
    return count, size, offset


def _find_end(source: ByteSource) -> tuple[int, tuple[int, ...]]:
    """The offset of the end record, and its fields without the comment."""
    size = source.size
    length = min(size, END.size)
    while True:
        tail = bytes(source.read(size - length, length))
        at = tail.rfind(END_SIGNATURE, 0, max(0, length - END.size + 4))
        while at >= 0:
            _, *fields, comment = END.unpack_from(tail, at)
            if at + END.size + comment == length:
                return size - length + at, tuple(fields)
            at = tail.rfind(END_SIGNATURE, 0, at + 3)
        if length == min(size, END.size + _LONGEST_COMMENT):
            raise FormatError(
                f"{source.name}: found no end record in the last {length} bytes, expected one (of a zip archive) with "
                "nothing behind it. The file was cut short or is damaged: fetch or write it again.",
                Reason.TRUNCATED,
            )
        length = min(size, END.size + _LONGEST_COMMENT)


def _read_end64(source: ByteSource, locator: bytes | memoryview, end: int) -> tuple[tuple[int, ...], int]:
    """The fields of the zip64 end record in the order of the plain one, and its offset."""
    _, disk, at, disks = LOCATOR.unpack(locator)
    if disk or disks > 1:
        raise FormatError(
            f"{source.name}: found part {disk} of {disks} of an archive, expected a single file: join them."
        )
    if at + END64.size > end:
        raise FormatError(
            f"{source.name}: found the zip64 end record at offset {at}, expected it before {end - END64.size}."
        )
    signature, length, _, _, *fields = END64.unpack(source.read(at, END64.size))
    if signature != END64_SIGNATURE or at + 12 + length != end:
        raise FormatError(
            f"{source.name}: found {signature!r} and a length of {length} at offset {at}, expected a zip64 end record, "
            f"{END64_SIGNATURE!r}, of {end - at - 12}."
        )
    return tuple(fields), at


def _read_entries(source: ByteSource, count: int, size: int, offset: int) -> dict[str, ZipEntry]:
    directory = source.read(offset, size)
    entries: dict[str, ZipEntry] = {}
    in_order, last_end, at = True, 0, 0
    unpack, fixed = CENTRAL.unpack_from, CENTRAL.size
    for index in range(count):
        if at + fixed > size:
            raise FormatError(f"{source.name}: found {index} entries in the central directory, expected {count}.")
        (signature, _, _, flags, method, _, _, crc, stored, length, name_length, extra_length, comment_length, disk,
         _, _, header) = unpack(directory, at)  # fmt: skip
        name_at = at + fixed
        extra_at = name_at + name_length
        following = extra_at + extra_length + comment_length
        if signature != CENTRAL_SIGNATURE or following > size:
            raise FormatError(
                f"{source.name}: found {signature!r} and {following - at} bytes at offset {offset + at}, expected "
                f"entry {index} of {count} of the central directory, {CENTRAL_SIGNATURE!r}, and at most {size - at}."
            )
        raw = bytes(directory[name_at:extra_at])
        try:
            name = raw.decode("utf-8" if flags & UTF8 else "cp437")
        except UnicodeDecodeError:
            raise FormatError(f"{source.name}: found the name {shown(raw)} of entry {index}, expected UTF-8.") from None
        if _TRAP.search(name) or name in entries:
            what = "twice" if name in entries else "which would be a trap as a path"
            raise FormatError(
                f"{source.name}: found the name {shown(name)} {what} at offset {offset + at}, entry {index}."
            )
        if MAX32 in (length, stored, header):
            wide = _widen(bytes(directory[extra_at : extra_at + extra_length]), (length, stored, header))
            if wide is None:
                raise FormatError(
                    f"{source.name}: {shown(name)}: found no zip64 sizes and offset in the {extra_length} bytes at "
                    f"offset {offset + extra_at}, expected them there."
                )
            length, stored, header = wide
        if disk:
            raise FormatError(f"{source.name}: {shown(name)}: found part {disk} of an archive, expected a single file.")
        end = header + LOCAL.size + name_length + stored
        in_order = in_order and header >= last_end
        last_end = end
        entries[name] = ZipEntry(name, method, length, stored, crc, header, flags)
        at = following
    if at != size:
        raise FormatError(
            f"{source.name}: found {size - at} bytes after entry {count} of the central directory, expected none."
        )
    if not in_order or last_end > offset:
        _check_apart(source, entries, offset)
    return entries


def _widen(extra: bytes, fields: tuple[int, ...]) -> tuple[int, ...] | None:
    """Fields that are too large for 32 bits, from the zip64 extra field; None if that does not have them."""
    if MAX32 not in fields:
        return fields
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        at += 4
        if kind == ZIP64_EXTRA:
            wide = iter(struct.unpack_from(f"<{min(length, len(extra) - at) // 8}Q", extra, at))
            try:
                return tuple(next(wide) if field == MAX32 else field for field in fields)
            except RuntimeError:  # what StopIteration becomes in a generator
                return None
        at += length
    return None


def _check_apart(source: ByteSource, entries: dict[str, ZipEntry], end: int) -> None:
    """Refuses entries that share bytes, by which a small archive inflates to a huge one."""
    in_order = sorted(entries.values(), key=lambda entry: entry.header)
    limits = [entry.header for entry in in_order[1:]] + [end]
    for entry, limit in zip(in_order, limits, strict=True):
        taken = entry.header + LOCAL.size + len(entry.raw_name) + entry.stored
        if taken > limit:
            raise FormatError(
                f"{source.name}: {entry}: found {entry.stored} bytes of data up to "
                f"offset {taken} at least, expected its end at {limit} or before, where the next thing starts: the "
                "archive is damaged or a bomb."
            )


def read_local_headers(source: ByteSource) -> dict[str, ZipEntry]:
    """What can be told without a directory: entries from the start on, as far as their headers are whole."""
    entries: dict[str, ZipEntry] = {}
    at: int | None = 0
    while at is not None:
        entry, at = _read_local(source, at)
        if entry is None or entry.name in entries or trap_in_name(entry.name):
            break
        entries[entry.name] = entry
    return entries


def _read_local(source: ByteSource, at: int) -> tuple[ZipEntry | None, int | None]:
    """The entry whose local header is at an offset, and the offset behind it; None where that cannot be told."""
    if at + LOCAL.size > source.size:
        return None, None
    fields = LOCAL.unpack(source.read(at, LOCAL.size))
    signature, _, flags, method, _, _, crc, stored, size, name_length, extra_length = fields
    start = at + LOCAL.size + name_length + extra_length
    if signature != LOCAL_SIGNATURE or start > source.size:
        return None, None
    names = bytes(source.read(at + LOCAL.size, name_length + extra_length))
    try:
        name = names[:name_length].decode("utf-8" if flags & UTF8 else "cp437")
    except UnicodeDecodeError:
        return None, None
    wide = _widen(names[name_length:], (size, stored))
    end: int | None
    if flags & DESCRIPTOR and wide == (0, 0):
        found = _find_descriptor(source, start, method)
        if found is not None:
            crc, stored, size, end = found
            return ZipEntry(name, method, size, stored, crc, at, flags), end
        # Cut short, then. torch tells the size of what has 4 GiB or more in the header after all: always of the
        # contents, of the stored bytes only what it knew at the time.
        wide, end = _widen(names[name_length:], (MAX32, MAX32)), None
        if wide is None:
            return None, None
        size, stored = wide[0], max(wide)
    elif wide is None:
        return None, None
    else:
        size, stored = wide
        end = start + stored
        if flags & DESCRIPTOR and end <= source.size:  # of 12 to 24 bytes, with or without a signature
            behind = bytes(source.read(end, min(DESCRIPTOR64.size + 4, source.size - end)))
            end += max(0, behind.find(LOCAL_SIGNATURE))
    return ZipEntry(name, method, size, stored, crc, at, flags), end


def _find_descriptor(source: ByteSource, start: int, method: int) -> tuple[int, int, int, int] | None:
    """Checksum, sizes and end of the descriptor behind data of unknown length.

    torch writes the sizes there and in the directory, nowhere else. Taken is one that tells just the distance to the
    start of its data, with a header or nothing behind it: data do not look so by chance.
    """
    for at in range(start, source.size, _PIECE):
        # So much more than a piece that a descriptor that starts in it is whole, and what is behind it can be seen.
        piece = bytes(source.read(at, min(_PIECE + DESCRIPTOR64.size + 2, source.size - at)))
        found = -1
        while (found := piece.find(DESCRIPTOR_SIGNATURE, found + 1, _PIECE + 3)) >= 0:
            for layout in (DESCRIPTOR32, DESCRIPTOR64):
                end = found + layout.size
                if end > len(piece):
                    continue
                _, crc, stored, size = layout.unpack_from(piece, found)
                fits = stored == at + found - start and (method != STORED or size == stored)
                if fits and b"PK".startswith(piece[end : end + 2]):
                    return crc, stored, size, at + end
    return None
