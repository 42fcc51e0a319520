"""Whatever happens to ``shards.bin`` alone, the store opens with the samples that were written."""

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cordwood as cw
from cordwood.errors import FormatError
from tests.store.support.photos import files_of, write

COUNT = 11
HEADER, RECORD = 32, 64


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    samples = [{"number": number, "text": "cordwood " * number} for number in range(COUNT)]
    store = write(tmp_path_factory.mktemp("index") / "s", samples, shard_bytes=150, goal="raw")
    assert len(files_of(store)["shards.bin"]) == HEADER + 4 * RECORD
    return store


@pytest.fixture
def store(good: Path, tmp_path: Path) -> Path:
    shutil.copytree(good, tmp_path / "s")
    return tmp_path / "s"


def numbers_in(store: Path) -> tuple[list[int], str]:
    """The numbers of all samples, and what opening warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dataset = cw.open(store)
    return [sample["number"] for sample in dataset], "".join(str(one.message) for one in caught)


def assert_all_there(store: Path, damaged: bytes | None, what: str) -> None:
    """The samples, the warning, and that nothing was written."""
    index = store / "shards.bin"
    good = index.read_bytes()
    try:
        if damaged is None:
            index.unlink()
        else:
            index.write_bytes(damaged)
        found, told = numbers_in(store)
        assert found == list(range(COUNT)), what
        if damaged is None or not good.startswith(damaged) or not damaged:
            assert str(index) in told, what
            assert f"`cordwood verify {store}`" in told, what
        assert (index.read_bytes() if index.exists() else None) == damaged, what
    finally:
        index.write_bytes(good)


def damages(good: bytes) -> Iterator[tuple[str, bytes | None]]:
    """Every byte, every length, zeros from and up to every place, a byte more or less at every place."""
    yield "missing", None
    for at in range(len(good)):
        for value in {0, good[at] ^ 1, good[at] ^ 0x80, 0xFF} - {good[at]}:
            yield f"byte {at} is {value}", good[:at] + bytes([value]) + good[at + 1 :]
        yield f"cut at {at}", good[:at]
        yield f"zeros from {at} on", good[:at] + bytes(len(good) - at)
        yield f"zeros up to {at}", bytes(at + 1) + good[at + 1 :]
        yield f"a byte more at {at}", good[:at] + b"\xa5" + good[at:]
        yield f"a byte less at {at}", good[:at] + good[at + 1 :]


def extensions(good: bytes) -> Iterator[tuple[str, bytes]]:
    """Bytes behind the end: zeros, ones, text, and parts of the file itself."""
    for size in range(1, 2 * RECORD + 2):
        for filled in (b"\0", b"\xff", b"x", bytes([COUNT])):
            yield f"{size} times {filled!r}", good + filled * size
    for at in range(len(good)):
        yield f"itself from {at} on", good + good[at:]
        yield f"itself up to {at + 1}", good + good[: at + 1]


@pytest.mark.slow
def test_any_damage_to_the_index(store: Path) -> None:
    for what, damaged in damages((store / "shards.bin").read_bytes()):
        if damaged != (store / "shards.bin").read_bytes():
            assert_all_there(store, damaged, what)


@pytest.mark.slow
def test_anything_behind_the_index(store: Path) -> None:
    for what, damaged in extensions((store / "shards.bin").read_bytes()):
        assert_all_there(store, damaged, what)


@pytest.mark.parametrize("tail", [b"\0", b"x", bytes(RECORD), b"\xff" * 1000], ids=["byte", "text", "zeros", "much"])
def test_what_follows_the_last_record_is_passed_over(store: Path, tail: bytes) -> None:
    assert_all_there(store, (store / "shards.bin").read_bytes() + tail, "extended")


@given(tail=st.binary(min_size=1, max_size=200))
def test_any_bytes_behind_the_records(good: Path, tail: bytes) -> None:
    assert_all_there(good, (good / "shards.bin").read_bytes() + tail, "extended")


@pytest.mark.parametrize("damaged", [None, b"", bytes(HEADER + RECORD)], ids=["missing", "empty", "zeros"])
def test_without_any_index(store: Path, damaged: bytes | None) -> None:
    assert_all_there(store, damaged, "none")


def test_the_step_that_the_warning_names_writes_the_index_anew(store: Path) -> None:
    good = (store / "shards.bin").read_bytes()
    for damaged in (good + b"more", good[:40] + b"\0" + good[41:], None):
        if damaged is None:
            (store / "shards.bin").unlink()
        else:
            (store / "shards.bin").write_bytes(damaged)
        told = numbers_in(store)[1]
        assert f"cw.Writer({str(store)!r}, mode='append').close() writes shards.bin anew" in told
        cw.Writer(store, mode="append").close()
        assert (store / "shards.bin").read_bytes() == good
        assert numbers_in(store) == (list(range(COUNT)), "")


def test_several_damaged_records_are_counted(store: Path) -> None:
    index = bytearray((store / "shards.bin").read_bytes())
    for at in (HEADER, HEADER + 2 * RECORD):
        index[at] ^= 1
    (store / "shards.bin").write_bytes(index)
    told = numbers_in(store)[1]
    assert "record 0 is damaged; it was made again from shard-00000000.cws (and 1 more problem); the index" in told


def test_an_index_that_is_behind_is_no_matter(store: Path) -> None:
    """A writer appends a record after its shard has its name; who reads meanwhile need not be told."""
    index = (store / "shards.bin").read_bytes()
    (store / "shards.bin").write_bytes(index[:-RECORD])
    assert numbers_in(store) == (list(range(COUNT)), "")


def test_an_index_with_more_is_damage_to_verify(store: Path) -> None:
    with (store / "shards.bin").open("ab") as file:
        file.write(b"more")
    result = cw.verify(store)
    assert [str(one) for one in result.damages] == ["shards.bin: what follows its 4 records is none"]
    assert (result.samples, result.lost) == (COUNT, [])


@pytest.mark.parametrize("at", [20, 40, RECORD - 1])
def test_the_record_of_a_lost_shard_does_not_make_the_store_shorter(store: Path, at: int) -> None:
    index = bytearray((store / "shards.bin").read_bytes())
    index[HEADER + 3 * RECORD + at] ^= 1
    (store / "shards.bin").write_bytes(index)
    (store / "shard-00000003.cws").unlink()
    with pytest.raises(FormatError, match=r"record 3 of shards\.bin is missing or damaged"):
        cw.open(store)


def test_samples_are_those_of_their_own_shards(store: Path) -> None:
    """An index whose records changed places tells the truth about none of them."""
    index = (store / "shards.bin").read_bytes()
    records = [index[at : at + RECORD] for at in range(HEADER, len(index), RECORD)]
    for turn in range(1, len(records)):
        assert_all_there(store, index[:HEADER] + b"".join(records[turn:] + records[:turn]), f"turned by {turn}")
