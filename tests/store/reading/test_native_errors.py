"""What the native reader finds wrong becomes an error that names the place and what is lost."""

import re
from pathlib import Path

import pytest

from cordwood.errors import REASONS, FormatError
from cordwood.store.reading import native_errors
from cordwood.store.reading.native_errors import fault_error

HEADER = Path(__file__).parents[3] / "src" / "cordwood" / "native" / "store" / "store.h"


def test_the_numbers_are_those_of_the_native_code() -> None:
    native = {name: int(number) for name, number in re.findall(r"CW_(\w+) = (\d+)", HEADER.read_text())}
    here = {
        "OUT_SHAPE": native_errors.OUT_SHAPE,
        "OUT_DTYPE": native_errors.OUT_DTYPE,
        "ROW_CHECKSUM": native_errors._ROW_CHECKSUM,
        "ROW_OFFSETS": native_errors._ROW_OFFSETS,
        "CUT_SHORT": native_errors._CUT_SHORT,
        "ROW_TAG": native_errors._ROW_TAG,
    }
    assert {name: native[name] for name in here} == here
    assert not set(native.values()) & set(REASONS)


@pytest.mark.parametrize("reason", REASONS)
def test_what_is_wrong_with_a_frame_keeps_its_reason(reason: int) -> None:
    error = fault_error("s/shard-00000003.cws: sample 7", (0, reason, "something", 1, 2, 3, 0))
    assert type(error) is FormatError
    assert error.reason == reason
    assert str(error).startswith("s/shard-00000003.cws: sample 7")
    assert "The other samples can be read" in str(error)


@pytest.mark.parametrize(
    ("reason", "says"),
    [
        (native_errors._CUT_SHORT, "the file ends before byte 1002, inside a thing: it was cut short"),
        (native_errors._ROW_CHECKSUM, "the row at byte 1000 has checksum 0x00000001, but 0x00000002 was written"),
        (native_errors._ROW_OFFSETS, "thing is 1, which is before 2 or behind the frames"),
        (
            native_errors._ROW_TAG,
            "the frame at byte 1000 has the header checksum 0x00000001, but the row says 0x00000002",
        ),
        (native_errors.OUT_DTYPE, "the frame holds dtype number 1"),
        (999, "thing: found 1, expected 2"),
    ],
)
def test_what_is_wrong_with_a_row_is_told(reason: int, says: str) -> None:
    error = fault_error("x.cws: sample 7", (0, reason, "thing", 1, 2, 1000, 0))
    assert type(error) is FormatError
    assert str(error).startswith("x.cws: sample 7: ")
    assert says in str(error)


@pytest.mark.parametrize(
    ("what", "says", "reason"),
    [
        ("checksum of the frame", "has checksum 0x00000043, but the row says 0x0000003f: it is not what was", 15),
        (
            "first byte of a frame that the row covers",
            "the row covers, at byte 1000, is 67, which is no short one's",
            0,
        ),
    ],
)
def test_what_is_wrong_with_a_short_frame_is_told(what: str, says: str, reason: int) -> None:
    assert f'"{what}"' in (HEADER.parent / "shards.c").read_text()
    error = fault_error("x.cws: sample 7", (0, native_errors._ROW_TAG, what, 67, 63, 1000, 0))
    assert error.reason == reason
    assert says in str(error)
