"""Rows: where their parts lie, their checksums, and what they may tell."""

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import FormatError, UsageError
from cordwood.native import _native
from cordwood.store.format.rows import RowLayout, pack_states, unpack_states
from cordwood.store.schema.node import Node, scalar
from cordwood.store.schema.schema import Schema
from cordwood.store.writing.flatten import flatten
from cordwood.store.writing.infer import infer
from tests.store.support.apart import bytes_of, rows_of
from tests.store.support.samples import datasets

SCHEMA = Schema(
    Node(
        "dict",
        (
            Node("tensor", dtype="uint8"),
            scalar("int"),
            Node("tuple", (Node("str"), scalar("bool"))),
            Node("none"),
            scalar("tensor", "bfloat16"),
        ),
        ("image", "label", "pair", "nothing", "weight"),
    )
)
STATES = bytes([0, 0, 0, 0, 0, 2, 0])  # image, label, pair, pair.0, pair.1, nothing, weight
COLUMNS = struct.pack("<q?H", -5, True, 0x3F80)


def packed(states: bytes = STATES, offsets: tuple[int, ...] = (32, 40, 50), tags: tuple[int, ...] = (7, 8)) -> bytes:
    return RowLayout(SCHEMA).pack_rows(
        9,
        np.array([offsets], np.uint64),
        np.array([tags], np.uint32),
        bytes_of([COLUMNS]),
        bytes_of([pack_states(states)]),
    )


def test_the_bytes_of_a_row() -> None:
    expected = struct.pack("<3Q2I", 32, 40, 50, 7, 8) + COLUMNS + bytes([0, 0b00_00_10_00])
    checksum = _native.crc32c(struct.pack("<Q", 9) + expected)
    assert packed() == expected + struct.pack("<I", checksum)
    layout = RowLayout(SCHEMA)
    assert layout.row_size == len(expected) + 4
    assert layout.column_slices == (slice(0, 8), slice(8, 9), slice(9, 11))
    assert [dtype.name for dtype in layout.column_dtypes] == ["int64", "bool", "uint16"]


def test_a_schema_without_frames_columns_or_places() -> None:
    for tree in (Node("dict"), scalar("int"), Node("str"), Node("tuple", (Node("none"),))):
        schema = Schema(tree)
        layout = RowLayout(schema)
        count = len(schema.frames)
        rows = layout.pack_rows(
            0,
            np.tile(np.arange(32, 33 + count, dtype=np.uint64), (2, 1)),
            np.ones((2, count), np.uint32),
            bytes_of([bytes(layout.columns_size)] * 2),
            bytes_of([pack_states(bytes([2] * len(schema.places)))] * 2),
        )
        assert len(rows) == 2 * layout.row_size
        assert layout.intact(layout.rows(rows), 0).all()
        assert layout.sound(layout.rows(rows), 40).all()
        assert layout.rows(b"").size == 0
        assert layout.intact(layout.rows(b""), 0).size == 0


@given(st.integers(0, 8 * RowLayout(SCHEMA).row_size - 1))
def test_a_flipped_bit_is_seen(bit: int) -> None:
    damaged = bytearray(packed())
    damaged[bit // 8] ^= 1 << bit % 8
    layout = RowLayout(SCHEMA)
    assert not layout.intact(layout.rows(damaged), 9)[0]


def test_a_row_at_another_place_is_seen() -> None:
    layout = RowLayout(SCHEMA)
    rows = layout.rows(packed())
    assert layout.intact(rows, 9).tolist() == [True]
    assert layout.intact(rows, 8).tolist() == [False]


def test_columns_are_read_back() -> None:
    layout = RowLayout(SCHEMA)
    rows = layout.rows(packed() + packed())
    assert layout.column(rows, 0).tolist() == [-5, -5]
    assert layout.column(rows, 1).tolist() == [True, True]
    assert layout.column(rows, 2).tolist() == [0x3F80] * 2
    twos = bytearray(packed())
    twos[layout.dtype.fields["columns"][1] + 8] = 2  # type: ignore[index]
    assert layout.column(layout.rows(twos), 1).view(np.uint8).tolist() == [1]


@pytest.mark.parametrize(
    ("change", "good"),
    [
        ({}, True),
        ({"states": bytes([0, 1, 0, 0, 0, 2, 0])}, True),
        ({"states": bytes([0, 2, 0, 0, 2, 1, 0])}, True),
        ({"states": bytes([0, 0, 2, 1, 1, 2, 0]), "offsets": (32, 40, 40), "tags": (7, 0)}, True),
        ({"states": bytes([0, 0, 1, 1, 1, 2, 0]), "offsets": (32, 40, 40), "tags": (7, 0)}, True),
        ({"states": bytes([1, 0, 0, 0, 0, 2, 0]), "offsets": (40, 40, 50), "tags": (0, 8)}, True),
        ({"states": bytes([0, 3, 0, 0, 0, 2, 0])}, False),
        ({"states": bytes([0, 0, 0, 0, 1, 2, 0])}, False),  # a tuple without one of its items
        ({"states": bytes([0, 0, 0, 0, 0, 0, 0])}, False),  # present, but always None
        ({"states": bytes([0, 0, 2, 1, 0, 2, 0]), "offsets": (32, 40, 40), "tags": (7, 0)}, False),
        ({"states": bytes([1, 0, 0, 0, 0, 2, 0])}, False),  # absent, but with a frame
        ({"offsets": (32, 32, 50)}, False),  # present, but without a frame
        ({"states": bytes([2, 0, 0, 0, 0, 2, 0]), "offsets": (40, 40, 50)}, False),  # no frame, but a tag
        ({"offsets": (31, 40, 50)}, False),
        ({"offsets": (32, 40, 51)}, False),
        ({"offsets": (32, 60, 50)}, False),
        ({"offsets": (32, 40, (1 << 64) - 1)}, False),
    ],
)
def test_what_a_row_may_tell(change: dict[str, Any], good: bool) -> None:
    layout = RowLayout(SCHEMA)
    rows = layout.rows(packed(**change))
    assert layout.intact(rows, 9).all()
    assert layout.sound(rows, 50).tolist() == [good]


@given(st.lists(st.integers(0, 3), max_size=20))
def test_states_are_packed_two_bits_each(states: list[int]) -> None:
    data = pack_states(bytes(states))
    assert int.from_bytes(data, "little") == sum(state << 2 * place for place, state in enumerate(states))
    assert len(data) == (len(states) + 3) // 4
    unpacked = unpack_states(np.frombuffer(data, np.uint8)[None], len(states))
    assert unpacked.tolist() == [states]


@given(datasets())
def test_rows_of_any_samples_are_sound(samples: list[Any]) -> None:
    schema = infer(samples)
    layout = RowLayout(schema)
    rows = layout.rows(rows_of(schema, [flatten(schema, sample) for sample in samples], first=3))
    assert layout.intact(rows, 3).all()
    end = int(rows["offsets"][-1, -1])
    assert layout.sound(rows, end).all()


def test_wrong_sizes_are_refused() -> None:
    layout = RowLayout(SCHEMA)
    with pytest.raises(FormatError, match="no whole number of rows"):
        layout.rows(packed()[:-1])
    empty = np.zeros((1, 2), np.uint64)
    with pytest.raises(UsageError, match="1 rows of 2 frames"):
        layout.pack_rows(0, empty, empty.astype(np.uint32), bytes_of([COLUMNS]), bytes_of([b"\0\0"]))
