"""Finds the rows of a shard that lost its trailer, such as a truncated file.

    found = find_rows(fd, size, layout)
    found.frames_end, found.rows, found.intact

In front of the rows lies the shard's table, which begins with four known bytes and has a checksum, so the file is
searched for it from its end. A shard of version 1 has no table: there the first row begins with the offset of the first
frame, which is known, too: 32.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cordwood.errors import FormatError
from cordwood.native import _native
from cordwood.store.format.rows import RowLayout
from cordwood.store.format.shard_file import HEADER_SIZE
from cordwood.store.format.shard_table import MAGIC, ShardTable, table_size

_FIRST_OFFSET = struct.pack("<Q", HEADER_SIZE)
_FIRST_NUMBER = bytes(8)
_AT_ONCE = 1 << 20
_LARGEST_READ = 1 << 30
_MOST_TRIES = 1 << 20  # a file may be full of what is looked for


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Rows behind frames that end at `frames_end`; those that are not `intact` are damaged, or no rows at all."""

    frames_end: int
    rows: npt.NDArray[np.void]
    intact: npt.NDArray[np.bool_]
    plans: tuple[str | None, ...]  # of the frame leaves, by the table


def find_rows(fd: int, size: int, layout: RowLayout, count: int | None = None) -> FoundRows | None:
    """The rows, if their beginning can be found; `count` is how many there should be, if that is known."""
    for tries, place in enumerate(_places(fd, size, MAGIC)):
        if tries == _MOST_TRIES:
            return None
        table = _table_at(fd, place, layout)
        if table is not None:
            return _rows_from(fd, place + len(table.packed), size, table, layout, count)
    wide_places = _places(fd, size, _FIRST_OFFSET) if layout.frames else iter([HEADER_SIZE])
    for tries, place in enumerate(wide_places):
        if tries == _MOST_TRIES:
            return None
        first = os.pread(fd, layout.row_size, place)
        if len(first) == layout.row_size and _is_first_row(first):
            return _rows_from(fd, place, size, ShardTable(place, layout.row_size), layout, count)
    return None


def _places(fd: int, size: int, wanted: bytes) -> Iterator[int]:
    """Where these bytes are, which cannot overlap with themselves, from the file's end on."""
    end = size
    while end > HEADER_SIZE:
        begin = max(end - _AT_ONCE, HEADER_SIZE)
        block = os.pread(fd, end - begin + len(wanted) - 1, begin)
        place = block.rfind(wanted)
        while place >= 0:
            yield begin + place
            place = block.rfind(wanted, 0, place)
        end = begin


def _table_at(fd: int, place: int, layout: RowLayout) -> ShardTable | None:
    try:
        return ShardTable.parse(os.pread(fd, table_size(layout), place), place, layout, "")
    except FormatError:
        return None


def _is_first_row(row: bytes) -> bool:
    return _native.crc32c(_FIRST_NUMBER + row[:-4]) == int.from_bytes(row[-4:], "little")


def read_at(fd: int, size: int, offset: int) -> bytearray:
    """Bytes of a file, fewer if it ends before; one system call gives at most 2 GiB."""
    memory = bytearray(size)
    view, done = memoryview(memory), 0
    while done < size and (got := os.preadv(fd, [view[done : done + _LARGEST_READ]], offset + done)):
        done += got
    view.release()
    del memory[done:]
    return memory


def _rows_from(
    fd: int, place: int, size: int, table: ShardTable, layout: RowLayout, count: int | None
) -> FoundRows | None:
    most = (size - place) // table.row_size
    if count is not None:
        most = min(most, count)
    rows, intact = table.read_rows(fd, size, place, most, layout)
    if count is None:  # what lies behind the last intact row is the footer
        known = int(np.flatnonzero(intact)[-1]) + 1 if intact.any() else 0
        rows, intact = rows[:known], intact[:known]
    return FoundRows(table.frames_end, rows, intact, table.plans)
