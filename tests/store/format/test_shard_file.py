"""The two ends of a shard: what they say, and that nothing wrong in them is believed."""

import os
import struct
from pathlib import Path

import pytest

from cordwood.errors import FormatError, StorageError
from cordwood.native import _native
from cordwood.store.format.shard_file import (
    HEADER_SIZE,
    TRAILER_SIZE,
    check_ends,
    pack_header,
    pack_trailer,
    read_ends,
    read_footer,
    shard_name,
)
from tests.store.support.photos import photo, write

FOOTER = b'{"fields": []}'
HEADER = pack_header(0x1122334455667788)
TRAILER = pack_trailer(HEADER_SIZE + 10, 3, 7, len(FOOTER), _native.crc32c(FOOTER), 99)
SIZE = HEADER_SIZE + 10 + 3 * 7 + len(FOOTER) + TRAILER_SIZE
SHARD = HEADER + bytes(10 + 3 * 7) + FOOTER + TRAILER


def changed(data: bytes, at: int, new: bytes) -> bytes:
    """Other bytes at a place, and the checksum at the end made to fit them."""
    body = bytearray(data)
    body[at : at + len(new)] = new
    return bytes(body[:-4]) + struct.pack("<I", _native.crc32c(bytes(body[:-4])))


def test_what_was_packed_is_read() -> None:
    ends = check_ends("here", HEADER, TRAILER, SIZE)
    assert (ends.schema_hash, ends.rows_offset, ends.count, ends.row_size) == (0x1122334455667788, 42, 3, 7)
    assert (ends.footer_size, ends.footer_offset, ends.rows_crc, ends.file_size) == (len(FOOTER), 63, 99, SIZE)
    assert ends.trailer_crc == int.from_bytes(TRAILER[-4:], "little")


def test_the_header_is_as_the_page_says() -> None:
    assert HEADER[:16] == b"CWSH\1\1\1\0" + bytes.fromhex("8877665544332211")
    assert TRAILER[40:44] == b"CWSE"
    assert shard_name(7) == "shard-00000007.cws"


@pytest.mark.parametrize("bit", range(0, 8 * (HEADER_SIZE + TRAILER_SIZE), 3))
def test_no_bit_of_the_ends_may_change(bit: int) -> None:
    both = bytearray(HEADER + TRAILER)
    both[bit // 8] ^= 1 << bit % 8
    with pytest.raises(FormatError, match="here"):
        check_ends("here", bytes(both[:HEADER_SIZE]), bytes(both[HEADER_SIZE:]), SIZE)


@pytest.mark.parametrize(
    ("header", "trailer", "size", "said"),
    [
        (changed(HEADER, 4, b"\2"), TRAILER, SIZE, "version 2.1"),
        (changed(HEADER, 6, b"\3"), TRAILER, SIZE, "flags 0x0003"),
        (HEADER, TRAILER, SIZE + 1, "cut short or grew"),
        (HEADER, changed(TRAILER, 0, b"\x1f"), SIZE, "does not make"),
        (HEADER, changed(TRAILER, 8, bytes(8)), SIZE, "0 rows"),
        (HEADER, changed(TRAILER, 8, b"\xff" * 8), SIZE, "does not make"),
        (HEADER, changed(TRAILER, 16, bytes(4)), SIZE, "rows of 0 bytes"),
        (HEADER, changed(TRAILER, 20, b"\xff" * 4), SIZE, "does not make"),
        (b"", b"", 0, "cut short"),
        (HEADER, TRAILER[:47], SIZE - 1, "cut short"),
    ],
)
def test_ends_that_cannot_be(header: bytes, trailer: bytes, size: int, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        check_ends("here", header, trailer, size)


def test_flags_that_may_be_passed_over_and_a_higher_minor_version_are_read() -> None:
    newer = changed(changed(HEADER, 7, b"\x80"), 5, b"\7")
    assert check_ends("here", newer, TRAILER, SIZE).count == 3


@pytest.mark.parametrize("size", [*range(0, SIZE, 7), SIZE - 1, SIZE + 1])
def test_a_file_of_another_size_is_refused(size: int, tmp_path: Path) -> None:
    path = tmp_path / "shard-00000000.cws"
    path.write_bytes((SHARD + b"\0")[:size])
    with pytest.raises(FormatError, match=r"shard-00000000\.cws"):
        read_ends(path)


def test_a_shard_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="the shard cannot be read"):
        read_ends(tmp_path / "shard-00000000.cws")


def test_a_pipe_in_the_place_of_a_shard_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "shard-00000000.cws")
    with pytest.raises(FormatError, match="not a regular file"):
        read_ends(tmp_path / "shard-00000000.cws")


@pytest.mark.parametrize("bad", [b"[]", b'{"fields": 1}', b"{", b"\xff\xff", b'{"a": "\xed\xa0\x80"}', b"[" * 100000])
def test_a_footer_that_is_none(bad: bytes, tmp_path: Path) -> None:
    path = tmp_path / "shard-00000000.cws"
    rest = bytes(31) + bad
    path.write_bytes(HEADER + rest + pack_trailer(42, 3, 7, len(bad), _native.crc32c(bad), 0))
    with pytest.raises(FormatError, match="the footer is"):
        read_footer(path, read_ends(path))


def test_the_footer_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "shard-00000000.cws"
    path.write_bytes(SHARD)
    assert read_footer(path, read_ends(path)) == {"fields": []}
    path.write_bytes(SHARD.replace(b"fields", b"fjelds"))
    with pytest.raises(FormatError, match="footer at byte 63"):
        read_footer(path, read_ends(path))


def test_the_ends_of_a_written_shard(tmp_path: Path) -> None:
    path = write(tmp_path / "s", [photo(i) for i in range(5)]) / shard_name(0)
    ends = read_ends(path)
    assert ends.count == 5
    data = path.read_bytes()
    rows = [data[at : at + ends.row_size] for at in range(ends.rows_offset, ends.footer_offset, ends.row_size)]
    assert _native.crc32c(b"".join(row[-4:] for row in rows)) == ends.rows_crc
