"""Resizing gives the bytes of Pillow and the floats of torch, on every path, and refuses what cannot be."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from cordwood.native import _native
from tests.feed.support.resizing import Case, by_pillow, by_torch, cases, digests, resized

ROOT = Path(__file__).parent.parent.parent.parent


@st.composite
def drawn_cases(draw: st.DrawFn, least_width: int = 1) -> Case:
    height, width = draw(st.integers(1, 150)), draw(st.integers(1, 300))
    rows, columns = draw(st.integers(1, height)), draw(st.integers(1, width))
    box = (draw(st.integers(0, height - rows)), draw(st.integers(0, width - columns)), rows, columns)
    size = (
        draw(st.one_of(st.just(rows), st.integers(1, 120))),
        draw(st.one_of(st.just(max(columns, least_width)), st.integers(least_width, 120))),
    )
    return Case(draw(st.integers(1, 4)), height, width, box, size, draw(st.booleans()), draw(st.booleans()))


@given(drawn_cases())
@example(Case(3, 256, 256, (20, 30, 200, 200), (224, 224), False, False))
@example(Case(3, 256, 256, (0, 0, 256, 256), (224, 224), True, True))  # three taps
@example(Case(1, 8, 640, (0, 0, 8, 640), (4, 150), False, False))  # about nine taps: just within vectors
@example(Case(1, 8, 1400, (0, 0, 8, 1400), (4, 33), True, False))  # many taps, four outputs at a time and one left
@example(Case(2, 5, 15, (1, 2, 4, 13), (9, 40), False, False))  # rows shorter than a vector
@example(Case(1, 3000, 3, (0, 0, 3000, 3), (1, 40), False, False))  # a whole column in one pixel
def test_bytes_are_those_of_pillow(case: Case) -> None:
    image = case.bytes_()
    assert np.array_equal(resized(image, case), by_pillow(image, case))


@given(drawn_cases())
def test_one_call_of_pillow_differs_by_one_at_most_whatever_its_version(case: Case) -> None:
    image = case.bytes_()
    top, left, height, width = case.box
    picture = Image.fromarray(image[0]).crop((left, top, left + width, top + height))
    found = np.asarray(picture.resize(case.size[::-1], Image.Resampling.BILINEAR)).astype(int)
    ours = resized(image, case)[0].astype(int)
    assert np.abs(ours - (found[:, ::-1] if case.flip else found)).max() <= 1


# An output one pixel wide is left out: torch 2.13 gives rows of zeros for it.
@given(drawn_cases(least_width=2))
@example(Case(3, 256, 256, (20, 30, 200, 200), (224, 224), True, False))
@example(Case(1, 8, 1400, (0, 0, 8, 1400), (4, 33), False, True))
def test_floats_are_those_of_torch_but_for_rounding(case: Case) -> None:
    image = case.bytes_().astype(np.float32) - 100
    ours = resized(image, case)
    assert np.abs(ours - by_torch(image, case, torch.float64)).max() <= 1e-6 * np.abs(image).max()
    # In float32 torch's own weights are rounded more coarsely, the more so the longer a side is.
    assert np.abs(ours - by_torch(image, case, torch.float32)).max() <= 1e-4 * np.abs(image).max()


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("flip", [False, True])
def test_floats_that_are_only_cut_out_keep_every_bit(flip: bool, interleaved: bool) -> None:
    image = np.random.default_rng(0).integers(0, 1 << 32, (3, 40, 50), dtype=np.uint32).view(np.float32)
    case = Case(3, 40, 50, (3, 4, 33, 37), (33, 37), flip, interleaved)
    expected = image[:, 3:36, 4:41]
    expected = expected[..., ::-1] if flip else expected
    assert resized(image, case).tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_what_hangs_over_the_edges_is_filled_before_it_is_resized(dtype: Any) -> None:
    for case in cases(300):
        top, left, rows, columns = case.box
        image = case.bytes_().astype(dtype)
        before, after = (max(0, -top), max(0, -left)), (max(0, top + rows), max(0, left + columns))
        around = [(before[0], max(0, after[0] - case.height)), (before[1], max(0, after[1] - case.width))]
        padded = np.pad(image, [(0, 0), *around], constant_values=9)
        inside = case._replace(
            height=padded.shape[1], width=padded.shape[2], box=(top + before[0], left + before[1], rows, columns)
        )
        assert np.array_equal(resized(image, case, fill=9.0), resized(padded, inside)), case


def test_a_box_beside_the_image_is_all_fill() -> None:
    case = Case(2, 6, 6, (-20, 40, 5, 5), (7, 9), False, False)
    assert (resized(case.bytes_(), case, fill=128.0) == 128).all()


@pytest.mark.parametrize(("fill", "found"), [(300.0, 255), (-4.0, 0)])
def test_the_fill_of_bytes_stays_a_byte(fill: float, found: int) -> None:
    case = Case(1, 2, 2, (5, 5, 2, 2), (2, 2), False, False)
    assert (resized(case.bytes_(), case, fill=fill) == found).all()


@pytest.mark.slow
def test_every_processor_gives_the_same() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "tests.feed.support.resizing"],
        cwd=ROOT,
        env=os.environ | {"CORDWOOD_PORTABLE": "1"},
        capture_output=True,
        check=True,
    )
    portable = json.loads(answer.stdout)
    assert portable["fast"] is False
    assert portable["digests"] == digests()


def test_threads_and_neighbours_change_nothing() -> None:
    images = np.random.default_rng(0).integers(0, 256, (9, 3, 50, 60), dtype=np.uint8)
    boxes = np.array([[n, 2 * n, 40 - n, 40, n % 2] for n in range(9)], np.int64)
    alone = np.empty((9, 3, 32, 36), np.uint8)
    for n in range(9):
        _native.resize(images[n : n + 1], boxes[n : n + 1], alone[n : n + 1], False, 0.0, 1)
    for threads in (1, 2, 5):
        together = np.empty_like(alone)
        _native.resize(images, boxes, together, False, 0.0, threads)
        assert np.array_equal(alone, together)


def test_no_images_are_no_work() -> None:
    _native.resize(
        np.empty((0, 3, 4, 4), np.uint8), np.empty((0, 5), np.int64), np.empty((0, 3, 2, 2), np.uint8), False, 0.0, 2
    )


GOOD: dict[str, Any] = {
    "images": np.zeros((2, 3, 8, 8), np.uint8),
    "boxes": np.array([[0, 0, 4, 4, 0]] * 2, np.int64),
    "out": np.zeros((2, 3, 5, 5), np.uint8),
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("images", np.zeros((2, 3, 8), np.uint8)),
        ("images", np.zeros((2, 3, 8, 8), np.int16)),
        ("images", np.zeros((2, 3, 8, 8), np.float32)),
        ("images", np.zeros((3, 3, 8, 8), np.uint8)),
        ("images", np.zeros((2, 3, 0, 8), np.uint8)),
        ("images", np.zeros((2, 0, 8, 8), np.uint8)),
        ("boxes", np.zeros((2, 4), np.int64)),
        ("boxes", np.array([[0, 0, 4, 4, 0]] * 3, np.int64)),
        ("boxes", np.array([[0, 0, 4, 4, 0]] * 2, np.int32)),
        ("boxes", np.array([[0, 0, 4, 4, 0]] * 2, np.float64)),
        ("boxes", np.zeros(10, np.int64)),
        ("boxes", np.array([[0, 0, 4, 0, 0]] * 2, np.int64)),
        ("boxes", np.array([[0, 0, -4, 4, 0]] * 2, np.int64)),
        ("boxes", np.array([[0, 0, 4, 4, 2]] * 2, np.int64)),
        ("boxes", np.array([[0, 0, 4, 4, 0], [-(1 << 62), 0, 4, 4, 0]], np.int64)),
        ("boxes", np.array([[0, 0, 4, 4, 0], [0, 0, 4, 1 << 62, 0]], np.int64)),
        ("out", np.zeros((2, 3, 0, 5), np.uint8)),
        ("out", np.zeros((2, 4, 5, 5), np.uint8)),
        ("out", np.zeros((1, 3, 5, 5), np.uint8)),
        ("out", np.zeros((2, 3, 25), np.uint8)),
        ("out", np.zeros((2, 3, 5, 5), np.int8)),
    ],
)
def test_what_does_not_fit_together_is_refused(name: str, value: object) -> None:
    _native.resize(GOOD["images"], GOOD["boxes"], GOOD["out"], False, 0.0, 1)  # without the fault it works
    wrong = GOOD | {name: value}
    with pytest.raises(ValueError, match="resize: "):
        _native.resize(wrong["images"], wrong["boxes"], wrong["out"], False, 0.0, 1)


def test_only_memory_that_may_be_written_is() -> None:
    out = np.zeros((2, 3, 5, 5), np.uint8)
    out.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        _native.resize(GOOD["images"], GOOD["boxes"], out, False, 0.0, 1)


def test_more_than_there_is_memory_for_is_said() -> None:
    boxes = np.array([[-5, 0, 1 << 30, 1 << 30, 0]] * 2, np.int64)
    with pytest.raises(MemoryError):
        _native.resize(GOOD["images"], boxes, GOOD["out"], False, 0.0, 1)
