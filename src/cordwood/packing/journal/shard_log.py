"""The log of the shard that is being written: a killed job loses seconds of work, not a whole shard.

    log = Log(log_path(store, 7))
    log.add(Checkpoint(position, totals, first, statistics).to_json(), rows, lines)     # after a sync of the frames
    ...
    found = read("train.cordwood", 7)           # another process: None if there is nothing to go on with

The frames themselves are in the shard's file aside (``.shard-00000007.cws.open``); the log beside it
(``.shard-00000007.cws.log``) has records, each with the rows and the lines of inputs that came since the one before.
A record that is cut short or damaged ends the log: what it would have told is done again. Both files are gone when
the shard is in its place.
"""

import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from cordwood.common.files import read_all
from cordwood.errors import FormatError, StorageError
from cordwood.native import _native
from cordwood.packing.journal.inputs import Position, Totals
from cordwood.store.format.shard_file import shard_name

_RECORD: Final = struct.Struct("<4sIIQQI")  # magic, checksum of the rest, sizes of JSON, rows and lines, zero
_MAGIC: Final = b"CWPL"
_MOST_BYTES = 1 << 36


@dataclass
class Checkpoint:
    """How far a job is: `position` and `totals` now; `first`, `statistics` and `plans` are the open shard's."""

    position: Position
    totals: Totals
    first: Position
    statistics: list[dict[str, Any]]
    plans: tuple[str | None, ...] | None = None  # the names, one per frame leaf; None: those that the manifest names

    def to_json(self) -> dict[str, Any]:
        """As in the log."""
        return {
            "position": list(self.position),
            "totals": self.totals.to_json(),
            "first": list(self.first),
            "statistics": self.statistics,
            "plans": self.plans,
        }

    @classmethod
    def from_json(cls, found: Any) -> "Checkpoint":
        """What `to_json` made, of a record whose checksum is right."""
        try:
            position, first = (Position(*map(int, found[name])) for name in ("position", "first"))
            statistics, plans = found["statistics"], found.get("plans")
            names = None if plans is None else tuple(plans)
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"a checkpoint is not what it should be: {type(error).__name__}") from None
        return cls(position, Totals.from_json(found.get("totals")), first, statistics, names)


@dataclass
class LogContents:
    """What a log tells: the last checkpoint, and all rows and lines up to it."""

    checkpoint: Checkpoint
    rows: bytes
    lines: bytes
    size: int  # of the part of the log that is good


def open_path(store: Path, shard: int) -> Path:
    """Where the frames of a shard are that is not finished."""
    return store / f".{shard_name(shard)}.open"


def log_path(store: Path, shard: int) -> Path:
    """Where its log is."""
    return store / f".{shard_name(shard)}.log"


class Log:
    """A file that records are added to; the first `size` bytes, which another process left, stay."""

    def __init__(self, path: Path, size: int = 0) -> None:
        self.path = path
        try:
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
            os.ftruncate(self._fd, size)
            os.lseek(self._fd, size, os.SEEK_SET)
        except OSError as error:
            raise self._failure(error) from error

    def add(self, members: dict[str, Any], first: bytes, second: bytes) -> None:
        """Write a record; it is on the disk when this returns."""
        told = json.dumps(members, separators=(",", ":")).encode()
        body = b"".join((_RECORD.pack(_MAGIC, 0, len(told), len(first), len(second), 0)[8:], told, first, second))
        try:
            view = memoryview(_MAGIC + struct.pack("<I", _native.crc32c(body)) + body)
            while view:
                view = view[os.write(self._fd, view) :]
            os.fsync(self._fd)
        except OSError as error:
            raise self._failure(error) from error

    def close(self) -> None:
        """The log stays; once is enough."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def remove(self) -> None:
        """What it tells is told elsewhere."""
        self.close()
        self.path.unlink(missing_ok=True)

    def _failure(self, error: OSError) -> StorageError:
        return StorageError(
            error.errno, f"{error.strerror or error}: how far the job is could not be written", str(self.path)
        )


class ShardLogRecord(NamedTuple):
    """What was added at once, and where it ends in the file."""

    members: Any
    first: bytes
    second: bytes
    end: int


def records(path: Path) -> Iterator[ShardLogRecord]:
    """The records of a log up to the first that is damaged or cut short; none if there is no log."""
    if not path.exists():
        return
    data = memoryview(read_all(path, "the log of a job", _MOST_BYTES))
    place = 0
    while place + _RECORD.size <= len(data):
        magic, crc, *sizes, _ = _RECORD.unpack_from(data, place)
        end = place + _RECORD.size + sum(sizes)
        if magic != _MAGIC or end > len(data) or _native.crc32c(data[place + 8 : end]) != crc:
            return
        at = place + _RECORD.size
        told, first, second = (bytes(data[at + sum(sizes[:i]) : at + sum(sizes[: i + 1])]) for i in range(3))
        yield ShardLogRecord(json.loads(told), first, second, end)
        place = end


def read(store: Path, shard: int) -> LogContents | None:
    """What the log of a shard tells; None if there is none, or no record of it is good."""
    rows, lines = bytearray(), bytearray()
    last: ShardLogRecord | None = None
    for record in records(log_path(store, shard)):
        rows += record.first
        lines += record.second
        last = record
    return (
        None if last is None else LogContents(Checkpoint.from_json(last.members), bytes(rows), bytes(lines), last.end)
    )


def remove_unfinished(store: Path, keep: int | None) -> None:
    """Remove what killed jobs left of shards other than number `keep`."""
    kept = set() if keep is None else {open_path(store, keep).name, log_path(store, keep).name}
    for path in store.glob(".shard-*.cws.*"):
        if path.suffix in (".open", ".log") and path.name not in kept:
            path.unlink(missing_ok=True)
