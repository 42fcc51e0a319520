"""The table of a shard: how its rows are packed, and which plan each field's frames are read with.

    table = ShardTable.read(fd, "train.cordwood/shard-00000000.cws", ends, layout)
    table.frames_end, table.row_size, table.plans

It lies between the frames and the rows. A shard of version 1 has none: its rows are in the file as they are in memory.
docs/format/store.md describes the bytes.
"""

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cordwood.errors import FormatError, Reason, StorageError
from cordwood.native import _native
from cordwood.store.format.rows import RowLayout
from cordwood.store.format.shard_file import HEADER_SIZE, ShardEnds

MAGIC: Final = b"CWST"
MAX_COVERED: Final = 1024  # bytes of a frame whose tag is not in the row
_HEAD = struct.Struct("<4sB3x")
_LEAF = struct.Struct("<BBQ")
_NUMBER = struct.Struct("<Q")


@dataclass(frozen=True)
class LeafLayout:
    """Of one frame leaf: bytes of a size, whether the row's checksum covers its frames, and the name of its plan."""

    width: int
    covered: bool
    plan: str | None


@dataclass(frozen=True)
class ShardTable:
    """`leaves` has an entry per frame leaf; it is None in a shard of version 1. `frames_end` is where frames end."""

    frames_end: int
    row_size: int
    start_width: int = 0
    leaves: tuple[LeafLayout, ...] | None = None

    @property
    def plans(self) -> tuple[str | None, ...]:
        """The name of the plan of each frame leaf; none in a shard of version 1, whose frames name what they need."""
        return tuple(leaf.plan for leaf in self.leaves or ())

    @property
    def packed(self) -> bytes:
        """The bytes in the file, which are what native calls take; none for version 1."""
        if self.leaves is None:
            return b""
        leaves = (_LEAF.pack(leaf.width, leaf.covered, int(leaf.plan or "0", 16)) for leaf in self.leaves)
        body = _HEAD.pack(MAGIC, self.start_width) + b"".join(leaves)
        return body + _native.crc32c(body).to_bytes(4, "little")

    @classmethod
    def of(
        cls,
        layout: RowLayout,
        frames_end: int,
        largest: Sequence[int],
        covered: Sequence[bool],
        plans: Sequence[str | None],
    ) -> "ShardTable":
        """The table of a shard whose frames end at `frames_end`; `largest` is the size of each leaf's largest frame."""
        leaves = tuple(
            LeafLayout(max(1, -(-size.bit_length() // 8)), is_covered, plan)
            for size, is_covered, plan in zip(largest, covered, plans, strict=True)
        )
        # Where no sample has a frame, not even one that lies apart, no row tells where frames begin.
        start_width = -(-frames_end.bit_length() // 8) if leaves or frames_end > HEADER_SIZE else 0
        return cls(frames_end, _row_size(layout, start_width, leaves), start_width, leaves)

    @classmethod
    def read(cls, fd: int, where: str, ends: ShardEnds, layout: RowLayout) -> "ShardTable":
        """The table of an open shard; FormatError if it is damaged, or does not fit the shard's ends or the schema."""
        if not ends.is_packed:
            table = cls(ends.rows_offset, layout.row_size)
        else:
            size = table_size(layout)
            if ends.rows_offset < HEADER_SIZE + size:
                raise FormatError(
                    f"{where}: its rows begin at byte {ends.rows_offset}, which leaves no room for its table"
                )
            table = cls.parse(_at(fd, size, ends.rows_offset - size, where), ends.rows_offset - size, layout, where)
        if ends.row_size != table.row_size:
            raise FormatError(f"{where}: rows of {ends.row_size} bytes, but those of this schema have {table.row_size}")
        return table

    @classmethod
    def parse(cls, data: bytes, frames_end: int, layout: RowLayout, where: str) -> "ShardTable":
        """The table in these bytes, which lie at `frames_end`."""
        found, written = _native.crc32c(data[:-4]), int.from_bytes(data[-4:], "little")
        if len(data) != table_size(layout) or data[:4] != MAGIC or found != written:
            raise FormatError(
                f"{where}: the table at byte {frames_end} is damaged: restore the file from a copy, or keep what is "
                "good with `cordwood verify --salvage`",
                Reason.HEADER_CHECKSUM,
            )
        _, start_width = _HEAD.unpack_from(data)
        entries = list(_LEAF.iter_unpack(data[_HEAD.size : -4]))
        leaves = tuple(
            LeafLayout(width, bool(flags), f"{plan:016x}" if plan else None) for width, flags, plan in entries
        )
        widths = [width for width, _, _ in entries]
        if not all(1 <= width <= 8 for width in widths) or any(flags > 1 for _, flags, _ in entries):
            raise FormatError(f"{where}: the table at byte {frames_end} tells of rows that cannot be", Reason.FLAGS)
        if start_width > 8 or (entries and not start_width):
            raise FormatError(f"{where}: the table at byte {frames_end} tells of rows that cannot be", Reason.FLAGS)
        return cls(frames_end, _row_size(layout, start_width, leaves), start_width, leaves)

    # ---- rows ----------------------------------------------------------------------------------------------------

    def pack_rows(self, layout: RowLayout, rows: NDArray[np.void], first: int) -> bytes:
        """Rows as they are in memory, the first being number `first` of the shard, as they are in the file."""
        count, leaves = len(rows), self.leaves or ()
        tags = np.ascontiguousarray(rows["tags"])
        of_covered = np.array([leaf.covered for leaf in leaves], np.bool_)
        starts = np.ascontiguousarray(rows["offsets"])
        sizes = np.diff(starts, axis=1)
        parts = [_low_bytes(tags[:, of_covered], 4), _low_bytes(starts[:, :1], self.start_width)]
        parts += [_low_bytes(sizes[:, [number]], leaf.width) for number, leaf in enumerate(leaves)]
        parts += [_low_bytes(tags[:, ~of_covered], 4), rows["columns"], rows["states"]]
        checked = np.concatenate(parts, axis=1)
        if checked.shape[1]:
            made = _native.crc32c_rows(checked, checked.shape[1], checked.shape[1], first)
        else:  # nothing but the number
            made = b"".join(_native.crc32c(_NUMBER.pack(first + i)).to_bytes(4, "little") for i in range(count))
        crc = np.frombuffer(made, np.uint8)
        return np.concatenate([checked[:, 4 * int(of_covered.sum()) :], crc.reshape(count, 4)], axis=1).tobytes()

    def read_rows(
        self, fd: int, size: int, rows_offset: int, count: int, layout: RowLayout
    ) -> tuple[NDArray[np.void], NDArray[np.bool_]]:
        """Rows of an open shard as they are in memory, and for each whether its checksum and its offsets are right."""
        answer: Any = _native.rows_unpack(fd, size, rows_offset, count, layout.row_size, layout.frames, self.packed)
        if isinstance(answer, int):
            raise StorageError(answer, f"{os.strerror(answer)}: the rows of a shard cannot be read")
        rows, good = answer
        return layout.rows(rows), np.frombuffer(good, np.bool_)


def table_size(layout: RowLayout) -> int:
    """Bytes of the table of a shard with this layout."""
    return _HEAD.size + _LEAF.size * layout.frames + 4


def _row_size(layout: RowLayout, start_width: int, leaves: Sequence[LeafLayout]) -> int:
    in_front = start_width + sum(leaf.width + (0 if leaf.covered else 4) for leaf in leaves)
    return in_front + layout.columns_size + layout.states_size + 4


def _low_bytes(numbers: NDArray[Any], width: int) -> NDArray[np.uint8]:
    """The `width` lowest bytes of each number, (rows, numbers * width)."""
    count, each = numbers.shape
    spread = np.ascontiguousarray(numbers).view(np.uint8).reshape(count, each, numbers.dtype.itemsize)
    return spread[:, :, :width].reshape(count, each * width)


def _at(fd: int, size: int, offset: int, where: str) -> bytes:
    try:
        return os.pread(fd, size, offset)
    except OSError as error:
        raise StorageError(error.errno, f"{error.strerror or error}: the table of the shard", where) from error
