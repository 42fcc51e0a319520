"""Frames that are whole in themselves, but not those that the row and the schema speak of."""

from typing import Any

import numpy as np
import pytest

from cordwood.codecs import SHORT_FRAMES, Plan, encode, plan
from cordwood.native import _native
from cordwood.store.checking import frame_check
from cordwood.store.checking.frame_check import FrameChecker
from cordwood.store.format.rows import RowLayout
from cordwood.store.schema.node import Node
from cordwood.store.schema.schema import Schema

SCHEMA = Schema(
    Node("dict", keys=("x", "text", "any"), items=(Node("tensor", dtype="float32"), Node("str"), Node("any")))
)
ARRAY = np.arange(6, dtype=np.float32)
TEXT = np.frombuffer(b"Holz", np.uint8)
ANYTHING = np.array([3, 1, 7], np.uint8)  # the integer 7


def tag(frame: bytes) -> int:
    if frame[0] < SHORT_FRAMES:
        return _native.crc32c(frame)
    end = int.from_bytes(frame[6:10], "little")
    return int.from_bytes(frame[end - 4 : end], "little")


def check(*samples: list[bytes], start: int = 32, **options: Any) -> list[tuple[int, str, str]]:
    """What is wrong with samples of these frames: row, field, and why.

    `plans` are those that can be read, by name, and `named` those that the shard's table names.
    """
    rows = np.zeros(len(samples), RowLayout(SCHEMA).dtype)
    at = start
    for row, frames in zip(rows, samples, strict=True):
        row["offsets"] = np.cumsum([at, *map(len, frames)])
        row["tags"] = [tag(frame) if frame else 0 for frame in frames]
        at = int(row["offsets"][-1])
    for row, number, wrong in options.get("tags", ()):
        rows[row]["tags"][number] = wrong
    memory = np.frombuffer(b"".join(frame for frames in samples for frame in frames), np.uint8)
    checker = FrameChecker(SCHEMA, options.get("plans", {}), threads=1)
    found = checker.check(memory, start, rows, options.get("named", [None] * 3))
    return [(bad.row, bad.leaf.name, str(bad.error)) for bad in found]


def good(array: Any = ARRAY) -> list[bytes]:
    return [encode(array), encode(TEXT), encode(ANYTHING)]


def test_good_frames_of_many_samples() -> None:
    assert check(*[good(np.arange(number, dtype=np.float32)) for number in range(30)], start=5000) == []


def test_frames_that_are_not_there() -> None:
    assert check([b"", b"", b""], good(), [encode(ARRAY), b"", b""]) == []


def test_more_than_is_decoded_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_check, "_SCRATCH", 4096)
    monkeypatch.setattr(frame_check, "_MOST_AT_ONCE", 7)
    samples = [good(np.arange(number * 100, dtype=np.float32)) for number in range(30)]
    assert check(*samples) == []
    for row in (3, 17, 29):
        frame = bytearray(samples[row][0])
        frame[-1] ^= 1
        samples[row][0] = bytes(frame)
    assert [(row, name) for row, name, _ in check(*samples)] == [(3, "x"), (17, "x"), (29, "x")]


def test_the_frame_of_another_sample() -> None:
    ((row, name, why),) = check(good(), good(), tags=[(1, 0, 12345)])
    assert (row, name) == (1, "x")
    assert "not the one that was written here" in why


def test_a_frame_of_another_dtype() -> None:
    ((_, name, why),) = check([encode(np.arange(3)), encode(TEXT), encode(ANYTHING)])
    assert name == "x"
    assert "holds int64, but the field is stored as float32" in why


@pytest.mark.parametrize(
    ("array", "why"), [(TEXT.reshape(2, 2), "one dimension"), (np.array([255], np.uint8), "no UTF-8 text")]
)
def test_a_text_that_is_none(array: Any, why: str) -> None:
    ((row, name, error),) = check(good(), [encode(ARRAY), encode(array), encode(ANYTHING)])
    assert (row, name) == (1, "text")
    assert why in error


@pytest.mark.parametrize("array", [np.array([99], np.uint8), np.array([3, 5, 1], np.uint8), np.zeros(0, np.uint8)])
def test_anything_that_is_nothing(array: Any) -> None:
    ((row, name, _),) = check([encode(ARRAY), encode(TEXT), encode(array)])
    assert (row, name) == (0, "any")


def test_a_frame_for_a_larger_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_check, "physical_memory", lambda: 1000)
    found = check(good(), good(np.zeros(251, np.float32)))
    assert [(row, name) for row, name, _ in found] == [(1, "x")]
    assert "takes 1004 bytes, but this machine has 1000" in found[0][2]


def test_a_frame_without_its_plan() -> None:
    draw = np.random.default_rng(0)
    palette = draw.standard_normal(100).astype(np.float32)
    arrays = [palette[draw.integers(0, 100, 500)] for _ in range(50)]
    chosen = plan(arrays, "balanced", own=True)
    frames = [encode(arrays[0], chosen), encode(TEXT), encode(ANYTHING)]
    assert check(frames, plans={"p": chosen}) == []  # a full frame names what it needs
    assert check(frames, plans={"p": chosen}, named=["gone", None, None]) == []
    for named in (None, "gone"):
        ((_, name, why),) = check(frames, named=[named, None, None])
        assert name == "x"
        assert "plan-missing" in why


def short(array: Any, plan: Plan) -> bytes:
    made = _native.encode(array, array.shape, plan.encoder(array.ndim, short=True), 1)
    assert isinstance(made, bytes)
    assert made[0] < SHORT_FRAMES
    return made


ARRAYS = [np.arange(6, dtype=np.float32) * number for number in range(20)]
FLOATS = plan(ARRAYS, "balanced", own=True)


def test_short_frames_are_read_with_the_plan_that_the_table_names() -> None:
    frames = [short(ARRAYS[7], FLOATS), encode(TEXT), encode(ANYTHING)]
    other = plan([array[:5] for array in ARRAYS], "raw", own=True)
    assert check(frames, good(), plans={"o": other, "p": FLOATS}, named=["p", None, None]) == []
    for plans, named, why in (
        ({"p": FLOATS}, None, "plan-missing"),
        ({"o": other}, "p", "the frame needs plans/p.json, which is not there or damaged"),
        ({"p": FLOATS}, "o", "the frame needs plans/o.json, which is not there or damaged"),
        ({"p": other}, "p", "refused"),
    ):
        ((row, name, told),) = check(frames, good(), plans=plans, named=[named, None, None])
        assert (row, name) == (0, "x")
        assert why in told


def test_a_short_frame_that_is_another() -> None:
    frames = [short(ARRAYS[7], FLOATS), encode(TEXT), encode(ANYTHING)]
    ((row, name, why),) = check(frames, frames, plans={"p": FLOATS}, named=["p", None, None], tags=[(1, 0, 12345)])
    assert (row, name) == (1, "x")
    assert "not the one that was written here: it has checksum" in why


def test_a_short_frame_of_another_dtype() -> None:
    numbers = [np.arange(6) * number for number in range(9)]
    chosen = plan(numbers, "balanced", own=True)
    ((_, name, why),) = check(
        [short(numbers[3], chosen), encode(TEXT), encode(ANYTHING)], plans={"p": chosen}, named=["p", None, None]
    )
    assert name == "x"
    assert "holds int64, but the field is stored as float32" in why


def test_memory_that_ends_too_early() -> None:
    frames = good()
    rows = np.zeros(1, RowLayout(SCHEMA).dtype)
    rows["offsets"] = np.cumsum([32, *map(len, frames)])
    rows["tags"] = [tag(frame) for frame in frames]
    memory = np.frombuffer(frames[0][:-3], np.uint8)
    bad = list(FrameChecker(SCHEMA, {}, 1).check(memory, 32, rows, [None] * 3))
    assert [each.leaf.name for each in bad] == ["x", "text", "any"]
    assert bad[0].error.reason_name in ("truncated", "frame-size")
