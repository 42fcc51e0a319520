"""Rows as they lie in a file: packed by the shard's table and unpacked again, every byte of them under a checksum."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood.errors import FormatError
from cordwood.native import _native
from cordwood.store.format.rows import RowLayout
from cordwood.store.format.shard_file import HEADER_SIZE, pack_header, pack_trailer, read_ends_of
from cordwood.store.format.shard_table import MAX_COVERED, ShardTable, table_size
from cordwood.store.schema.node import Node, scalar
from cordwood.store.schema.schema import Schema

PLANS = ("0123456789abcdef", None, "00000000000000ff")
SCHEMA = Schema(Node("tuple", items=(*(Node("str") for _ in PLANS), scalar("int"), scalar("bool"))))
LAYOUT = RowLayout(SCHEMA)
BARE = RowLayout(Schema(Node("tuple", items=(scalar("int"),))))


def rows_of(sizes: np.ndarray, tags: np.ndarray, layout: RowLayout = LAYOUT, seed: int = 0) -> bytes:
    """Rows as they are in memory, of frames that follow each other from byte 32 on."""
    count = len(sizes)
    ends = HEADER_SIZE + np.cumsum(sizes.reshape(-1)).reshape(sizes.shape)
    starts = np.concatenate([[HEADER_SIZE], ends[:-1, -1] if sizes.size else np.full(count - 1, HEADER_SIZE)])
    offsets = np.concatenate([starts[:, None], ends], axis=1).astype(np.uint64)
    chance = np.random.default_rng(seed)
    columns = chance.integers(0, 256, (count, layout.columns_size), np.uint8)
    states = np.zeros((count, layout.states_size), np.uint8)
    return layout.pack_rows(0, offsets, tags.astype(np.uint32), columns, states)


@contextmanager
def shard_of(frames: bytes, table: ShardTable, rows: bytes, layout: RowLayout) -> Iterator[int]:
    """An open file of these parts."""
    packed = table.pack_rows(layout, layout.rows(rows), 0)
    count = len(layout.rows(rows))
    at = HEADER_SIZE + len(frames) + len(table.packed)
    footer = b'{"fields":[]}'
    trailer = pack_trailer(at, count, table.row_size, len(footer), _native.crc32c(footer), 0)
    with tempfile.TemporaryFile() as file:
        file.write(pack_header(layout.schema.hash) + frames + table.packed + packed + footer + trailer)
        file.flush()
        yield file.fileno()


def read(fd: int, layout: RowLayout = LAYOUT) -> tuple[ShardTable, bytes, np.ndarray]:
    ends = read_ends_of(fd, "here")
    table = ShardTable.read(fd, "here", ends, layout)
    rows, good = table.read_rows(fd, ends.file_size, ends.rows_offset, ends.count, layout)
    return table, rows.tobytes(), good


def made(sizes: np.ndarray, covered: list[bool], seed: int) -> tuple[bytes, ShardTable, bytes]:
    """Frames of these sizes, which are short ones, their table and their rows."""
    chance = np.random.default_rng(seed)
    pieces = [[b"\1"[:size] + chance.bytes(max(size - 1, 0)) for size in of_sample] for of_sample in sizes.tolist()]
    tags = np.array([[_native.crc32c(piece) if piece else 0 for piece in row] for row in pieces])
    frames = b"".join(piece for row in pieces for piece in row)
    table = ShardTable.of(LAYOUT, HEADER_SIZE + len(frames), sizes.max(axis=0).tolist(), covered, PLANS)
    return frames, table, rows_of(sizes, tags, seed=seed)


SIZES: st.SearchStrategy[np.ndarray] = st.lists(
    st.tuples(*[st.one_of(st.just(0), st.integers(0, 40), st.integers(0, MAX_COVERED)) for _ in PLANS]),
    min_size=1,
    max_size=12,
).map(np.array)


@settings(max_examples=60)
@given(SIZES, st.lists(st.booleans(), min_size=3, max_size=3), st.integers(0, 9))
def test_what_was_packed_comes_back(sizes: np.ndarray, covered: list[bool], seed: int) -> None:
    frames, table, rows = made(sizes, covered, seed)
    assert table.plans == PLANS
    with shard_of(frames, table, rows, LAYOUT) as fd:
        found, back, good = read(fd)
    assert found == table
    assert good.all()
    width = LAYOUT.row_size
    for start in range(0, len(rows), width):  # all but the checksum, which is that of the packed row
        assert back[start : start + width - 4] == rows[start : start + width - 4]


def test_a_row_takes_a_few_bytes() -> None:
    sizes = np.full((50, 3), 40)
    _, table, _ = made(sizes, [True] * 3, 0)
    assert table.row_size == 2 + 3 + 9 + 2 + 4  # start, sizes, columns, states, checksum
    _, table, _ = made(sizes, [False] * 3, 0)
    assert table.row_size == 2 + 3 + 12 + 9 + 2 + 4


def test_rows_without_frames() -> None:
    rows = rows_of(np.zeros((4, 0), np.int64), np.zeros((4, 0)), BARE)
    table = ShardTable.of(BARE, HEADER_SIZE, [], [], [])
    assert table.row_size == 8 + 1 + 4
    with shard_of(b"", table, rows, BARE) as fd:
        found, back, good = read(fd, BARE)
    assert found == table
    assert good.all()
    assert BARE.rows(back)["offsets"].tolist() == [[32]] * 4


def test_every_byte_is_under_a_checksum() -> None:
    sizes = np.array([[3, 0, 9], [0, 5, 1], [7, 7, 7]])
    frames, table, rows = made(sizes, [True, True, False], 1)
    with shard_of(frames, table, rows, LAYOUT) as fd:
        ends = read_ends_of(fd, "here")
        whole = os.pread(fd, ends.file_size, 0)
        _, right, _ = read(fd)
    not_covered = {32 + sum(sizes.reshape(-1)[:at]) + byte for at in (2, 5, 8) for byte in range(sizes.reshape(-1)[at])}
    for at in range(HEADER_SIZE, ends.footer_offset):
        damaged = bytearray(whole)
        damaged[at] ^= 0x41
        with tempfile.TemporaryFile() as file:
            file.write(damaged)
            file.flush()
            if at < table.frames_end or at >= ends.rows_offset:
                _, back, good = read(file.fileno())
                assert (not good.all()) == (at not in not_covered)  # those have the tag in the row against them
                assert all(
                    back[row * LAYOUT.row_size : (row + 1) * LAYOUT.row_size - 4]
                    == right[row * LAYOUT.row_size : (row + 1) * LAYOUT.row_size - 4]
                    for row in np.flatnonzero(good)
                )
            else:
                with pytest.raises(FormatError, match="table at byte"):
                    read(file.fileno())


def test_rows_are_known_by_their_number() -> None:
    sizes = np.zeros((2, 3), np.int64)
    frames, table, rows = made(sizes, [True] * 3, 2)
    with shard_of(frames, table, rows, LAYOUT) as fd:
        ends = read_ends_of(fd, "here")
        one = os.pread(fd, table.row_size, ends.rows_offset)
        other = os.pread(fd, table.row_size, ends.rows_offset + table.row_size)
        os.pwrite(fd, other + one, ends.rows_offset)
        assert not read(fd)[2].any()


@pytest.mark.parametrize(
    ("at", "value"), [(4, 0), (4, 9), (8, 0), (8, 9), (9, 2), (18, 255), (19, 128)], ids=lambda number: str(number)
)
def test_tables_that_cannot_be(at: int, value: int) -> None:
    _, table, _ = made(np.ones((1, 3), np.int64), [True] * 3, 0)
    body = bytearray(table.packed[:-4])
    body[at] = value
    sealed = bytes(body) + _native.crc32c(bytes(body)).to_bytes(4, "little")
    assert len(sealed) == table_size(LAYOUT)
    with pytest.raises(FormatError, match="rows that cannot be"):
        ShardTable.parse(sealed, 99, LAYOUT, "here")


def test_a_table_of_another_schema_is_refused(tmp_path: Path) -> None:
    frames, table, rows = made(np.ones((3, 3), np.int64), [True] * 3, 0)
    with shard_of(frames, table, rows, LAYOUT) as fd, pytest.raises(FormatError, match="here: "):
        ShardTable.read(fd, "here", read_ends_of(fd, "here"), BARE)
