"""shards.bin: whatever happens to it, the shards tell what it said."""

import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

from cordwood.errors import FormatError, StorageError
from cordwood.native import _native
from cordwood.store.format import shard_index
from cordwood.store.format.shard_file import read_ends, shard_name
from tests.store.support.photos import photo, write


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return write(tmp_path / "s", [photo(i) for i in range(11)], shard_bytes=600, goal="raw")


def index_of(store: Path) -> bytes:
    return (store / shard_index.NAME).read_bytes()


def same(index: shard_index.ShardIndex, data: bytes) -> bool:
    return index.records.tobytes() == data[shard_index.HEADER_SIZE :]


def test_the_records_of_a_store(store: Path) -> None:
    index = shard_index.read(store)
    assert index.mended == []
    assert index.samples == 11
    assert len(index.records) >= 4
    assert index.records["first"].tolist() == np.cumsum([0, *index.records["count"][:-1]]).tolist()
    for number, record in enumerate(index.records):
        ends = read_ends(store / shard_name(number))
        shard_index.check_record("here", record, ends)
        assert record.tobytes() == shard_index.pack_record(number, int(record["first"]), ends)


def test_the_file_is_as_the_page_says(store: Path) -> None:
    data = index_of(store)
    assert data[:8] == b"CWIX\1\1\0\0"
    assert struct.unpack("<I", data[28:32])[0] == _native.crc32c(data[:28])
    second = data[96:160]
    assert struct.unpack("<I", second[60:])[0] == _native.crc32c(struct.pack("<Q", 1) + second[:60])


def test_every_byte_may_be_damaged(store: Path) -> None:
    data = index_of(store)
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 0x55
        (store / shard_index.NAME).write_bytes(broken)
        index = shard_index.read(store)
        assert same(index, data), at
        assert index.mended, at


def test_every_length_will_do(store: Path) -> None:
    data = index_of(store)
    for size in range(len(data)):
        (store / shard_index.NAME).write_bytes(data[:size])
        index = shard_index.read(store)
        assert same(index, data), size
        assert index.mended, size


def test_no_file_will_do_and_a_writer_makes_it_again(store: Path) -> None:
    data = index_of(store)
    (store / shard_index.NAME).unlink()
    index = shard_index.read(store)
    assert same(index, data)
    shard_index.mend(store, index)
    assert index_of(store) == data
    assert shard_index.read(store).mended == []


def test_records_that_changed_places_are_found_out(store: Path) -> None:
    data = index_of(store)
    (store / shard_index.NAME).write_bytes(data[:32] + data[96:160] + data[32:96] + data[160:])
    assert same(shard_index.read(store), data)


def test_a_shard_without_a_record_is_taken_in(store: Path) -> None:
    data = index_of(store)
    (store / shard_index.NAME).write_bytes(data[:-128])
    index = shard_index.read(store)
    assert same(index, data)
    assert all("missing; it was made from" in sentence for sentence in index.mended)


def test_a_newer_major_version_is_refused(store: Path) -> None:
    body = b"CWIX\2\0\0\0" + bytes(20)
    (store / shard_index.NAME).write_bytes(body + struct.pack("<I", _native.crc32c(body)))
    with pytest.raises(FormatError, match=r"version 2\.0"):
        shard_index.read(store)


def test_a_missing_shard_whose_record_is_good_keeps_its_place(store: Path) -> None:
    before = shard_index.read(store).records
    (store / shard_name(1)).unlink()
    assert shard_index.read(store).records.tobytes() == before.tobytes()


def test_a_lost_shard_between_good_records_keeps_its_place(store: Path) -> None:
    before = shard_index.read(store)
    data = bytearray(index_of(store))
    data[32 + 64] ^= 1
    (store / shard_index.NAME).write_bytes(data)
    (store / shard_name(1)).unlink()
    index = shard_index.read(store)
    assert index.samples == before.samples
    assert index.records["first"].tolist() == before.records["first"].tolist()
    assert index.records["file_size"][1] == 0
    with pytest.raises(FormatError, match="not the shard that was written here"):
        shard_index.check_record("here", index.records[1], read_ends(store / shard_name(2)))


@pytest.mark.parametrize("kept", [32 + 64, 40, 0])
def test_samples_that_cannot_be_placed(kept: int, store: Path) -> None:
    (store / shard_index.NAME).write_bytes(index_of(store)[:kept])
    (store / shard_name(1)).write_bytes(b"damaged")
    with pytest.raises(FormatError, match=r"cannot be placed: record 1 of shards\.bin.*cut short"):
        shard_index.read(store)
    tolerant = shard_index.read(store, tolerant=True)
    assert tolerant.records["count"][1] == 0
    assert tolerant.samples == 11 - read_count(store, 1)
    assert any("the shard cannot be read" in sentence for sentence in tolerant.mended)


def read_count(store: Path, number: int) -> int:
    """How many samples a shard had that was damaged: those that the others lack."""
    numbers = [path for path in sorted(store.glob("shard-*")) if path.name != shard_name(number)]
    return 11 - sum(read_ends(path).count for path in numbers)


def test_a_gap_without_an_index_does_not_make_the_store_shorter(store: Path) -> None:
    (store / shard_index.NAME).unlink()
    (store / shard_name(1)).unlink()
    with pytest.raises(FormatError, match=r"shard-00000001\.cws is missing"):
        shard_index.read(store)
    assert any("is missing" in sentence for sentence in shard_index.read(store, tolerant=True).mended)


def test_a_shard_of_another_place_is_found_out(store: Path, tmp_path: Path) -> None:
    record = shard_index.read(store).records[0]
    shutil.copy(store / shard_name(1), store / shard_name(0))
    with pytest.raises(FormatError, match="samples 0 to"):
        shard_index.check_record("here", record, read_ends(store / shard_name(0)))


def test_a_record_made_from_a_strange_shard_must_fit_its_neighbours(store: Path) -> None:
    longer = write(store.parent / "longer", [photo(i) for i in range(9)], goal="raw")
    data = bytearray(index_of(store))
    data[32] ^= 1
    (store / shard_index.NAME).write_bytes(data)
    shutil.copy(longer / shard_name(0), store / shard_name(0))
    with pytest.raises(FormatError, match="another shard is in its place"):
        shard_index.read(store)
    assert any("another shard" in sentence for sentence in shard_index.read(store, tolerant=True).mended)


def test_a_folder_in_the_place_of_the_index(store: Path) -> None:
    (store / shard_index.NAME).unlink()
    (store / shard_index.NAME).mkdir()
    with pytest.raises(FormatError, match="not a regular file"):
        shard_index.read(store)


def test_an_index_that_cannot_be_written_says_that_the_shard_is_there(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="shard 3 is in its place, but not in the index"):
        shard_index.append(tmp_path, 3, bytes(64))
