"""Sources: the same bytes at every offset, whatever they come from, and never a byte beyond the end."""

import bz2
import gzip
import io
import lzma
import os
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import FormatError, Reason, UsageError
from cordwood.tensors.io import source as module
from cordwood.tensors.io.source import ByteSource, open_source

DATA = bytes(range(256)) * 40


class Unseekable(io.RawIOBase):
    """A pipe or a socket: what was read is gone."""

    def __init__(self, data: bytes) -> None:
        self.inner = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self.inner.readinto(buffer)


class Foreign:
    """A file object of somebody else's making, whose reads are short and whose seek returns nothing."""

    def __init__(self, data: bytes) -> None:
        self.inner = io.BytesIO(data)

    def read(self, size: int = -1) -> bytes:
        return self.inner.read(min(size, 100) if size >= 0 else size)

    def seek(self, offset: int, whence: int = 0) -> None:
        self.inner.seek(offset, whence)

    def tell(self) -> int:
        return self.inner.tell()


class ForeignInto(Foreign):
    """The same, which can fill a buffer, and is to be read in no other way."""

    def read(self, size: int = -1) -> bytes:
        assert size == 0
        return b""

    def readinto(self, buffer: Any) -> int:
        return self.inner.readinto(memoryview(buffer)[:100])


def in_a_zip() -> Any:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x", DATA)
    return zipfile.ZipFile(packed).open("x")


def written(path: Path, data: bytes = DATA) -> Path:
    path.write_bytes(data)
    return path


def temporary() -> Any:
    file = tempfile.NamedTemporaryFile()  # noqa: SIM115, the test closes it
    file.write(DATA)
    file.seek(0)
    return file


KINDS: dict[str, Callable[[Path], Any]] = {
    "str": lambda path: str(written(path)),
    "bytes": lambda path: os.fsencode(written(path)),
    "Path": written,
    "BytesIO": lambda path: io.BytesIO(DATA),
    "bytearray": lambda path: bytearray(DATA),
    "memoryview": lambda path: memoryview(DATA),
    "wide memoryview": lambda path: memoryview(DATA).cast("I"),
    "file": lambda path: written(path).open("rb"),
    "raw file": lambda path: written(path).open("rb", buffering=0),
    "file open for both": lambda path: written(path).open("r+b"),
    "temporary file": lambda path: temporary(),
    "foreign": lambda path: Foreign(DATA),
    "foreign, with readinto": lambda path: ForeignInto(DATA),
    "unseekable": lambda path: Unseekable(DATA),
    "buffered unseekable": lambda path: io.BufferedReader(Unseekable(DATA)),
    "gzip": lambda path: gzip.GzipFile(written(path, gzip.compress(DATA))),
    "buffered gzip": lambda path: io.BufferedReader(gzip.GzipFile(written(path, gzip.compress(DATA)))),
    "bz2": lambda path: bz2.BZ2File(written(path, bz2.compress(DATA))),
    "lzma": lambda path: lzma.LZMAFile(written(path, lzma.compress(DATA))),  # noqa: SIM115, the test closes it
    "in a zip": lambda path: in_a_zip(),
}
ON_DISK = {"str", "bytes", "Path", "file", "raw file", "file open for both"}


@pytest.fixture(params=["read whole", "read piece by piece"])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Both ways to read files, by what counts as a small one."""
    size = 1 << 20 if request.param == "read whole" else 100
    monkeypatch.setattr(module, "_SMALL", size)
    return size


def close(thing: Any) -> None:
    if hasattr(thing, "close"):
        thing.close()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_reads_the_same(kind: str, tmp_path: Path) -> None:
    thing = KINDS[kind](tmp_path / "x.pt")
    with open_source(thing) as source:
        assert source.size == len(DATA)
        assert bytes(source.read(300, 1000)) == DATA[300:1300]
        assert bytes(source.read(0, source.size)) == DATA
        assert bytes(source.read(source.size, 0)) == b""
        assert bytes(source.map()) == DATA
        assert source.map().readonly
        buffer = bytearray(500)
        source.read_into(len(DATA) - 500, memoryview(buffer))
        assert buffer == DATA[-500:]
        part = source.part(1000, 2000, "part of x")
        assert (part.size, part.name) == (2000, "part of x")
        assert bytes(part.read(10, 20)) == DATA[1010:1030]
        assert bytes(part.part(5, 10, "deeper").read(0, 10)) == DATA[1005:1015]
        assert bytes(part.map()) == DATA[1000:3000]
        part.close()
        assert bytes(source.read(0, 4)) == DATA[:4]
        assert (source.path is not None) == (kind in ON_DISK)
        if source.path is not None and part.path is not None:
            assert Path(source.path).samefile(tmp_path / "x.pt")
            assert Path(part.path).read_bytes()[part.base : part.base + part.size] == bytes(part.read(0, part.size))
    close(thing)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("offset", "length"), [(0, 1 << 62), (10_240, 1), (10_000, 241), (-1, 5), (5, -1), (1 << 70, 1)]
)
def test_beyond_the_end_is_an_error_that_says_where(kind: str, offset: int, length: int, tmp_path: Path) -> None:
    thing = KINDS[kind](tmp_path / "x.pt")
    with open_source(thing) as source:
        calls: list[Callable[[ByteSource], object]] = [
            lambda source: source.read(offset, length),
            lambda source: source.part(offset, length, "part"),
        ]
        if 0 <= length < 1000:
            calls.append(lambda source: source.read_into(offset, memoryview(bytearray(length))))
        for call in calls:
            with pytest.raises(FormatError) as raised:
                call(source)
            assert raised.value.reason == Reason.TRUNCATED
            assert source.name in str(raised.value)
            assert f"offset {offset}, expected {length}" in str(raised.value)
            assert f"the file has {len(DATA)} bytes" in str(raised.value)
    close(thing)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "kind", ["BytesIO", "file", "raw file", "file open for both", "temporary file", "foreign", "gzip", "in a zip"]
)
def test_a_file_object_starts_where_it_stands(kind: str, tmp_path: Path) -> None:
    file = KINDS[kind](tmp_path / "x.pt")
    file.read(16)
    file.seek(700)
    with open_source(file) as source:
        assert source.size == len(DATA) - 700
        assert bytes(source.read(0, 10)) == DATA[700:710]
        assert bytes(source.map()[:10]) == DATA[700:710]
        assert source.base == (700 if source.path else 0)
    file.seek(len(DATA) + 10)
    with open_source(file) as source:
        assert source.size == 0
    close(file)


@pytest.mark.parametrize("kind", ["unseekable", "gzip", "buffered gzip", "bz2", "lzma", "in a zip"])
def test_a_compressed_stream_is_inflated_once(kind: str, tmp_path: Path) -> None:
    file = KINDS[kind](tmp_path / "x.pt")
    source = open_source(file)
    file.close()
    assert bytes(source.read(5000, 100)) == DATA[5000:5100]
    assert bytes(source.read(0, 100)) == DATA[:100]


@given(st.binary(max_size=300), st.integers(0, 310), st.integers(0, 310))
def test_memory_and_files_agree_with_slices(data: bytes, offset: int, length: int) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        for thing in (io.BytesIO(data), file.name):
            with open_source(thing) as source:
                if offset + length <= len(data):
                    assert bytes(source.read(offset, length)) == data[offset : offset + length]
                else:
                    with pytest.raises(FormatError):
                        source.read(offset, length)


def test_a_file_cut_short_under_the_reader_is_no_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SMALL", 100)
    path = written(tmp_path / "x.pt")
    with open_source(path) as source:
        os.truncate(path, 5000)
        assert bytes(source.read(0, 5000)) == DATA[:5000]
        with pytest.raises(FormatError, match="found 1000 bytes at offset 4000, expected 2000") as raised:
            source.read(4000, 2000)
        assert raised.value.reason == Reason.TRUNCATED
    with open_source(written(path)) as source:
        os.truncate(path, 5000)
        with pytest.raises(FormatError, match="expected 10240"):
            source.map()


def test_large_reads_are_split(tmp_path: Path, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", 999)
    for thing in (written(tmp_path / "x"), Foreign(DATA)):
        with open_source(thing) as source:
            assert bytes(source.read(1, 9000)) == DATA[1:9001]


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("small", "eager_threads")
def test_threads_share_a_source(tmp_path: Path) -> None:
    wrong: list[int] = []

    def look(source: ByteSource, seed: int) -> None:
        for step in range(200):
            offset = (seed * 7919 + step * 104_729) % (len(DATA) - 50)
            if bytes(source.read(offset, 50)) != DATA[offset : offset + 50]:
                wrong.append(offset)

    for thing in (written(tmp_path / "x"), Foreign(DATA)):
        with open_source(thing) as source:
            threads = [threading.Thread(target=look, args=(source, seed)) for seed in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    assert wrong == []


def test_a_mapping_outlives_its_source(tmp_path: Path, small: int) -> None:
    with open_source(written(tmp_path / "x")) as source:
        view = source.map()
        part = source.part(0, 100, "part")
        assert source.map() == view
    assert bytes(view) == DATA
    if small == 100:
        with pytest.raises(UsageError, match="closed"):
            part.read(0, 1)
        with pytest.raises(UsageError, match="closed"):
            source.map()


def test_the_callers_file_is_left_alone(tmp_path: Path, small: int) -> None:
    with written(tmp_path / "x").open("rb") as file:
        file.seek(5)
        source = open_source(file)
        source.read(0, 2000)
        source.close()
        source.close()
        assert file.tell() == 5
        assert file.read(3) == DATA[5:8]
        kept = open_source(file)
    with kept:  # closed meanwhile by its owner, and still there for us
        assert bytes(kept.read(0, 3)) == DATA[8:11]


@pytest.mark.usefixtures("small")
def test_a_file_that_was_renamed_has_no_path(tmp_path: Path) -> None:
    with written(tmp_path / "x").open("rb") as file:
        (tmp_path / "x").rename(tmp_path / "y")
        assert open_source(file).path is None
        written(tmp_path / "x")
        with open_source(file) as source:
            assert source.path is None
            assert bytes(source.read(0, 3)) == DATA[:3]


def test_a_file_object_from_a_descriptor_has_no_path(tmp_path: Path) -> None:
    with os.fdopen(os.open(written(tmp_path / "x"), os.O_RDONLY), "rb") as file, open_source(file) as source:
        assert source.path is None
        assert source.size == len(DATA)


def test_a_pipe_with_a_path_is_read_to_its_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(DATA,))
    writer.start()
    with open_source(tmp_path / "pipe") as source:
        assert source.path is None
        assert bytes(source.read(0, source.size)) == DATA
    writer.join()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc here")
def test_a_file_that_claims_to_be_empty_is_read() -> None:
    with open_source("/proc/self/status") as source:
        assert bytes(source.read(0, 5)) == b"Name:"


def test_an_empty_file_is_empty(tmp_path: Path) -> None:
    with open_source(written(tmp_path / "x", b"")) as source:
        assert source.size == 0
        assert bytes(source.map()) == b""


def test_names_are_for_people(tmp_path: Path) -> None:
    path = written(tmp_path / "x.pt")
    assert open_source(path).name == str(path)
    with path.open("rb") as file:
        assert open_source(file).name == str(path)
    assert open_source(io.BytesIO(DATA)).name == "<BytesIO>"
    assert open_source(bytearray(DATA)).name == "<memory>"
    assert repr(open_source(bytearray(10))) == "<_Memory <memory>, 10 bytes>"


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    path = written(tmp_path / "x.pt")
    with pytest.raises(FileNotFoundError):
        open_source(tmp_path / "none")
    with pytest.raises(UsageError, match="is a folder: name a file in it"):
        open_source(tmp_path)
    with pytest.raises(UsageError, match=r"io\.BytesIO"):
        open_source(DATA)
    with path.open() as text, pytest.raises(UsageError, match="mode 'rb'"):
        open_source(text)
    with pytest.raises(UsageError, match="mode 'rb'"):
        open_source(io.StringIO("text"))
    with path.open("wb") as writing, pytest.raises(UsageError, match="for writing only"):
        open_source(writing)
    with pytest.raises(UsageError, match="neither a path nor a file object"):
        open_source(7)
    with pytest.raises(UsageError, match="not contiguous"):
        open_source(memoryview(DATA)[::2])

    class Liar(Foreign):
        def read(self, size: int = -1) -> Any:
            return "text"

    with pytest.raises(UsageError, match="returned str, expected bytes"):
        open_source(Liar(DATA))
