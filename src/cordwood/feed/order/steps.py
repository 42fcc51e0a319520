"""Computes which places of an epoch each rank gets in each step.

    >>> steps = RankBatches(length=20, batch_size=4, rank=1, world_size=2)
    >>> steps.left(0), steps.positions(0), steps.after(0)
    (3, array([4, 5, 6, 7]), 8)

An epoch is one sequence of places, whoever reads it. A step takes the next ``world_size * batch_size`` of them, a
batch for every rank in turn, so what all ranks have had together is a prefix of it: `consumed`, one number. From any
`consumed` it goes on the same with another batch size or another number of ranks.
"""

from typing import NamedTuple

import numpy as np

from cordwood.common.arguments import whole_number
from cordwood.errors import UsageError
from cordwood.store import Numbers


class Blocks(NamedTuple):
    """The places of several batches: all in a row, and how many belong to each batch."""

    positions: Numbers
    sizes: Numbers


class RankBatches:
    """The batches of one rank.

    ::

        steps = RankBatches(len(ds), batch_size=256, rank=3, world_size=8)
        consumed = 0
        while steps.left(consumed):
            positions = steps.positions(consumed)
            consumed = steps.after(consumed)

    All ranks have the same number of batches. The tail, where fewer places are left than a step takes, is shared out
    evenly: batch sizes differ by at most one. A tail of fewer places than ranks gets some from the step before it,
    which takes one less a rank. Where there is no such step, or batches are of one, a rank that would have none repeats
    one of them, because a rank without a batch would leave the others waiting for it. `drop_last` leaves the tail out;
    `pad` makes full batches of it by going on from the beginning of the epoch.
    """

    def __init__(
        self,
        length: int,
        batch_size: int,
        rank: int = 0,
        world_size: int = 1,
        drop_last: bool = False,
        pad: bool = False,
    ) -> None:
        if drop_last and pad:
            raise UsageError("drop_last leaves the tail of an epoch out, pad fills it up: only one of them can be True")
        self.length = length
        self.batch_size = whole_number("batch_size", batch_size, 1)
        self.rank = rank
        self.world_size = world_size
        self.drop_last = drop_last
        self.pad = pad
        self._stride = batch_size * world_size

    def left(self, consumed: int) -> int:
        """How many batches this rank, and so every rank, still gets when so many places are consumed."""
        full, tail = divmod(self.length - consumed, self._stride)
        return full + (tail > 0 and not self.drop_last)

    def positions(self, consumed: int) -> Numbers:
        """The places of this rank's next batch."""
        if not self.left(consumed):
            raise IndexError(f"no batch is left when {consumed} of {self.length} places are consumed")
        left = self.length - consumed
        if left < self._stride:
            return self._tail(consumed)
        size = self.batch_size - self._lends(left)
        first = consumed + self.rank * size
        return np.arange(first, first + size, dtype=np.int64)

    def after(self, consumed: int) -> int:
        """What is consumed when that batch is, by all ranks; `length` once an epoch is over, also if a tail is dropped.

        So a state taken then means the end of the epoch also to those who would divide it otherwise.
        """
        step = self._stride - self.world_size * self._lends(self.length - consumed)
        now = min(consumed + step, self.length)
        return now if self.left(now) else self.length

    def _lends(self, left: int) -> bool:
        """Whether the next step takes one less a rank, because the last one would not have a place for every rank."""
        if self.drop_last or self.pad or self.batch_size == 1:
            return False
        return self._stride < left < self._stride + self.world_size

    def blocks(self, consumed: int, steps: int) -> Blocks:
        """The places of this rank's next `steps` batches, or of as many as are left, computed together."""
        steps = min(steps, self.left(consumed))
        full = min(steps, (self.length - consumed) // self._stride)
        if full and self._lends(self.length - consumed - (full - 1) * self._stride):
            full -= 1
        firsts = np.arange(full, dtype=np.int64) * self._stride + (consumed + self.rank * self.batch_size)
        positions = (firsts[:, None] + np.arange(self.batch_size, dtype=np.int64)).reshape(-1)
        sizes = np.full(steps, self.batch_size, np.int64)
        consumed += full * self._stride
        for step in range(full, steps):  # at most two that are not full
            others = self.positions(consumed)
            positions = np.concatenate([positions, others])
            sizes[step] = len(others)
            consumed = self.after(consumed)
        return Blocks(positions, sizes)

    def _tail(self, consumed: int) -> Numbers:
        """This rank's part of what is left where it is less than a step takes."""
        left = self.length - consumed
        if self.pad:
            first = consumed + self.rank * self.batch_size
            return np.arange(first, first + self.batch_size, dtype=np.int64) % self.length
        each, more = divmod(left, self.world_size)
        if not each and self.rank >= left:
            return np.array([consumed + self.rank % left], np.int64)
        first = consumed + self.rank * each + min(self.rank, more)
        return np.arange(first, first + each + (self.rank < more), dtype=np.int64)
