"""Reads and writes ``shards.bin``: one record of 64 bytes per shard, with its number of samples.

    index = read("train.cordwood")
    index.records["count"].sum()         # samples in the store

It is an index only: whatever it says can be made again from the shards themselves. So a record that is missing, cut
or damaged costs nothing, as long as its shard is whole; a writer mends the file, a reader does it in memory.
"""

import errno
import os
import re
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cordwood.common.atomic_file import replacing
from cordwood.common.files import read_all
from cordwood.errors import FormatError, Reason, StorageError
from cordwood.native import _native
from cordwood.store.format.shard_file import ShardEnds, read_ends, shard_name

NAME: Final = "shards.bin"
MAGIC: Final = b"CWIX"
MAJOR, MINOR = 1, 1
HEADER_SIZE: Final = 32
RECORD: Final = np.dtype(
    [
        ("first", "<u8"),  # number of its first sample in the store
        ("count", "<u8"),
        ("file_size", "<u8"),
        ("schema_hash", "<u8"),
        ("trailer_crc", "<u4"),
        ("rows_offset", "<u8"),  # these three are 0 in a record of version 1.0
        ("row_size", "<u4"),
        ("footer_size", "<u4"),
        ("zero", "V8"),
        ("crc", "<u4"),
    ]
)
RECORD_SIZE: Final = RECORD.itemsize
_SHARD = re.compile(r"shard-([0-9]{8,})\.cws")
_MOST_BYTES = 1 << 36  # a thousand million shards
_MOST_SAMPLES_IN_ALL = 1 << 62

Records = npt.NDArray[Any]


@dataclass
class ShardIndex:
    """The records of all shards, and what had to be mended to get them."""

    records: Records
    mended: list[str] = field(default_factory=list)  # a sentence each; empty if the file is as it should be
    is_behind: bool = False  # what the file holds is right, but it ends too early: a writer was stopped, or is at work

    @property
    def samples(self) -> int:
        """Samples in all shards."""
        return int(self.records["first"][-1] + self.records["count"][-1]) if len(self.records) else 0


def pack_file_header() -> bytes:
    """The first 32 bytes."""
    body = struct.pack("<4sBBH20x", MAGIC, MAJOR, MINOR, 0)
    return body + struct.pack("<I", _native.crc32c(body))


def pack_record(number: int, first: int, ends: ShardEnds) -> bytes:
    """The record of shard `number`."""
    known = (first, ends.count, ends.file_size, ends.schema_hash, ends.trailer_crc)
    # Where rows and footer lie, so that who reads ranges of a remote file need not ask for its end first.
    body = struct.pack("<QQQQIQII8x", *known, ends.rows_offset, ends.row_size, ends.footer_size)
    return body + struct.pack("<I", _native.crc32c(struct.pack("<Q", number) + body))


def read(store: str | os.PathLike[str], *, tolerant: bool = False) -> ShardIndex:
    """All records, those that are not good made again from their shards; the file is not changed.

    ::

        index = read("train.cordwood")

    A shard that can be placed neither by its record nor by itself is a FormatError, because samples behind it would
    get other numbers. If `tolerant`, it gets a record of no samples, and a sentence in `mended`: what remains can be
    looked at, but is numbered anew. Bytes behind the last record that are no record are left out.
    """
    store = Path(store)
    mended: list[str] = []
    data = _file(store / NAME)
    records, sound = _records(data[HEADER_SIZE:] if _has_header(store / NAME, data, mended) else b"")
    good = _in_order(records, sound)
    for number in np.flatnonzero(~good).tolist():
        if not sound[number:].any() and _is_no_record(store, records, number):
            mended.append(f"{store / NAME}: what follows its {number} records is none")
            records = records[:number]
            break
        _make_again(store, records, good, number, mended, tolerant)
    more = _not_recorded(store, records, mended, tolerant)
    if more:
        records = np.concatenate([records, np.array(more, RECORD)])
    if mended:
        _check_gaps(store, len(records), mended, tolerant)
    is_behind = bool(data or not len(records)) and (pack_file_header() + records.tobytes()).startswith(data)
    return ShardIndex(records, mended, is_behind)


def _file(path: Path) -> bytes:
    """The bytes of the file; none if there is no file."""
    try:
        return read_all(path, "the index", _MOST_BYTES)
    except StorageError as error:
        if error.errno != errno.ENOENT:
            raise
        return b""


def _has_header(path: Path, data: bytes, mended: list[str]) -> bool:
    header = data[:HEADER_SIZE]
    sound = len(header) == HEADER_SIZE and _native.crc32c(header[:-4]) == int.from_bytes(header[-4:], "little")
    if sound and header[:4] == MAGIC and header[4] != MAJOR:
        raise FormatError(
            f"{path}: an index of version {header[4]}.{header[5]}, but this Cordwood reads version {MAJOR}: upgrade it",
            Reason.VERSION,
        )
    if not sound or header[:4] != MAGIC:
        mended.append(f"{path}: the file is {'damaged' if data else 'missing or empty'}")
        return False
    return True


def _records(data: bytes) -> tuple[Records, npt.NDArray[np.bool_]]:
    """Records, and which of them are right by themselves; one that is cut short is there, but not right."""
    body = bytearray(data)
    if len(body) % RECORD_SIZE:
        body += bytes(-len(body) % RECORD_SIZE)
    records = np.frombuffer(body, RECORD)
    sound = np.frombuffer(_native.crc32c_rows(body, RECORD_SIZE, RECORD_SIZE - 4, 0), "<u4") == records["crc"]
    sound &= (records["count"] >= 1) & (records["first"] < _MOST_SAMPLES_IN_ALL)
    sound &= records["count"] < _MOST_SAMPLES_IN_ALL
    return records, sound


def _in_order(records: Records, sound: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Sound records whose numbers follow from the record before them, where that is sound."""
    ends = records["first"] + records["count"]
    follows = np.ones(len(records), bool)
    follows[1:] = (records["first"][1:] == ends[:-1]) | ~sound[:-1]
    if len(records):
        follows[0] = records["first"][0] == 0
    return sound & follows


def _first(records: Records, number: int) -> int:
    """The first sample of shard `number`, by the record before it."""
    return int(records["first"][number - 1] + records["count"][number - 1]) if number else 0


def _is_no_record(store: Path, records: Records, number: int) -> bool:
    """Whether bytes behind the last record never were one, rather than what is left of the record of a lost shard."""
    record = records[number]
    tells_of_a_shard = record["first"] == _first(records, number) and record["count"] > 0
    return not tells_of_a_shard and not (store / shard_name(number)).exists()


def _make_again(
    store: Path, records: Records, good: npt.NDArray[np.bool_], number: int, mended: list[str], tolerant: bool
) -> None:
    """Fill in a record from its shard, or from its neighbours if the shard is not good either."""
    first = _first(records, number)
    path = store / shard_name(number)
    try:
        ends = read_ends(path)
    except (FormatError, StorageError) as error:
        after = int(records["first"][number + 1]) if number + 1 < len(records) and good[number + 1] else 0
        if after <= first and not tolerant:
            raise _not_placed(store, path, number, first, error) from error
        # Its neighbours tell how many samples it has: the others keep their numbers, and it is refused when read.
        lost = max(after - first, 0)
        records[number] = _bare_record(first, lost)
        mended.append(f"{store / NAME}: record {number} is damaged, and the shard cannot be read: {error}")
        return
    records[number] = np.frombuffer(pack_record(number, first, ends), RECORD)[0]
    mended.append(f"{store / NAME}: record {number} is damaged; it was made again from {path.name}")
    if number + 1 < len(records) and good[number + 1] and records["first"][number + 1] != first + ends.count:
        wrong = (
            f"{path}: the shard holds samples {first} to {first + ends.count - 1}, but by the index the next shard "
            f"begins with sample {int(records['first'][number + 1])}: another shard is in its place"
        )
        if not tolerant:
            raise FormatError(wrong)
        mended.append(wrong)


def _not_recorded(store: Path, records: Records, mended: list[str], tolerant: bool) -> list[Any]:
    """Records of shards behind the last record: a writer was stopped between a shard and its record."""
    more: list[Any] = []
    number = len(records)
    first = _first(records, number)
    while (path := store / shard_name(number)).exists():
        try:
            ends = read_ends(path)
        except (FormatError, StorageError) as error:
            if not tolerant:
                raise _not_placed(store, path, number, first, error) from error
            more.append(tuple(_bare_record(first, 0)))
            mended.append(f"{store / NAME}: record {number} is missing, and the shard cannot be read: {error}")
        else:
            more.append(tuple(np.frombuffer(pack_record(number, first, ends), RECORD)[0]))
            mended.append(f"{store / NAME}: record {number} is missing; it was made from {path.name}")
            first += ends.count
        number += 1
    return more


def _bare_record(first: int, count: int) -> Any:
    """The record of a shard of which nothing else is known."""
    record = np.zeros((), RECORD)
    record["first"], record["count"] = first, count
    return record[()]


def _check_gaps(store: Path, known: int, mended: list[str], tolerant: bool) -> None:
    """Without a good index a shard that is missing must not make a store look shorter than it is."""
    numbers = {int(found[1]) for path in store.iterdir() if (found := _SHARD.fullmatch(path.name))}
    last = max(numbers, default=-1)
    # A writer at work may have added some since: only what is not there now either is missing.
    missing = next((n for n in range(known, last) if n not in numbers and not (store / shard_name(n)).exists()), None)
    if missing is None:
        return
    wrong = (
        f"{store}: {shard_name(missing)} is missing, though there is {shard_name(last)}, and {NAME} does not tell "
        "how many samples it holds: restore it from a copy"
    )
    if not tolerant:
        raise FormatError(wrong)
    mended.append(wrong)


def _not_placed(store: Path, path: Path, number: int, first: int, error: Exception) -> FormatError:
    return FormatError(
        f"{store}: the samples from {first} on cannot be placed: record {number} of {NAME} is missing or damaged, and "
        f"its shard does not tell either ({error}). Restore {path.name} or {NAME} from a copy, or keep what is good "
        "with `cordwood verify --salvage`"
    )


def check_record(where: str, record: Any, ends: ShardEnds) -> None:
    """Whether a shard is the one that the index speaks of: FormatError says which samples are lost."""
    found = (ends.count, ends.file_size, ends.schema_hash, ends.trailer_crc)
    expected = tuple(int(record[name]) for name in ("count", "file_size", "schema_hash", "trailer_crc"))
    places = tuple(int(record[name]) for name in ("rows_offset", "row_size", "footer_size"))
    if found != expected or (any(places) and places != (ends.rows_offset, ends.row_size, ends.footer_size)):
        first = int(record["first"])
        raise FormatError(
            f"{where}: this is not the shard that was written here: {ends.count} samples, {ends.file_size} bytes and "
            f"trailer {ends.trailer_crc:#010x} were found, {expected[0]}, {expected[1]} and {expected[3]:#010x} are in "
            f"{NAME}; samples {first} to {first + expected[0] - 1} are lost unless the file is restored from a copy"
        )


def mend(store: str | os.PathLike[str], index: ShardIndex) -> None:
    """Write the file anew if something in it had to be mended; for the writer of the store."""
    path = Path(store) / NAME
    if index.mended or not path.exists():
        with replacing(path) as file:
            file.write(pack_file_header())
            file.write(index.records.tobytes())
        index.mended.clear()


def append(store: str | os.PathLike[str], number: int, record: bytes) -> None:
    """Add the record of shard `number`, which is in its place already."""
    path = Path(store) / NAME
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(fd, record, HEADER_SIZE + number * RECORD_SIZE)
        finally:
            os.close(fd)
    except OSError as error:
        raise StorageError(
            error.errno,
            f"{error.strerror or error}: shard {number} is in its place, but not in the "
            "index; the next one who opens the store puts it there",
            str(path),
        ) from error
