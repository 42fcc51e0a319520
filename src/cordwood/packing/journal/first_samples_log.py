"""The log of a job's first samples, which wait for the schema: a resumed job does not compute them again.

    log = FirstSamplesLog(store)
    log.append(next_input, waiting, samples, classes, units)    # what has come since the last time
    for part in log.read(): ...                             # another process
    log.remove()                                            # a shard holds them

Samples are kept as values of fields that may be anything, so reading them runs no code.
"""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cordwood.errors import FormatError
from cordwood.packing.journal.inputs import InputEntry, entries, line
from cordwood.packing.journal.shard_log import Log, records
from cordwood.store import decode_value, encode_value

_NAME = ".first-samples.log"
_SIZE = struct.Struct("<Q")


def path_of(store: Path) -> Path:
    """Where the log of a store is, while there is one."""
    return store / _NAME


class WaitingInput(NamedTuple):
    """An input that has been looked at: its number, and what is to be told of it."""

    number: int
    entry: InputEntry


class FirstSamplesRecord(NamedTuple):
    """What was added to the log at once."""

    next_input: int  # the first that is not in it
    waiting: list[WaitingInput]
    samples: list[Any]
    classes: list[str]  # fields whose labels are still those of the source
    units: list[int]  # the first input of the unit that each sample is of
    looked: int | None  # units from all over the source that were looked at so far; None: these samples are the first


class FirstSamplesLog:
    """The log of one store, made when it is first written to."""

    def __init__(self, store: Path) -> None:
        self._path = path_of(store)
        self._log: Log | None = None
        self._size = 0  # of what another process left

    def read(self) -> Iterator[FirstSamplesRecord]:
        """What another process left; nothing of what cannot be understood."""
        try:
            for record in records(self._path):
                part = _part(record.members, record.first, record.second)
                self._size = record.end
                yield part
        except (FormatError, KeyError, TypeError, ValueError, OverflowError, RecursionError, struct.error):
            return  # it is done again

    def append(
        self,
        next_input: int,
        waiting: Sequence[WaitingInput],
        samples: Sequence[Any],
        classes: Sequence[str],
        units: Sequence[int],
        looked: int | None = None,
    ) -> None:
        """Add inputs and samples, as in a `FirstSamplesRecord`; they are on the disk when this returns."""
        if self._log is None:
            self._log = Log(self._path, self._size)
        lines = b"".join(line(one.entry) for one in waiting)
        values = bytearray()
        for sample in samples:
            value = encode_value(sample)
            values += _SIZE.pack(len(value)) + value
        members = {
            "next": next_input,
            "numbers": [one.number for one in waiting],
            "sizes": [one.entry.size for one in waiting],  # lines have none for inputs without a name
            "classes": list(classes),
            "units": list(units),
            "looked": looked,
        }
        self._log.add(members, lines, bytes(values))

    def close(self) -> None:
        """The log stays."""
        if self._log is not None:
            self._log.close()

    def remove(self) -> None:
        """Once is enough."""
        self.close()
        self._path.unlink(missing_ok=True)


def _part(members: Any, lines: bytes, values: bytes) -> FirstSamplesRecord:
    waiting = [
        WaitingInput(int(number), entry._replace(size=None if size is None else int(size)))
        for number, size, entry in zip(members["numbers"], members["sizes"], entries(lines, _NAME), strict=True)
    ]
    samples, place = [], 0
    while place < len(values):
        (size,) = _SIZE.unpack_from(values, place)
        place += _SIZE.size
        samples.append(decode_value(values[place : place + size]))
        place += size
    units = [int(unit) for unit in members["units"]]
    if len(units) != len(samples):
        raise FormatError(f"{_NAME}: {len(samples)} samples, but the units of {len(units)}")
    looked = None if members["looked"] is None else int(members["looked"])
    classes = [str(name) for name in members["classes"]]
    return FirstSamplesRecord(int(members["next"]), waiting, samples, classes, units, looked)
