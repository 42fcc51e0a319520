"""Finds the rows of a shard that lost its trailer, such as a truncated file.

    found = find_rows(fd, size, layout)
    found.rows_offset, found.rows, found.intact

Every row has a checksum over its number and its bytes, and the first one begins with the offset of the first frame,
which is known: 32. So the file is searched from its end for these eight bytes where a row with that checksum begins.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cordwood.native import _native
from cordwood.store.format.rows import RowLayout
from cordwood.store.format.shard_file import HEADER_SIZE

_FIRST_OFFSET = struct.pack("<Q", HEADER_SIZE)
_FIRST_NUMBER = bytes(8)
_AT_ONCE = 1 << 20
_LARGEST_READ = 1 << 30
_MOST_TRIES = 1 << 20  # a file may be full of what is looked for


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Rows that lie at `rows_offset`; those that are not `intact` are damaged, or no rows at all."""

    rows_offset: int
    rows: npt.NDArray[np.void]
    intact: npt.NDArray[np.bool_]


def find_rows(fd: int, size: int, layout: RowLayout, count: int | None = None) -> FoundRows | None:
    """The rows, if their beginning can be found; `count` is how many there should be, if that is known."""
    for tries, place in enumerate(_places(fd, size, layout)):
        if tries == _MOST_TRIES:
            return None
        first = os.pread(fd, layout.row_size, place)
        if len(first) == layout.row_size and _is_first_row(first):
            return _rows_from(fd, place, size, layout, count)
    return None


def _places(fd: int, size: int, layout: RowLayout) -> Iterator[int]:
    """Where the rows may begin, the most likely place first."""
    if not layout.frames:
        yield HEADER_SIZE
        return
    end = size
    while end > HEADER_SIZE:
        begin = max(end - _AT_ONCE, HEADER_SIZE)
        block = os.pread(fd, end - begin + len(_FIRST_OFFSET) - 1, begin)
        place = block.rfind(_FIRST_OFFSET)
        while place >= 0:
            yield begin + place
            # The bytes are a 32 and seven zeros, which cannot overlap with themselves.
            place = block.rfind(_FIRST_OFFSET, 0, place)
        end = begin


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


def _rows_from(fd: int, place: int, size: int, layout: RowLayout, count: int | None) -> FoundRows:
    most = (size - place) // layout.row_size
    if count is not None:
        most = min(most, count)
    data = read_at(fd, most * layout.row_size, place)
    rows = layout.rows(data[: len(data) // layout.row_size * layout.row_size])
    intact = layout.intact(rows, 0)
    if count is None:  # what lies behind the last intact row is the footer
        known = int(np.flatnonzero(intact)[-1]) + 1
        rows, intact = rows[:known], intact[:known]
    return FoundRows(place, rows, intact)
