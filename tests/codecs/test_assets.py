"""assets: what a plan owns, as bytes that the page describes, named by their hash."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.codecs.assets import Assets, varint
from cordwood.errors import FormatError
from tests.format.support import craft
from tests.format.support.readers import reader


@given(st.integers(0, 2**64 - 1))
def test_varint(n: int) -> None:
    assert reader.Fields(varint(n), short=1).varint() == n
    assert varint(n) == craft.varint(n)


def test_nothing_owned_is_nothing_written() -> None:
    assert Assets.of().encoded == b""
    assert Assets().hash == craft.hash_of(b"")


def test_parts_are_where_the_page_puts_them() -> None:
    values = np.array([3, 1, 2], "<u4")
    palette = craft.owned_palette("float32", [values])
    tables = craft.owned_tables(craft.HUFFMAN, 11, 1, craft_one_table())
    expected = craft.assets(palette, tables, b"words")
    made = Assets.of(palette=palette[1:], tables=tables[1:], dictionary=b"words")
    assert made.encoded == expected
    assert made.hash == craft.hash_of(expected)
    read = reader.read_plan(made.encoded)
    assert (read.palette[3][0].tolist(), read.dictionary) == ([3, 1, 2], b"words")


def craft_one_table() -> bytes:
    """A table of one symbol: its lowest and its highest are the same."""
    return craft.BitWriter().put(65, 8).put(65, 8).to_bytes()


@pytest.mark.parametrize(
    ("encoded", "reason"),
    [
        (b"CWPX\1\0\0\0\0", 2),
        (b"CWPL\2\0\0\0\0", 3),
        (b"CWPL\1\0\0", 1),
        (b"CWPL\1\0\2\0\0", 12),
        (b"CWPL\1\0\0\2\0", 22),
        (b"CWPL\1\0\0\0\0!", 13),
    ],
)
def test_bad_assets_are_refused_where_they_are_given(encoded: bytes, reason: int) -> None:
    with pytest.raises(FormatError, match=rf"plan refused \({reason}, ") as caught:
        Assets(encoded)
    assert caught.value.reason == reason
