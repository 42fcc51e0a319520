"""sample: a plan looks at a bounded part of the data, taken from all over it."""

import numpy as np
import pytest

from cordwood.codecs.choosing.sample import MOST_ARRAYS, MOST_BYTES, PIECES, sample


@pytest.mark.parametrize("count", [1, 5, 40])
@pytest.mark.parametrize(
    "shape",
    [
        (),
        (6_000_000,),
        (3, 1_500_000),
        (2, 3, 900_000),
        (600, 40, 40),
        (64, 3, 200, 200),
        (9, 9, 9, 9, 9, 9),
        (2000, 1, 2000),
    ],
)
def test_it_is_bounded(shape: tuple[int, ...], count: int) -> None:
    arrays = [np.broadcast_to(np.uint8(i), shape) for i in range(count)]
    pieces = sample(arrays)
    assert len(pieces) <= MOST_ARRAYS * PIECES
    assert sum(piece.nbytes for piece in pieces) <= 2 * MOST_BYTES
    assert {piece.ndim for piece in pieces} == {len(shape)}


def test_small_arrays_are_taken_whole() -> None:
    arrays = [np.full((3, 32, 32), i, np.uint8) for i in range(10)]
    assert [piece is array for piece, array in zip(sample(arrays), arrays, strict=True)] == [True] * 10


def test_first_and_last_are_among_many() -> None:
    pieces = sample([np.full(4, i) for i in range(1000)])
    assert len(pieces) == MOST_ARRAYS
    assert (int(pieces[0][0]), int(pieces[-1][0])) == (0, 999)


@pytest.mark.parametrize("shape", [(10_000_000,), (3, 2000, 2000), (500, 3, 100, 100), (4000, 4000)])
def test_of_a_large_array_both_ends_and_the_middle_are_seen(shape: tuple[int, ...]) -> None:
    axis = 1 if shape[0] == 3 else 0
    positions = np.linspace(0, 250, shape[axis]).astype(np.uint8)
    array = np.broadcast_to(positions.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)
    pieces = sample([array])
    assert len(pieces) == PIECES
    assert sum(piece.nbytes for piece in pieces) <= MOST_BYTES
    assert [int(piece.min()) for piece in pieces] == sorted(int(piece.min()) for piece in pieces)
    assert int(pieces[0].min()) == 0
    assert int(pieces[-1].max()) == 250
    assert all(piece.flags.c_contiguous for piece in pieces)
    if axis == 1:
        assert {piece.shape[0] for piece in pieces} == {3}  # channels stay together
