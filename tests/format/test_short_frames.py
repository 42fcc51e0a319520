"""Short frames: the plain reader of the docs reads what the page describes, and rejects all else with its reasons."""

import pytest

from tests.format.support.bad_short import BAD_SHORT, BadShort
from tests.format.support.craft import DTYPES
from tests.format.support.craft_short import one_chain, short_frame
from tests.format.support.readers import PAGE, reader, same_bits
from tests.format.support.short_samples import SHORT


@pytest.mark.parametrize("name", SHORT)
def test_reads(name: str) -> None:
    sample = SHORT[name]
    array, dtype = reader.read_short(sample.frame, sample.plan.read_by(reader))
    assert dtype == sample.plan.dtype
    assert same_bits(array, sample.array)


@pytest.mark.parametrize("name", SHORT)
def test_a_frame_that_is_cut_short_is_rejected(name: str) -> None:
    sample = SHORT[name]
    plan = sample.plan.read_by(reader)
    size = len(sample.frame)
    for end in {0, 1, 2, 3, size // 2, size - 2, size - 1} & set(range(size)):
        with pytest.raises(reader.Reject):
            reader.read_short(sample.frame[:end], plan)


@pytest.mark.parametrize("name", SHORT)
def test_bytes_behind_a_frame_are_rejected(name: str) -> None:
    sample = SHORT[name]
    with pytest.raises(reader.Reject):
        reader.read_short(sample.frame + b"\0", sample.plan.read_by(reader))


@pytest.mark.parametrize("bad", BAD_SHORT, ids=[f"{bad.reason}: {bad.label}" for bad in BAD_SHORT])
def test_rejects(bad: BadShort) -> None:
    with pytest.raises(reader.Reject) as caught:
        reader.read_short(bad.frame, None if bad.plan is None else bad.plan.read_by(reader))
    assert caught.value.reason == bad.reason


def test_every_reason_that_concerns_short_frames_has_a_case() -> None:
    assert "2 to 7, 13 and 15 concern full frames and assets only" in PAGE.read_text(encoding="utf-8")
    of_assets = {2, 3, 13}
    assert {bad.reason for bad in BAD_SHORT} == {1, *range(8, 13), 14, *range(16, 26)} | of_assets  # 26 is the caller's


def test_a_short_frame_is_no_full_one_and_the_other_way_round() -> None:
    for name in SHORT:
        with pytest.raises(reader.Reject):
            reader.read(SHORT[name].frame)
    plan = one_chain("uint8", [3]).read_by(reader)
    for first in (64, 67, 255):
        with pytest.raises(reader.Reject):
            reader.read_short(bytes([first]) + short_frame(block=b"abc")[1:], plan)


def test_a_plan_has_any_dtype_of_the_page() -> None:
    assert [reader.read_short_plan(dtype, None, [(b"", None)]).dtype for dtype in DTYPES] == list(range(len(DTYPES)))
