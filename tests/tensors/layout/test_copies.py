"""Copies: what they move, and that none is done twice."""

import numpy as np
import pytest

from cordwood.tensors.layout.copies import Copy, copy_bytes, copy_elements, copy_in_place, joined
from cordwood.tensors.layout.overlap import Reach


@pytest.mark.parametrize("run", [1, 2, 3, 4, 7, 8, 16, 100])
@pytest.mark.parametrize(("src_offset", "dst_offset"), [(0, 0), (5, 3)])
def test_runs_of_any_length_from_any_offset(run: int, src_offset: int, dst_offset: int) -> None:
    source = np.random.default_rng(run).integers(0, 256, 5000, dtype=np.uint8)
    out = np.zeros(5000, np.uint8)
    expected = out.copy()
    for i in range(4):
        for j in range(3):
            old, new = src_offset + 1000 * i + 201 * j, dst_offset + 900 * i + 101 * j
            expected[new : new + run] = source[old : old + run]
    copy_bytes(Copy(src_offset, dst_offset, (4, 3), (1000, 201), (900, 101), run), source, out)
    assert out.tolist() == expected.tolist()


def test_a_read_only_source_will_do() -> None:
    out = np.zeros(3, np.uint8)
    copy_bytes(Copy(1, 0, (3,), (2,), (1,), 1), np.frombuffer(b"abcdefgh", np.uint8), out)
    assert out.tobytes() == b"bdf"


def test_a_copy_never_leaves_its_buffers() -> None:
    with pytest.raises((TypeError, ValueError)):
        copy_bytes(Copy(0, 0, (3,), (4,), (4,), 4), np.zeros(12, np.uint8), np.zeros(11, np.uint8))
    with pytest.raises((TypeError, ValueError)):
        copy_bytes(Copy(4, 0, (3,), (4,), (4,), 4), np.zeros(12, np.uint8), np.zeros(12, np.uint8))


def test_dimensions_fold_where_both_sides_allow_it() -> None:
    # A contiguous row is a run; rows that follow alike on both sides are one dimension.
    assert copy_elements(0, 0, 4, (6, 5), (40, 4), (20, 4)) == Copy(0, 0, (6,), (40,), (20,), 20)
    assert copy_elements(0, 0, 4, (3, 6, 5), (240, 40, 4), (120, 20, 4)) == Copy(0, 0, (18,), (40,), (20,), 20)
    assert copy_elements(0, 8, 4, (5, 1, 6, 9), (4, 99, 40, 0), (4, 99, 20, 0)) == Copy(0, 8, (6,), (40,), (20,), 20)
    # Not where one side has a gap, ...
    assert copy_elements(0, 0, 4, (3, 6), (240, 40), (100, 20)) == Copy(0, 0, (3, 6), (240, 40), (100, 20), 4)
    # ... nor where both have one, ...
    assert copy_elements(0, 0, 4, (3, 5), (240, 40), (120, 20)) == Copy(0, 0, (3, 5), (240, 40), (120, 20), 4)
    # ... nor where items are close in the old storage alone.
    assert copy_elements(0, 0, 4, (5,), (4,), (8,)) == Copy(0, 0, (5,), (4,), (8,), 4)


def test_in_place() -> None:
    reach = Reach(20, 74, 4, ((6, 10),))
    assert copy_in_place(reach, 12, 3) == Copy(8, 11, (6,), (10,), (10,), 4)


def rows(first: int, count: int, *, dst: int | None = None) -> Copy:
    return Copy(40 * first, 20 * first if dst is None else dst, (count,), (40,), (20,), 12)


@pytest.mark.parametrize(
    ("copies", "together"),
    [
        pytest.param([rows(0, 3), rows(0, 3)], [rows(0, 3)], id="the same"),
        pytest.param([rows(2, 5), rows(0, 3)], [rows(0, 7)], id="overlapping"),
        pytest.param([rows(0, 3), rows(3, 2)], [rows(0, 5)], id="adjoining"),
        pytest.param([rows(0, 9), rows(3, 2)], [rows(0, 9)], id="inside"),
        pytest.param([rows(0, 3), rows(4, 2)], [rows(0, 3), rows(4, 2)], id="apart"),
        pytest.param([rows(0, 3), rows(3, 2, dst=64)], [rows(0, 3), rows(3, 2, dst=64)], id="going elsewhere"),
        pytest.param(
            [Copy(0, 4, (), (), (), 10), Copy(10, 14, (), (), (), 5), Copy(2, 6, (), (), (), 3)],
            [Copy(0, 4, (), (), (), 15)],
            id="runs",
        ),
        pytest.param(
            [Copy(0, 4, (), (), (), 10), Copy(11, 15, (), (), (), 5), Copy(2, 7, (), (), (), 3)],
            [Copy(0, 4, (), (), (), 10), Copy(2, 7, (), (), (), 3), Copy(11, 15, (), (), (), 5)],
            id="runs apart",
        ),
    ],
)
def test_joined(copies: list[Copy], together: list[Copy]) -> None:
    assert sorted(joined(copies), key=lambda copy: copy.src_offset) == together


def test_a_copy_knows_when_it_leaves_no_gap() -> None:
    assert Copy(0, 0, (3, 2), (99, 9), (8, 4), 4).fills(24)
    assert not Copy(0, 0, (3, 2), (99, 9), (8, 4), 4).fills(25)
    assert not Copy(0, 0, (3, 2), (99, 9), (12, 4), 4).fills(32)
    assert not Copy(0, 0, (2, 2), (3, 2), (3, 2), 1).fills(4)
