"""Takes a bounded sample of the data that a plan is chosen on: few arrays, and a few pieces of large ones."""

from collections.abc import Sequence

import numpy as np

from cordwood.codecs.dtypes import Array

MOST_ARRAYS = 16
MANY_ARRAYS, MANY_SMALL = 24, 2048
MOST_BYTES = 2 << 20
PIECES = 4


def sample(arrays: Sequence[Array], *, many: bool = False) -> list[Array]:
    """At most 16 arrays, evenly chosen, cut down to about 2 MiB together; `many`: 24, or more small ones."""
    most = MOST_ARRAYS
    if many:
        mean = max(1, sum(array.nbytes for array in arrays) // len(arrays))
        most = min(max(MANY_ARRAYS, MOST_BYTES // mean), MANY_SMALL)
    chosen = [arrays[i] for i in sorted({round(k) for k in np.linspace(0, len(arrays) - 1, most)})]
    budget = MOST_BYTES // len(chosen)
    return [piece for array in chosen for piece in pieces(array, budget)]


def pieces(array: Array, budget: int) -> list[Array]:
    """A large array as a few pieces of itself, together about as large as the budget."""
    if array.nbytes <= budget:
        return [array]
    # Cut where it hurts least: a batch along its first axis, an image along its rows, a line anywhere.
    axis = array.ndim - 2 if array.ndim >= 3 and array.shape[0] <= 64 else 0
    length = array.shape[axis]
    one = max(1, length * budget // array.nbytes // PIECES)
    starts = sorted({i * (length - one) // (PIECES - 1) for i in range(PIECES)})
    return [_trimmed(array.take(range(start, start + one), axis), budget // PIECES) for start in starts]


def _trimmed(piece: Array, budget: int) -> Array:
    """The beginning of a piece that is too large still, because its other axes are long: the longest ones are cut."""
    while piece.nbytes > budget and max(piece.shape) > 1:
        axis = int(np.argmax(piece.shape))
        keep = max(1, piece.shape[axis] * budget // piece.nbytes)
        piece = piece.take(range(keep), axis)
    return np.ascontiguousarray(piece)
