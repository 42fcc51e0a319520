"""Computes the order of an epoch place by place: stores no array of numbers, and is the same for a seed forever.

    >>> Shuffled(10, seed=0, epoch=0).at(np.arange(10))
    array([5, 0, 1, 4, 8, 9, 2, 7, 3, 6])
    >>> Shuffled(10**12, seed=0, epoch=0).at(np.array([0, 1, 999_999_999_999]))
    array([ 76296404245, 908030148452, 958723751348])

A dataset's order under a seed is a promise that outlives versions of this package and of NumPy, so nothing here comes
from a generator of theirs: docs/format/order.md tells every step. All of it is 64-bit arithmetic that wraps around.
"""

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from cordwood.errors import UsageError
from cordwood.store import Numbers

Words = npt.NDArray[np.uint64]

LONGEST: Final = 1 << 62
# What a hash is for: the place of a sample must tell nothing about the seed of its augmentation.
ORDER, SAMPLE, WEIGHTS, SAMPLER = 1, 2, 3, 4

_MASK: Final = (1 << 64) - 1
_GAMMA, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # SplitMix64's
_SORTED: Final = 1 << 16  # up to this length the order is a sort: at most half a megabyte, and perfectly uniform
_ROUNDS: Final = 8


def mixed(*parts: int | Words) -> Words:
    """A hash of whole numbers, each an int or an array; of arrays, one a place.

    ::

        mixed(seed, epoch, np.arange(64, dtype=np.uint64))     # 64 hashes

    Ints are taken modulo 2**64. With all parts but one fixed, different values of that one never collide.
    """
    state: int | Words = 0
    for part in parts:
        if isinstance(part, np.ndarray):
            state = _scrambled(np.bitwise_xor(part.astype(np.uint64, copy=False), _word(state)))
        elif isinstance(state, np.ndarray):
            state = _scrambled(np.bitwise_xor(state, _word(part)))
        else:
            state = _scrambled_int(state ^ int(part))
    return state if isinstance(state, np.ndarray) else np.array(state, np.uint64)


def sample_seeds(seed: int, epoch: int, numbers: Numbers) -> Words:
    """The seed of every sample in an epoch, by its number in the dataset: what its augmentation is drawn from."""
    return mixed(SAMPLE, seed, epoch, numbers.view(np.uint64))


class InOrder:
    """The numbers of a dataset as they come: place k holds k."""

    def __init__(self, length: int) -> None:
        self.length = _checked_length(length)

    def at(self, positions: Numbers) -> Numbers:
        """The numbers at these places."""
        _check_inside(positions, self.length)
        return positions


class Shuffled:
    """A permutation of the numbers below `length`, another one for every seed and epoch.

    ::

        order = Shuffled(len(ds), seed=0, epoch=3)
        order.at(np.arange(512, 768))              # which samples the epoch has from place 512 on

    It takes constant memory and any number of threads may ask it. Ask for many places at once: a thousand cost little
    more than one.
    """

    def __init__(self, length: int, seed: int, epoch: int) -> None:
        self.length = _checked_length(length)
        self._sorted: Numbers | None = None
        if length <= _SORTED:
            # For one key no two numbers have the same hash, so it does not matter how the sort treats equal ones.
            hashes = mixed(ORDER, seed, epoch, np.arange(length, dtype=np.uint64))
            self._sorted = np.argsort(hashes).astype(np.int64, copy=False)
            return
        self._rows = math.isqrt(length - 1) + 1
        self._columns = -(-length // self._rows)
        self._keys = mixed(ORDER, seed, epoch, np.arange(_ROUNDS, dtype=np.uint64))

    def at(self, positions: Numbers) -> Numbers:
        """The numbers at these places."""
        _check_inside(positions, self.length)
        if self._sorted is not None:
            return self._sorted[positions]
        found = self._stirred(positions.view(np.uint64))
        # The rectangle is a little larger than the dataset. What lands beyond goes round again: following the one cycle
        # that it is on, it comes back inside before it meets anything that another place has reached.
        beyond = np.flatnonzero(found >= self.length)
        while len(beyond):
            found[beyond] = self._stirred(found[beyond])
            beyond = beyond[found[beyond] >= self.length]
        return found.view(np.int64)

    def _stirred(self, places: Words) -> Words:
        """A permutation of the whole rectangle: rows move by a hash of the column, then columns by one of the row."""
        width, height = np.uint64(self._columns), np.uint64(self._rows)
        row = places // width
        column = places - row * width
        hashed, spare = np.empty_like(row), np.empty_like(row)
        for number, key in enumerate(self._keys):
            fixed, moved, size = (row, column, width) if number % 2 else (column, row, height)
            np.bitwise_xor(fixed, key, out=hashed)
            _scramble(hashed, spare)
            # The upper 32 bits times the size, less 32 bits: a number below the size without a slow division.
            np.right_shift(hashed, np.uint64(32), out=hashed)
            np.multiply(hashed, size, out=hashed)
            np.right_shift(hashed, np.uint64(32), out=hashed)
            np.add(moved, hashed, out=moved)
            # Modulo: where nothing is to be subtracted the difference wraps around and is the larger one.
            np.subtract(moved, size, out=spare)
            np.minimum(moved, spare, out=moved)
        np.multiply(row, width, out=row)
        np.add(row, column, out=row)
        return row


def _scramble(words: Words, spare: Words) -> None:
    """Replace every word v by output v (the first is 0) of SplitMix64 seeded with 0; different words stay different."""
    np.multiply(words, np.uint64(_GAMMA), out=words)
    np.add(words, np.uint64(_GAMMA), out=words)
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        np.right_shift(words, np.uint64(shift), out=spare)
        np.bitwise_xor(words, spare, out=words)
        np.multiply(words, np.uint64(factor), out=words)
    np.right_shift(words, np.uint64(31), out=spare)
    np.bitwise_xor(words, spare, out=words)


def _scrambled(words: Words) -> Words:
    """The same for an array that nobody else has."""
    words = np.asarray(words)
    _scramble(words, np.empty_like(words))
    return words


def _scrambled_int(word: int) -> int:
    """The same for one word."""
    word = ((word & _MASK) * _GAMMA + _GAMMA) & _MASK
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        word = ((word ^ word >> shift) * factor) & _MASK
    return word ^ word >> 31


def _word(value: int | Words) -> np.uint64 | Words:
    return value if isinstance(value, np.ndarray) else np.uint64(int(value) & _MASK)


def _checked_length(length: int) -> int:
    if not 0 <= length <= LONGEST:
        raise UsageError(f"an order of {length} places, but 0 to 2**62 are possible")
    return length


def _check_inside(positions: Numbers, length: int) -> None:
    # Negative ones are huge without a sign: one look finds both.
    if positions.size and int(positions.view(np.uint64).max()) >= length:
        raise IndexError(f"places {positions.min()} to {positions.max()} of an order of {length}")
