"""Reading archives: those of other programs as they are, and of damaged or hostile ones nothing but a FormatError."""

import io
import shutil
import struct
import subprocess
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood.errors import FormatError, Reason, UsageError
from cordwood.tensors.io import zip_directory
from cordwood.tensors.io.source import open_source
from cordwood.tensors.io.zip_directory import CENTRAL, DESCRIPTOR, DESCRIPTOR32, DESCRIPTOR64, END, LOCAL
from cordwood.tensors.io.zip_reader import Archive, ZipEntry, is_zip
from cordwood.tensors.io.zip_writer import ZipWriter

LONG = b"contents that repeat " * 50_000
CONTENTS = {"a/first": b"hello", "a/empty": b"", "a/long": LONG}
ZIP64 = 0xFFFFFFFF


def opened(data: bytes | bytearray) -> Archive:
    return Archive(open_source(io.BytesIO(data)))


def recovered(data: bytes) -> Archive:
    return Archive.recover(open_source(io.BytesIO(data)))


def contents(archive: Archive) -> dict[str, bytes]:
    return {name: archive.read(entry) for name, entry in archive.entries.items()}


def by_zipfile(method: int = zipfile.ZIP_STORED, comment: bytes = b"", stream: bool = False) -> bytes:
    file = io.BytesIO()

    class Forward:  # without seek, so that the sizes come after the data
        write, flush = file.write, file.flush

    with zipfile.ZipFile(Forward() if stream else file, "w", method) as archive:  # type: ignore[call-overload]
        for name, data in CONTENTS.items():
            archive.writestr(name, data)
        archive.comment = comment
    return file.getvalue()


def by_torch() -> bytes:
    file = io.BytesIO()
    torch.save({"a": torch.arange(100), "b": torch.zeros(0), "c": torch.ones(70)}, file)
    return file.getvalue()


def small(method: int = zipfile.ZIP_DEFLATED) -> bytearray:
    """Two entries and a comment; a few hundred bytes, so that each of them can be damaged."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("x/one", b"one one one one one one one one " * 3)
        archive.writestr("x/two", bytes(range(64)))
        archive.comment = b"!"
    return bytearray(file.getvalue())


def one(name: str = "x", data: bytes = b"data", **changes: int) -> bytes:
    """An archive with one stored entry, built by hand; `changes` are fields of either header that lie."""
    field = {"flags": 0, "method": 0, "crc": zlib.crc32(data), "stored": len(data), "size": len(data), "header": 0}
    field |= {"local_" + key: value for key, value in field.items()} | changes
    raw = name.encode()
    local = LOCAL.pack(b"PK\x03\x04", 20, field["local_flags"], field["local_method"], 0, 33, field["local_crc"],
                       field["local_stored"], field["local_size"], len(raw), 0)  # fmt: skip
    central = CENTRAL.pack(b"PK\x01\x02", 20, 20, field["flags"], field["method"], 0, 33, field["crc"],
                           field["stored"], field["size"], len(raw), 0, 0, 0, 0, 0, field["header"])  # fmt: skip
    before = local + raw + data
    return before + central + raw + END.pack(b"PK\x05\x06", 0, 0, 1, 1, len(central + raw), len(before), 0)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("comment", [b"", b"PK\x05\x06 a trap", b"x" * 65535])
def test_archives_of_zipfile(method: int, stream: bool, comment: bytes) -> None:
    data = by_zipfile(method, comment, stream)
    archive = opened(data)
    assert is_zip(data[:4])
    assert contents(archive) == CONTENTS
    assert not archive.is_recovered
    for entry in archive.entries.values():
        assert archive.check(entry)
        buffer = bytearray(entry.size)
        archive.read_into(entry, memoryview(buffer))
        assert buffer == CONTENTS[entry.name]
    assert {entry.method for entry in archive.entries.values()} == {method}


def test_archives_of_torch() -> None:
    data = by_torch()
    archive = opened(data)
    assert archive.read(archive.entries["archive/data/0"]) == torch.arange(100).numpy().tobytes()
    with zipfile.ZipFile(io.BytesIO(data)) as other:
        assert contents(archive) == {name: other.read(name) for name in other.namelist()}
    assert all(map(archive.check, archive.entries.values()))
    assert all(archive.start(entry) % 64 == 0 for entry in archive.entries.values())


@pytest.mark.skipif(shutil.which("zip") is None, reason="zip is not installed")
def test_archives_of_zip(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name, data in CONTENTS.items():
        (tmp_path / name).write_bytes(data)
    subprocess.run(["zip", "-qr", "x.zip", "a"], cwd=tmp_path, check=True)
    archive = opened((tmp_path / "x.zip").read_bytes())
    assert contents(archive) == {"a/": b"", **CONTENTS}


def test_names_in_both_encodings() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("größe/模型", b"x")
    assert contents(opened(file.getvalue())) == {"größe/模型": b"x"}
    old = one("xyz").replace(b"xyz", b"x\x94z")  # code page 437
    assert contents(opened(old)) == {"xöz": b"data"}


def test_an_archive_in_the_middle_of_a_file() -> None:
    file = io.BytesIO(b"before" + by_zipfile())
    file.seek(6)
    assert contents(Archive(open_source(file))) == CONTENTS


def test_an_empty_archive_is_one() -> None:
    file = io.BytesIO()
    ZipWriter(file.write).finish()
    assert is_zip(file.getvalue())
    assert opened(file.getvalue()).entries == {}


def test_what_is_no_archive_is_refused() -> None:
    for data in (b"", b"PK", b"x" * 22, bytes(100_000), b"PK\x05\x06" * 20_000):
        with pytest.raises(FormatError, match="<BytesIO>: found no end record"):
            opened(data)
        assert recovered(data).entries == {}
    assert not is_zip(b"")
    assert not is_zip(b"PK")


def patched(data: bytes | bytearray, at: int, layout: str, *values: int) -> bytes:
    patch = bytearray(data)
    struct.pack_into("<" + layout, patch, at % len(patch), *values)
    return bytes(patch)


def end_at(data: bytes | bytearray) -> int:
    return bytes(data).rindex(b"PK\x05\x06")


def with_directory(entries: list[bytes], before: bytes, count: int | None = None) -> bytes:
    directory = b"".join(entries)
    count = len(entries) if count is None else count
    return before + directory + END.pack(b"PK\x05\x06", 0, 0, count, count, len(directory), len(before), 0)


def overlapping() -> bytes:
    """Two names for the same bytes: the idea of the bombs that inflate to petabytes."""
    data = one("x", b"d" * 100)
    directory = data[data.index(b"PK\x01\x02") : end_at(data)]
    return with_directory([directory, directory[:-1] + b"y"], data[: data.index(b"PK\x01\x02")])


def quoting() -> bytes:
    """An entry whose local header has an extra field so long that its data are the next entry's."""
    first, second = one("x", b"d" * 100), one("y", b"e" * 100)
    cut = first.index(b"PK\x01\x02")
    directory = [first[cut : end_at(first)], patched(second[cut : end_at(second)], 42, "I", cut)]
    return with_directory(directory, patched(first[:cut], 28, "H", 60) + second[:cut])


def wide(extra: bytes) -> bytes:
    data = one("x", size=ZIP64, stored=ZIP64)
    cut = data.index(b"PK\x01\x02")
    return with_directory([patched(data[cut : end_at(data)], 30, "H", len(extra)) + extra], data[:cut])


# What is wrong -> an archive that is, and what the message says.
ARCHIVES: dict[str, tuple[Callable[[], bytes], str]] = {
    "cut": (lambda: bytes(small()[:-30]), "no end record"),
    "garbage behind": (lambda: bytes(small()) + b"x", "no end record"),
    "disk": (lambda: patched(one(), -18, "H", 1), "part 1 of an archive of several files"),
    "disk of the directory": (lambda: patched(one(), -16, "H", 1), "several files"),
    "entries on another disk": (lambda: patched(one(), -14, "H", 0), "several files"),
    "disk of an entry": (lambda: patched(one(), one().index(b"PK\x01\x02") + 34, "H", 2), "part 2 of an archive"),
    "too many": (lambda: patched(one(), -14, "HH", 9, 9), "9 entries in a central directory of 47 bytes"),
    "too few": (lambda: patched(one(), -14, "HH", 0, 0), "47 bytes after entry 0"),
    "size of the directory": (lambda: patched(one(), -10, "I", 10**9), "must end at 82"),
    "offset of the directory": (lambda: patched(one(), -6, "I", 10**9), "does not fit"),
    "offset of a large directory": (lambda: patched(one(), -6, "I", ZIP64), "does not fit"),
    "something before": (lambda: b"#!/bin/sh\n" + one(), "something was put before"),
    "no entry": (lambda: one().replace(b"PK\x01\x02", b"PK\x01\x03"), "expected entry 0 of 1"),
    "long name": (lambda: patched(one(), one().index(b"PK\x01\x02") + 28, "H", 999), "expected entry 0 of 1"),
    "long comment": (lambda: patched(one(), one().index(b"PK\x01\x02") + 32, "H", 999), "at most 47"),
    "fewer than told": (lambda: with_directory([one("x" * 60)[94:200]], one("x" * 60)[:94], 2), "found 1 entries"),
    "not UTF-8": (lambda: one("é", flags=1 << 11).replace("é".encode(), b"\xff\xff"), "expected UTF-8"),
    "twice": (lambda: with_directory([one()[35:82]] * 2, one()[:35]), "'x' twice"),
    "overlap": (overlapping, "damaged or a bomb"),
    "data in the directory": (lambda: one(stored=40, size=40), "expected its end at 35"),
    "beyond the file": (lambda: one(header=10**6), "expected its end at 35"),
    "no zip64": (lambda: wide(b""), "found no zip64 sizes"),
    "short zip64": (lambda: wide(struct.pack("<HHQ", 1, 8, 4)), "found no zip64 sizes"),
    "lying zip64": (lambda: wide(struct.pack("<HHQ", 1, 16, 4)), "found no zip64 sizes"),
    "broken extra": (lambda: wide(struct.pack("<HHQ", 7, 999, 4)), "found no zip64 sizes"),
    "huge": (lambda: wide(struct.pack("<HHQQ", 1, 16, 1 << 63, 1 << 63)), "damaged or a bomb"),
}  # fmt: skip
for trap in ("../x", "x/../y", "x/..", "..", "/etc/passwd", "\\x", "C:\\x", "c:/x", "..\\x", "x\\..\\y", "x\0y", ""):
    ARCHIVES[f"name {trap!r}"] = (lambda trap=trap: one(trap), "a trap as a path")  # type: ignore[misc]


@pytest.mark.parametrize("what", ARCHIVES)
def test_an_archive_that_cannot_be_meant_is_refused(what: str) -> None:
    make, message = ARCHIVES[what]
    with pytest.raises(FormatError, match=message) as raised:
        opened(make())
    assert str(raised.value).startswith("<BytesIO>: ")


def test_harmless_names_that_look_like_traps() -> None:
    for name in ("..x", "x..", "x/..y", "...", "x\\y", "a:b"):
        assert list(opened(one(name)).entries) == [name]


def test_zip64_where_it_is_needed_and_where_it_is_not() -> None:
    assert contents(opened(wide(struct.pack("<HHQQ", 1, 16, 4, 4)))) == {"x": b"data"}
    assert contents(opened(wide(b"\x07\x00\x02\x00xx" + struct.pack("<HHQQ", 1, 16, 4, 4)))) == {"x": b"data"}


@pytest.mark.parametrize(
    ("at", "layout", "value", "message"),
    [
        (-22 - 20 + 4, "I", 1, "part 1 of 1"),
        (-22 - 20 + 16, "I", 2, "part 0 of 2"),
        (-22 - 20 + 8, "Q", 1 << 62, "expected it before"),
        (-22 - 20 + 8, "Q", 5, "expected a zip64 end record"),
        (-22 - 20 - 56 + 4, "Q", 999, "a length of 999"),
        (-22 - 20 - 56 + 16, "I", 7, "expected the same"),
        (-22 - 20 - 56 + 24, "Q", 1 << 60, "expected the same"),
        (-22 - 20 - 56 + 48, "Q", 77, "expected the same"),
    ],
)
def test_a_zip64_end_record_that_lies(at: int, layout: str, value: int, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        opened(patched(by_torch(), at, layout, value))


ENTRIES: dict[str, tuple[Callable[[], bytes], str]] = {
    "encrypted": (lambda: one(flags=1), "encrypted"),
    "strongly encrypted": (lambda: one(flags=1 << 6), "encrypted"),
    "a patch": (lambda: one(flags=1 << 5), "a patch"),
    "zstd": (lambda: one(method=93), r"method 93 \(zstd\), expected 0 \(stored\) or 8"),
    "lzma": (lambda: one(method=14), r"14 \(lzma\)"),
    "bzip2": (lambda: one(method=12), r"12 \(bzip2\)"),
    "another method": (lambda: one(method=77), r"77 \(unknown\)"),
    "stored with two sizes": (lambda: one(size=3), "found 4 stored bytes, expected its size, 3"),
    "no local header": (lambda: b"PX" + one()[2:], r"found b'PX\\x03\\x04', expected a local header"),
    "another name": (lambda: one()[:30] + b"y" + one()[31:], "found the name b'y' in its local header, expected b'x'"),
    "another length of name": (lambda: patched(one(), 26, "H", 0), "found the name b'' in its local"),
    "another method in the local header": (lambda: one(local_method=8), "found method 8 in its local header"),
    "data of the next entry": (quoting, "damaged or a bomb"),
    "a header beyond the file": (lambda: patched(one(), 28, "H", 65535), "damaged or a bomb"),
}


@pytest.mark.parametrize("what", ENTRIES)
def test_an_entry_that_cannot_be_meant_is_refused_alone(what: str) -> None:
    make, message = ENTRIES[what]
    archive = opened(make())
    entry = archive.entries["x"]
    for call in (archive.start, archive.read, archive.check):
        with pytest.raises(FormatError, match=message) as raised:
            call(entry)
        assert str(raised.value).startswith("<BytesIO>: 'x' at offset 0: ")


def deflated(data: bytes) -> bytes:
    stream = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


def block(size: int) -> bytes:
    """A deflate stream of one block, not compressed."""
    return struct.pack("<BHH", 1, size, size ^ 0xFFFF) + bytes(size)


@pytest.mark.parametrize(
    ("stream", "size", "message", "reason"),
    [
        (deflated(LONG), len(LONG) - 1, "more than", 0),
        (deflated(LONG), 0, "more than 0 inflated bytes", 0),
        (deflated(LONG), len(LONG) + 1, f"found {len(LONG)} inflated bytes", Reason.TRUNCATED),
        (deflated(LONG)[:-3], len(LONG), "ends early", Reason.TRUNCATED),
        (deflated(b""), 1, "found 0 inflated bytes", Reason.TRUNCATED),
        (b"", 0, "ends early", Reason.TRUNCATED),
        (deflated(b"x") + b"?", 1, "bytes after the end", 0),
        (deflated(b"x") + bytes(1 << 16), 1, "bytes after the end", 0),
        (block(65531) + b"?", 65531, "bytes after the end", 0),  # behind a piece that is read at a time
        (b"\xff\xff\xff", 10, "broken deflate stream", 0),
        (bytes(100), 103_201, "expected at most 103200", Reason.LIMIT),
        (deflated(bytes(10**6)), 1 << 31, "a bomb", Reason.LIMIT),
    ],
)
def test_a_deflate_stream_that_lies_about_its_size(stream: bytes, size: int, message: str, reason: int) -> None:
    archive = opened(one("x", stream, method=8, local_method=8, size=size))
    entry = archive.entries["x"]
    calls: list[Callable[[], object]] = [lambda: archive.read(entry), lambda: archive.check(entry)]
    if size < 10**7:
        calls.append(lambda: archive.read_into(entry, memoryview(bytearray(size))))
    for call in calls:
        with pytest.raises(FormatError, match=message) as raised:
            call()
        assert raised.value.reason == reason


def test_the_best_that_deflate_can_do_is_no_bomb() -> None:
    data = bytes(50_000_000)
    stream = deflated(data)
    assert len(data) > 1000 * len(stream)
    archive = opened(one("x", stream, method=8, local_method=8, size=len(data), crc=zlib.crc32(data)))
    buffer = bytearray(b"x") * len(data)
    archive.read_into(archive.entries["x"], memoryview(buffer))
    assert buffer == data
    assert archive.check(archive.entries["x"])


@given(st.integers(0, 1 << 18), st.binary(max_size=50), st.integers(0, 300))
@settings(max_examples=30)
def test_inflating_in_pieces(size: int, seed: bytes, tail: int) -> None:
    data = (seed or b"\0") * (size // (len(seed) or 1)) + bytes(tail)
    archive = opened(one("x", deflated(data), method=8, local_method=8, size=len(data)))
    assert archive.read(archive.entries["x"]) == data


def test_limits_and_buffers() -> None:
    archive = opened(by_zipfile(zipfile.ZIP_DEFLATED))
    entry = archive.entries["a/long"]
    assert archive.read(entry, limit=entry.size) == LONG
    with pytest.raises(FormatError, match=f"found {entry.size} bytes, expected at most {entry.size - 1}") as raised:
        archive.read(entry, limit=entry.size - 1)
    assert raised.value.reason == Reason.LIMIT
    with pytest.raises(UsageError, match="the buffer has 3 bytes"):
        archive.read_into(entry, memoryview(bytearray(3)))


def test_a_wrong_checksum_is_seen_by_check_alone() -> None:
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        data = small(method)
        data[bytes(data).index(b"PK\x01\x02") + 16] ^= 1
        archive = opened(data)
        assert archive.read(archive.entries["x/one"])[:3] == b"one"
        assert not archive.check(archive.entries["x/one"])
        assert archive.check(archive.entries["x/two"])


@pytest.mark.parametrize(
    "make", [by_torch, by_zipfile, lambda: by_zipfile(8), lambda: by_zipfile(8, stream=True), small]
)
def test_a_cut_archive_gives_back_what_is_whole(make: Callable[[], bytes]) -> None:
    data = bytes(make())
    whole = opened(data)
    expected = contents(whole)
    ends = {name: whole.start(entry) + entry.stored for name, entry in whole.entries.items()}
    uncut = recovered(data)
    assert uncut.is_recovered
    assert contents(uncut) == expected
    assert all(map(uncut.check, uncut.entries.values()))
    for cut in sorted({*range(0, len(data), max(1, len(data) // 200)), *ends.values()}):
        archive = recovered(data[:cut])
        for name, entry in archive.entries.items():
            if ends[name] <= cut:
                assert archive.read(entry) == expected[name]
            else:  # known by its header, and not all there
                with pytest.raises(FormatError) as raised:
                    archive.read(entry)
                assert raised.value.reason == Reason.TRUNCATED
        behind = 24 if any(entry.flags & DESCRIPTOR for entry in whole.entries.values()) else 0
        assert {name for name, end in ends.items() if end + behind <= cut} <= set(archive.entries)


def test_what_recovery_makes_of_hostile_headers() -> None:
    assert list(recovered(one("x") + one("x")).entries) == ["x"]
    assert recovered(one("../x")).entries == {}
    assert recovered(one("é", local_flags=1 << 11).replace("é".encode(), b"\xff\xff")).entries == {}
    assert recovered(one("x", local_size=ZIP64, local_stored=ZIP64)).entries == {}
    cut = recovered(one("x", local_size=10**9, local_stored=10**9))
    with pytest.raises(FormatError, match="expected 1000000000") as raised:
        cut.read(cut.entries["x"])
    assert raised.value.reason == Reason.TRUNCATED


def test_the_size_of_a_large_entry_that_torch_was_not_allowed_to_finish() -> None:
    size = 5 << 30
    extra = struct.pack("<HHQQ", 1, 16, size, 0) + b"FB\x02\x00ZZ"
    header = LOCAL.pack(b"PK\x03\x04", 0, DESCRIPTOR, 0, 0, 0, 0, 0, 0, 1, len(extra)) + b"x" + extra
    archive = recovered(header + bytes(1000))
    assert archive.entries == {"x": ZipEntry("x", 0, size, size, 0, 0, DESCRIPTOR)}
    with pytest.raises(FormatError, match=f"found 1000 bytes at offset {len(header)}, expected {size}"):
        archive.read(archive.entries["x"])


def test_recovery_takes_no_descriptor_from_inside_the_data() -> None:
    inner = by_torch()  # a file of torch's, stored in another: descriptors all over it
    file = io.BytesIO()

    class Forward:
        write, flush = file.write, file.flush

    with zipfile.ZipFile(Forward(), "w") as archive:  # type: ignore[call-overload]
        archive.writestr("inner.pt", inner)
        archive.writestr("b", b"behind")
    assert contents(recovered(file.getvalue())) == {"inner.pt": inner, "b": b"behind"}


@pytest.mark.parametrize("descriptor", [b"", b"c" * 12, b"PK\x07\x08" + b"c" * 12, b"PK\x07\x08" + b"c" * 20])
def test_recovery_passes_over_descriptors_that_it_has_no_need_of(descriptor: bytes) -> None:
    first = one("x", b"data", local_flags=DESCRIPTOR)[:35]
    assert contents(recovered(first + descriptor + one("y", b"behind"))) == {"x": b"data", "y": b"behind"}


@pytest.mark.parametrize("size", [0, 1, 700, 999, 1000, 1001, 1023, 1024, 1025, 5000])
def test_recovery_finds_descriptors_across_the_pieces_it_reads(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_directory, "_PIECE", 1000)
    name, data, behind = b"x", b"PK\x07\x08" * (size // 4) + b"z" * (size % 4), one("y", b"behind")
    header = LOCAL.pack(b"PK\x03\x04", 0, DESCRIPTOR, 0, 0, 0, 0, 0, 0, len(name), 0) + name
    for layout in (DESCRIPTOR32, DESCRIPTOR64):
        descriptor = layout.pack(b"PK\x07\x08", zlib.crc32(data), size, size)
        archive = recovered(header + data + descriptor + behind)
        assert contents(archive) == {"x": data, "y": b"behind"}
        assert archive.check(archive.entries["x"])


SMALL_ARCHIVES = [bytes(small()), bytes(small(zipfile.ZIP_STORED)), by_torch(), one()]


def read_all(data: bytes) -> None:
    """Whatever the bytes, every call gives a result or a FormatError, and never more than it said."""
    for make in (opened, recovered):
        try:
            archive = make(data)
        except FormatError:
            continue
        for entry in archive.entries.values():
            try:
                assert len(archive.read(entry, limit=1 << 20)) == entry.size
                archive.check(entry)
            except FormatError:
                pass


@pytest.mark.slow
@pytest.mark.parametrize("which", range(len(SMALL_ARCHIVES)))
def test_every_byte_damaged(which: int) -> None:
    data = SMALL_ARCHIVES[which]
    for at in range(len(data)):
        for value in (0, 0xFF, data[at] ^ 1, data[at] ^ 0x80):
            read_all(data[:at] + bytes([value]) + data[at + 1 :])


@pytest.mark.parametrize("which", range(len(SMALL_ARCHIVES)))
def test_every_cut(which: int) -> None:
    data = SMALL_ARCHIVES[which]
    for at in range(len(data)):
        read_all(data[:at])
        read_all(data[at:])


@given(st.sampled_from(SMALL_ARCHIVES), st.data())
@settings(max_examples=300)
def test_damage_of_any_kind(data: bytes, draw: st.DataObject) -> None:
    for _ in range(draw.draw(st.integers(1, 4))):
        start = draw.draw(st.integers(0, len(data)))
        end = draw.draw(st.integers(start, min(len(data), start + 40)))
        data = data[:start] + draw.draw(st.binary(max_size=40)) + data[end:]
    read_all(data)
