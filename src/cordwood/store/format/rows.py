"""The layout of a row: one record of fixed size per sample, derived from the schema alone.

    >>> layout = RowLayout(schema)
    >>> rows = layout.rows(memory)            # a structured array in place
    >>> rows["offsets"][:, 0]

A row is (frames + 1) u64 offsets, a u32 tag a frame, the columns, two bits of state a place, and a u32 checksum of the
row's number in its shard and of all that. The column of an array has the array's bytes, or tells where the frame of an
array of another shape is, which lies *apart*, behind the sample's other frames. docs/format/store.md has the rules.
"""

import itertools
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cordwood.codecs import DTYPES
from cordwood.errors import FormatError, UsageError
from cordwood.native import _native
from cordwood.store.schema.node import DICTS
from cordwood.store.schema.schema import ABSENT, APART, PRESENT, Leaf, Schema

_STATES_A_BYTE: Final = 4
_SHIFTS: Final = np.array([0, 2, 4, 6], np.uint8)
APART_BYTES: Final = 12  # where a frame begins and how many bytes it has, 48 bits each
MOST_APART: Final = 1 << 48


class ApartFrames(NamedTuple):
    """Where the frames of one column array are that lie apart; an item a row that has one."""

    leaf: Leaf
    rows: NDArray[np.intp]
    begins: NDArray[np.uint64]
    sizes: NDArray[np.uint64]


class RowLayout:
    """The bytes of a row.

    ``dtype`` is that of a row (offsets, tags, columns, states, crc), ``row_size`` its bytes; ``column_slices`` and
    ``column_dtypes`` say where in ``columns`` the value of each column leaf lies, and how NumPy sees it.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.frames = len(schema.frames)
        self.column_dtypes = tuple(_column_dtype(leaf) for leaf in schema.columns)
        widths = (
            max(dtype.itemsize, APART_BYTES if leaf.is_column_array else 0)
            for leaf, dtype in zip(schema.columns, self.column_dtypes, strict=True)
        )
        ends = np.cumsum([0, *widths]).tolist()
        self.column_slices = tuple(slice(start, end) for start, end in itertools.pairwise(ends))
        self.columns_size: int = ends[-1]
        self.states_size = -(-len(schema.places) // _STATES_A_BYTE)
        self.dtype: np.dtype[np.void] = np.dtype(
            [
                ("offsets", "<u8", (self.frames + 1,)),
                ("tags", "<u4", (self.frames,)),
                ("columns", "u1", (self.columns_size,)),
                ("states", "u1", (self.states_size,)),
                ("crc", "<u4"),
            ]
        )
        self.row_size = self.dtype.itemsize
        self._rule = _Rule(schema)

    def pack_rows(
        self,
        first: int,
        offsets: NDArray[np.uint64],
        tags: NDArray[np.uint32],
        columns: NDArray[np.uint8],
        states: NDArray[np.uint8],
    ) -> bytes:
        """The rows of some samples that follow each other, the first one having the number `first` in its shard.

        `offsets` is (samples, frames + 1), `tags` (samples, frames); columns and states are those of :class:`Flat`, a
        sample after the other.
        """
        count = len(columns)
        if offsets.shape != (count, self.frames + 1) or tags.shape != (count, self.frames) or len(states) != count:
            raise UsageError(f"{count} rows of {self.frames} frames, but {offsets.shape}, {tags.shape}, {len(states)}")
        rows = np.zeros(count, self.dtype)
        rows["offsets"] = offsets
        rows["tags"] = tags
        rows["columns"] = columns
        rows["states"] = states
        rows["crc"] = self._checksums(rows, first)
        return rows.tobytes()

    def rows(self, memory: Any) -> NDArray[np.void]:
        """Bytes of a shard as rows, in place; nothing but their size is looked at."""
        found = np.frombuffer(memory, np.uint8)
        if found.size % self.row_size:
            raise FormatError(f"{found.size} bytes are no whole number of rows of {self.row_size} bytes")
        return found.view(self.dtype)

    def intact(self, rows: NDArray[np.void], first: int) -> NDArray[np.bool_]:
        """For each row whether its checksum fits; `first` is the number of the first one in its shard."""
        return np.asarray(rows["crc"] == self._checksums(np.ascontiguousarray(rows), first))

    def states(self, rows: NDArray[np.void]) -> NDArray[np.uint8]:
        """The states of all places, (rows, places), unpacked; :meth:`sound` says whether they can be."""
        return unpack_states(rows["states"], len(self.schema.places))

    def sound(self, rows: NDArray[np.void], rows_offset: int) -> NDArray[np.bool_]:
        """For each row whether it tells of something that can be: its states, and frames in front of `rows_offset`."""
        offsets = rows["offsets"]
        good = (offsets[:, 0] >= 32) & (offsets[:, -1] <= rows_offset) & (offsets[:, 1:] >= offsets[:, :-1]).all(axis=1)
        states = self.states(rows)
        good &= self._rule.holds(states)
        for leaf in self.schema.frames:
            there = offsets[:, leaf.frame] < offsets[:, leaf.frame + 1]
            good &= there == (states[:, leaf.state] == PRESENT if leaf.state >= 0 else True)
            good &= there | (rows["tags"][:, leaf.frame] == 0)
        end = offsets[:, -1].copy()
        for apart in self.apart(rows):
            follows = (apart.begins == end[apart.rows]) & (apart.sizes > 0)
            end[apart.rows] += apart.sizes
            good[apart.rows] &= follows & (end[apart.rows] <= rows_offset)
        return np.asarray(good)

    def apart(self, rows: NDArray[np.void]) -> list[ApartFrames]:
        """Where the frames are that lie apart, by column arrays, in the order in which they follow each other."""
        found = []
        states = self.states(rows) if self.schema.column_arrays else None
        for leaf in self.schema.column_arrays:
            numbers = np.flatnonzero(states[:, leaf.state] == APART) if states is not None else np.empty(0, np.intp)
            if len(numbers):
                told = np.zeros((len(numbers), 2, 8), np.uint8)
                start = self.column_slices[leaf.column].start
                told[:, :, :6] = rows["columns"][numbers, start : start + APART_BYTES].reshape(-1, 2, 6)
                begins, sizes = told.reshape(-1, 16).view("<u8").T
                found.append(ApartFrames(leaf, numbers, begins, sizes))
        return found

    def ends(self, rows: NDArray[np.void]) -> NDArray[np.uint64]:
        """Where the last frame of each sample ends, of those that lie apart, too."""
        found = rows["offsets"][:, -1].copy()
        for apart in self.apart(rows):
            found[apart.rows] += apart.sizes
        return found

    def column(self, rows: NDArray[np.void], number: int) -> NDArray[np.generic]:
        """The values of one column leaf, a copy; zero where there is none, of no meaning where it is apart."""
        dtype, shape = self.column_dtypes[number].base, self.column_dtypes[number].shape
        start = self.column_slices[number].start
        values = np.ascontiguousarray(rows["columns"][:, start : start + self.column_dtypes[number].itemsize])
        return (values != 0 if dtype == np.bool_ else values.view(dtype)).reshape(len(rows), *shape)

    def _checksums(self, rows: NDArray[np.void], first: int) -> NDArray[np.uint32]:
        found = _native.crc32c_rows(rows.view(np.uint8), self.row_size, self.row_size - 4, first)
        return np.frombuffer(found, "<u4")


def _column_dtype(leaf: Leaf) -> "np.dtype[Any]":
    """As NumPy sees the values of a column: with a shape, if they are arrays."""
    dtype = DTYPES[leaf.node.dtype].numpy.newbyteorder("<")
    return dtype if leaf.node.shape is None else np.dtype((dtype, leaf.node.shape))


def pack_apart(begin: int, size: int) -> bytes:
    """What a column has in front, instead of an array, where the frame lies apart."""
    if max(begin, size) >= MOST_APART:
        raise UsageError(
            f"a frame of {size} bytes at byte {begin} of a shard: a shard has less than {MOST_APART} bytes"
        )
    return begin.to_bytes(6, "little") + size.to_bytes(6, "little")


def pack_states(states: bytes | bytearray) -> bytes:
    """Two bits a place, the first one in the lowest bits of the first byte."""
    packed = bytearray(-(-len(states) // _STATES_A_BYTE))
    for number, state in enumerate(states):
        packed[number >> 2] |= state << (number & 3) * 2
    return bytes(packed)


def unpack_states(packed: NDArray[np.uint8], places: int) -> NDArray[np.uint8]:
    """(rows, bytes) to (rows, places)."""
    spread = (packed[:, :, None] >> _SHIFTS) & np.uint8(3)
    return spread.reshape(len(packed), -1)[:, :places].astype(np.uint8, copy=False)


class _Rule:
    """Which states can stand beside each other."""

    def __init__(self, schema: Schema) -> None:
        self.parents = np.array([place.parent for place in schema.places], np.intp)
        containers = [schema.places[parent].node if parent >= 0 else schema.root for parent in self.parents]
        self.may_miss = np.array([node.kind in DICTS for node in containers], np.bool_)
        self.is_none = np.array([place.node.kind == "none" for place in schema.places], np.bool_)
        self.may_be_apart = np.array([place.node.shape is not None for place in schema.places], np.bool_)

    def holds(self, states: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """For each row of states."""
        if not self.parents.size:
            return np.ones(len(states), np.bool_)
        above = np.where(self.parents < 0, PRESENT, states[:, self.parents])
        there = above == PRESENT
        good = np.where(there, (states != ABSENT) | self.may_miss, states == ABSENT)
        good &= (states != APART) | self.may_be_apart
        good &= (states != PRESENT) | ~self.is_none
        return np.asarray(good.all(axis=1))
