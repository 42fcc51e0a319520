"""Writing archives: equal to what other programs read, aligned, and the same bytes every time."""

import io
import shutil
import struct
import subprocess
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import UsageError
from cordwood.tensors.io import zip_writer
from cordwood.tensors.io.source import open_source
from cordwood.tensors.io.zip_reader import Archive
from cordwood.tensors.io.zip_writer import ZipWriter, combine_crc32, deflate

MANY = 4096  # blocks of 1 MiB: 4 GiB
BLOCK = bytes(1 << 20)
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0/\\"), min_size=1, max_size=20).filter(
    lambda name: name != ".."
)


def archive_of(data: bytes | bytearray) -> Archive:
    return Archive(open_source(io.BytesIO(data)))


class Sparse:
    """A file in which blocks of zeros are holes, so that it may be larger than the disk."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("wb")

    def write(self, data: bytes | memoryview) -> None:
        if len(data) == len(BLOCK):
            self.file.seek(len(data), io.SEEK_CUR)
        else:
            self.file.write(data)


def crc_of_zeros(blocks: int) -> int:
    crc = 0
    for _ in range(blocks):
        crc = combine_crc32(crc, ZEROS, len(BLOCK))
    return crc


ZEROS = zlib.crc32(BLOCK)


@given(st.dictionaries(NAMES, st.tuples(st.binary(max_size=500), st.booleans(), st.booleans()), max_size=8))
def test_what_is_written_is_read_by_us_and_by_zipfile(contents: dict[str, tuple[bytes, bool, bool]]) -> None:
    file = io.BytesIO()
    writer = ZipWriter(file.write)
    for name, (data, squeeze, align) in contents.items():
        if squeeze:
            pieces, crc = deflate(data)
            start = writer.add_deflated(name, pieces, len(data), crc)
        else:
            start = writer.add(name, data, align=align)
            assert file.getvalue()[start:] == data
            assert not align or start % 64 == 0
    writer.finish()
    assert writer.position == len(file.getvalue())

    archive = archive_of(file.getvalue())
    assert list(archive.entries) == list(contents)
    with zipfile.ZipFile(io.BytesIO(file.getvalue())) as other:
        assert other.testzip() is None
        assert len(other.infolist()) == len(contents)
        for name, (data, _, _) in contents.items():
            assert archive.read(archive.entries[name]) == data
            assert archive.check(archive.entries[name])
            assert other.read(name) == data


@pytest.mark.parametrize("alignment", [1, 2, 3, 64, 4096, 1 << 15])
def test_alignment(alignment: int) -> None:
    file = io.BytesIO()
    writer = ZipWriter(file.write, alignment=alignment)
    starts = [writer.add("n" * length, b"x" * length) for length in range(1, 130)]
    writer.finish()
    assert all(start % alignment == 0 for start in starts)
    with zipfile.ZipFile(io.BytesIO(file.getvalue())) as other:
        assert other.testzip() is None


def test_the_bytes_are_as_the_format_says() -> None:
    file = io.BytesIO()
    writer = ZipWriter(file.write, alignment=16)
    writer.add("a", b"hello")
    writer.finish()
    common = b"\x00\x08\x00\x00\x00\x00\x21\x00\x86\xa6\x10\x36\x05\x00\x00\x00\x05\x00\x00\x00\x01\x00"
    local = b"PK\x03\x04\x14\x00" + common + b"\x11\x00a" + b"FB\x0d\x00" + b"Z" * 13 + b"hello"
    central = b"PK\x01\x02\x2d\x00\x14\x00" + common + bytes(16) + b"a"
    assert len(local) == 48 + 5
    end = b"PK\x05\x06\x00\x00\x00\x00\x01\x00\x01\x00" + struct.pack("<IIH", len(central), len(local), 0)
    assert file.getvalue() == local + central + end


def test_several_pieces_are_one_entry_and_arrays_are_buffers() -> None:
    file = io.BytesIO()
    writer = ZipWriter(file.write)
    numbers = np.arange(12, dtype=np.float32).reshape(3, 4)
    writer.add("x", [b"abc", b"", numbers[:0], numbers, memoryview(b"de")])
    writer.add("y", numbers)
    writer.add("z", numbers)
    writer.add("empty", [])
    writer.finish()
    archive = archive_of(file.getvalue())
    assert archive.read(archive.entries["x"]) == b"abc" + numbers.tobytes() + b"de"
    assert archive.read(archive.entries["y"]) == archive.read(archive.entries["z"]) == numbers.tobytes()
    assert archive.read(archive.entries["empty"]) == b""
    assert all(map(archive.check, archive.entries.values()))


def test_equal_contents_give_equal_bytes() -> None:
    def written() -> bytes:
        file = io.BytesIO()
        writer = ZipWriter(file.write)
        writer.add("a", b"x" * 1000)
        pieces, crc = deflate(b"y" * 5_000_000)
        writer.add_deflated("b", pieces, 5_000_000, crc)
        writer.finish()
        return file.getvalue()

    assert written() == written()


def test_torch_reads_it(tmp_path: Path) -> None:
    data, compressible = np.arange(1000, dtype=np.int64), np.zeros(3_000_000, np.uint8)
    with (tmp_path / "x.pt").open("wb") as file:
        writer = ZipWriter(file.write)
        writer.add("x/data.pkl", b"not looked at")
        start = writer.add("x/data/0", data)
        pieces, crc = deflate(compressible)
        writer.add_deflated("x/data/1", pieces, compressible.nbytes, crc)
        writer.add("x/version", b"3\n")
        writer.finish()
    reader: Any = torch._C.PyTorchFileReader(str(tmp_path / "x.pt"))
    assert reader.get_record("data/0") == data.tobytes()
    assert reader.get_record("data/1") == compressible.tobytes()
    assert reader.get_record_offset("data/0") == start


@pytest.mark.skipif(shutil.which("unzip") is None, reason="unzip is not installed")
def test_unzip_finds_no_fault(tmp_path: Path) -> None:
    with (tmp_path / "x.zip").open("wb") as file:
        writer = ZipWriter(file.write)
        writer.add("x/stored", b"x" * 100)
        pieces, crc = deflate(b"y" * 3_000_000)
        writer.add_deflated("x/deflated", pieces, 3_000_000, crc)
        writer.finish()
    done = subprocess.run(["unzip", "-t", str(tmp_path / "x.zip")], capture_output=True, text=True, check=True)
    assert "No errors detected" in done.stdout


def test_entries_and_offsets_beyond_4_gib(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    sparse = Sparse(path)
    writer = ZipWriter(sparse.write)
    writer.add("x/data.pkl", b"first")
    large = writer.add("x/data/0", [BLOCK] * MANY)
    behind = writer.add("x/version", b"3\n")
    writer.finish()
    sparse.file.close()
    assert behind > 1 << 32

    with open_source(path) as source:
        archive = Archive(source)
        assert {name: entry.size for name, entry in archive.entries.items()} == {
            "x/data.pkl": 5,
            "x/data/0": 1 << 32,
            "x/version": 2,
        }
        assert archive.start(archive.entries["x/data/0"]) == large
        assert archive.read(archive.entries["x/version"]) == b"3\n"
        assert Archive.recover(source).entries == archive.entries
    with zipfile.ZipFile(path) as other:
        assert other.read("x/version") == b"3\n"
        info = other.getinfo("x/data/0")
        assert (info.file_size, info.compress_size, info.CRC) == (1 << 32, 1 << 32, crc_of_zeros(MANY))
        with other.open(info) as file:
            assert file.read(100) == bytes(100)
    reader: Any = torch._C.PyTorchFileReader(str(path))
    assert reader.get_record("version") == b"3\n"
    assert reader.get_record_offset("data/0") == large


@pytest.mark.parametrize("alignment", [1, 64, 100])
def test_torch_computes_the_offsets_also_beyond_4_gib(alignment: int, tmp_path: Path) -> None:
    """From the sizes alone, as its own writer puts them, headers and descriptors with 64 bits included."""
    path = tmp_path / "x.pt"
    sparse = Sparse(path)
    writer = ZipWriter(sparse.write, alignment=alignment, like_torch=True)
    sizes = [100, 0, 3 << 30, 5, (1 << 32) + 7, 0, 9]
    starts = []
    for number, size in enumerate(sizes):
        whole, rest = divmod(size, len(BLOCK))
        starts.append(writer.add(f"x/data/{number}", [BLOCK] * whole + [b"r" * rest]))
    writer.add("x/version", b"3\n")
    writer.finish()
    sparse.file.close()
    reader: Any = torch._C.PyTorchFileReader(str(path))
    cursor = 0
    for number, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        assert reader.get_record_offset(f"data/{number}") == start
        assert reader.get_record_offset_no_read(cursor, f"data/{number}", size, alignment) == start
        wide = cursor >= 0xFFFFFFFF or size >= 0xFFFFFFFF
        cursor = start + size + (24 if wide else 16) * bool(size)
    with open_source(path) as source:
        archive = Archive(source)
        assert [entry.size for entry in archive.entries.values()] == [*sizes, 2]
        assert Archive.recover(source).entries == archive.entries
    with zipfile.ZipFile(path) as other:
        assert other.read("x/data/6") == b"r" * 9


@pytest.mark.slow
@pytest.mark.parametrize("count", [65534, 65535, 65536])
def test_more_entries_than_16_bits_can_count(count: int) -> None:
    file = io.BytesIO()
    writer = ZipWriter(file.write, alignment=1)
    for index in range(count):
        writer.add(f"{index}", b"")
    writer.finish()
    assert (b"PK\x06\x06" in file.getvalue()) == (count >= 65535)
    assert len(archive_of(file.getvalue()).entries) == count
    with zipfile.ZipFile(io.BytesIO(file.getvalue())) as other:
        assert len(other.namelist()) == count


def test_what_cannot_be_written_is_refused() -> None:
    writer = ZipWriter(io.BytesIO().write)
    writer.add("a", b"")
    for name in ("a", "", "/a", "../a", "a/..", "a\0b", "C:\\a", "x" * 65536):
        with pytest.raises(UsageError):
            writer.add(name, b"")
    with pytest.raises(UsageError, match="not contiguous"):
        writer.add("b", np.zeros((4, 4))[:, 1])
    for alignment in (0, -4, 1 << 16):
        with pytest.raises(UsageError, match="between 1 and 32768"):
            ZipWriter(io.BytesIO().write, alignment=alignment)


@given(st.binary(max_size=3000), st.sampled_from([0, 1, 6, 9]), st.integers(1, 4))
def test_deflate_inflates_to_the_same(data: bytes, level: int, repeat: int) -> None:
    data *= repeat
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zip_writer, "_CHUNK", 700)
        pieces, crc = deflate(data, level, threads=1)
        assert deflate(data, level, threads=3) == (pieces, crc)
    assert crc == zlib.crc32(data)
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    assert stream.decompress(b"".join(pieces)) == data
    assert stream.eof
    assert stream.unused_data == b""


def test_a_chunk_refers_to_the_one_before_it() -> None:
    noise = np.random.default_rng(0).integers(0, 256, 30_000, np.uint8).tobytes()
    data = noise * 70  # repeats within deflate's window: only the first of them costs anything
    together = sum(map(len, deflate(data)[0]))
    assert len(data) > 2 * (1 << 20) - 100_000
    assert together < len(noise) + len(data) // 100


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_checksums_of_parts_make_that_of_the_whole(first: bytes, second: bytes) -> None:
    assert combine_crc32(zlib.crc32(first), zlib.crc32(second), len(second)) == zlib.crc32(first + second)


def streamed(*contents: tuple[str, bytes]) -> bytes:
    file = io.BytesIO()
    writer = ZipWriter(file.write)
    for name, data in contents:
        start = writer.add_deflating(name, data)
        assert zlib.decompressobj(-15).decompress(file.getvalue()[start:]) == data
    writer.add("plain", b"behind")
    writer.finish()
    return file.getvalue()


@given(st.lists(st.binary(max_size=300), max_size=4))
def test_what_is_deflated_as_it_is_written_is_read_by_us_and_by_zipfile(contents: list[bytes]) -> None:
    data = streamed(*((f"entry {number}", content) for number, content in enumerate(contents)))
    with zipfile.ZipFile(io.BytesIO(data)) as theirs:
        assert theirs.testzip() is None
        assert [theirs.read(name) for name in theirs.namelist()] == [*contents, b"behind"]
    ours = archive_of(data)
    assert [ours.read(entry) for entry in ours.entries.values()] == [*contents, b"behind"]
    assert all(ours.check(entry) for entry in ours.entries.values())


def test_several_chunks_are_deflated_as_they_are_written_into_one_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_writer, "_CHUNK", 1000)
    monkeypatch.setattr(zip_writer, "_PIECES_AT_ONCE", 3)
    data = bytes(range(256)) * 50
    ours = archive_of(streamed(("x/data/0", data)))
    assert ours.read(ours.entries["x/data/0"]) == data
    pieces, crc = deflate(data)
    assert crc == zlib.crc32(data)
    assert len(pieces) == 13


def test_an_archive_deflated_as_it_was_written_is_recovered_without_its_directory() -> None:
    data = streamed(("a", b"first" * 100), ("b", b"second" * 100))
    recovered = Archive.recover(open_source(io.BytesIO(data[: data.index(b"PK\1\2")])))
    assert [recovered.read(entry) for entry in recovered.entries.values()] == [
        b"first" * 100,
        b"second" * 100,
        b"behind",
    ]


def test_the_descriptor_of_a_huge_entry_has_wide_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_writer, "MAX32", 0xFFFF)
    data = streamed(("huge", bytes(70_000)))
    at = data.index(b"PK\x07\x08")
    crc, stored, size = struct.unpack_from("<IQQ", data, at + 4)
    assert (crc, size) == (zlib.crc32(bytes(70_000)), 70_000)
    assert 0 < stored < 1000


def test_torch_reads_what_is_deflated_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    with path.open("wb") as file:
        writer = ZipWriter(file.write)
        writer.add_deflating("x/data/0", bytes(5000))
        writer.add("x/version", b"3\n")
        writer.finish()
    assert torch._C.PyTorchFileReader(str(path)).get_record("data/0") == bytes(5000)
