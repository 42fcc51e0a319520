"""Every numbered reason to reject a frame: the plain reader and the native one both give that very number."""

import re

import numpy as np
import pytest

from cordwood.errors import REASONS, FormatError, Reason
from tests.format.support import craft
from tests.format.support.bad_blocks import bad_blocks
from tests.format.support.bad_headers import Bad, bad_headers
from tests.format.support.craft import chain, frame
from tests.format.support.readers import PAGE, native_read, reader

BAD = bad_headers() + bad_blocks()

each_bad_frame = pytest.mark.parametrize("bad", BAD, ids=[f"{REASONS[bad.reason]}: {bad.label}" for bad in BAD])


def test_every_reason_of_the_page_has_a_case() -> None:
    rows = re.findall(r"^\| (\d+) \| ([a-z0-9-]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {int(number): name for number, name in rows} == REASONS
    assert {bad.reason for bad in BAD} | {Reason.LIMIT} == set(REASONS)


@each_bad_frame
def test_plain_reader(bad: Bad) -> None:
    with pytest.raises(reader.Reject) as caught:
        reader.read(bad.frame, bad.owned)
    assert caught.value.reason == bad.reason


@each_bad_frame
def test_native_reader(bad: Bad) -> None:
    with pytest.raises(FormatError) as caught:
        native_read(bad.frame, bad.assets)
    assert caught.value.reason == bad.reason


def _large_palettes() -> bytes:
    """A small frame of a small array, whose palettes, when computed, take 128 MiB."""
    formula = craft.palette_formula(65536, [(0, 0, [1.0])], bits=16, axis=0)
    return frame("float64", (256, 1), chain(formula), [np.zeros(256, "<u2").tobytes()])


HUGE = {
    "array of 2^40 bytes that needs no blocks": frame("uint8", (2**40,), chain(craft.narrow(7, 0))),
    "array of 2^55 bytes that needs no blocks": frame("uint64", (2**47, 32), chain(craft.narrow(7, 0))),
    "array just above": frame("uint8", (2**20 + 1,), chain(craft.narrow(7, 0))),
    "palettes of 128 MiB": _large_palettes(),
}


@pytest.mark.parametrize("name", HUGE)
def test_limit(name: str) -> None:
    with pytest.raises(FormatError) as caught:
        native_read(HUGE[name], limit=2**20)
    assert caught.value.reason == Reason.LIMIT


def test_what_the_limit_allows() -> None:
    array, _ = native_read(frame("uint8", (2**20,), chain(craft.narrow(7, 0))), limit=2**20)
    assert array.shape == (2**20,)
    assert (array == 7).all()
