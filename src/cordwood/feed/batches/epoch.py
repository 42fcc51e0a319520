"""Makes the batches of one epoch of one rank: what the thread of an iterator runs.

epoch = Epoch(number=0, order=order.epoch(0), steps=steps, consumed=0, seed=0, maker=maker, pace=pace, mover=None,
              seeded=False)
for group in epoch.groups(): ...      # lists of batches that were made together
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from cordwood.errors import CordwoodError
from cordwood.feed.ahead.pace import ReadAhead
from cordwood.feed.batches.maker import Batch, BatchMaker, nbytes_of, nothing_left
from cordwood.feed.device.mover import Mover
from cordwood.feed.order.permutation import mixed, sample_seeds
from cordwood.feed.order.samplers import EpochOrder
from cordwood.feed.order.steps import RankBatches
from cordwood.store import Numbers, Seeds

# Makes the batches of plans in other processes, in order.
Workers = Callable[[Iterable[tuple[Numbers, Seeds]]], Generator[Any, None, None]]

_PLACES_AT_ONCE = 8192  # of the order: computing many costs little more than computing one
_FETCHED_AHEAD = 4  # calls, where samples come from a disk each time


class ReadyBatch(NamedTuple):
    """A batch on its way to the consumer, and what is consumed when it has arrived."""

    batch: Any
    consumed: int
    samples: int


class BatchPlan(NamedTuple):
    """Batches that are made by one call: their samples, how many a batch, and what is consumed after each."""

    indices: Numbers
    positions: Numbers
    per: int
    consumed: list[int]

    def apart(self) -> "list[BatchPlan]":
        """The same, a batch a call."""
        parts = [slice(start, start + self.per) for start in range(0, len(self.indices), self.per)]
        return [
            BatchPlan(self.indices[part], self.positions[part], len(self.indices[part]), [consumed])
            for part, consumed in zip(parts, self.consumed, strict=True)
        ]


class Epoch:
    """What an iteration reads, and how far it got in making it."""

    def __init__(
        self,
        *,
        number: int,
        order: EpochOrder,
        steps: RankBatches,
        consumed: int,
        seed: int,
        maker: BatchMaker,
        pace: ReadAhead,
        mover: Mover | None,
        seeded: bool,
    ) -> None:
        self.number = number
        self.decoding = 0.0
        self.maker = maker
        self.pace = pace
        self._order = order
        self._steps = steps
        self._consumed = consumed
        self._seed = seed
        self._mover = mover
        self._is_seeded = seeded
        self._is_measured = False
        self._ahead = _FETCHED_AHEAD if maker.is_sparse else 0

    def groups(self) -> Iterator[list[ReadyBatch]]:
        """Batches in order, those of a call together."""
        try:
            yield from self._groups()
        finally:
            self._end()

    def _groups(self) -> Iterator[list[ReadyBatch]]:
        waiting: deque[BatchPlan] = deque()
        plans = self.plans()
        while True:
            while len(waiting) <= self._ahead:
                planned = next(plans, None)
                if planned is None:
                    break
                # The first batch does not wait for what lies around its samples.
                if self._ahead or not self._is_measured:
                    self.maker.advise(planned.indices)
                waiting.append(planned)
            if not waiting:
                return
            planned = waiting.popleft()
            try:
                made = self._made(planned)
            except CordwoodError:
                if len(planned.consumed) == 1:
                    raise
                waiting.extendleft(reversed(planned.apart()))  # those before the bad one are good
                continue
            if made:
                yield made
            del made  # the consumer's now

    def groups_from(self, workers: Workers) -> Iterator[list[ReadyBatch]]:
        """The same batches, made by processes."""
        given: deque[BatchPlan] = deque()

        def plans() -> Iterator[tuple[Numbers, Seeds]]:
            for planned in self.plans():
                given.append(planned)
                yield planned.indices, self.seeds(planned)

        batches = workers(plans())
        began = perf_counter()
        try:
            for batch in batches:
                self.decoding += perf_counter() - began
                planned = given.popleft()
                if not isinstance(batch, Batch):  # as mended here, after a worker failed
                    batch = Batch(batch, len(planned.indices))
                made = self._named(planned, [batch])
                if made:
                    yield made
                del batch, made  # the consumer's now
                began = perf_counter()
        finally:
            batches.close()
            self._end()

    def plans(self) -> Iterator[BatchPlan]:
        """What is to be read, call by call."""
        steps, together = self._steps, 1  # the first batch waits for no other, and the next not for many
        while steps.left(self._consumed):
            blocks = steps.blocks(self._consumed, max(1, _PLACES_AT_ONCE // steps.batch_size))
            indices = self._order.at(blocks.positions)
            start, batch, count = 0, 0, len(blocks.sizes)
            while batch < count:
                size = int(blocks.sizes[batch])
                batches = _alike(blocks.sizes[batch : batch + min(together, self.pace.together)])
                together *= 2
                end = start + size * batches
                consumed = []
                for _ in range(batches):
                    self._consumed = steps.after(self._consumed)
                    consumed.append(self._consumed)
                yield BatchPlan(indices[start:end], blocks.positions[start:end], size, consumed)
                start, batch = end, batch + batches

    def seeds(self, planned: BatchPlan) -> Seeds:
        """What every sample's augmentation is drawn from; one that a sampler draws twice is augmented anew."""
        seeds = sample_seeds(self._seed, self.number, planned.indices)
        return mixed(seeds, planned.positions.view(np.uint64)) if self._order.repeats else seeds

    def _made(self, planned: BatchPlan) -> list[ReadyBatch]:
        began = perf_counter()
        seeds = self.seeds(planned) if self._is_seeded else None
        batches = self.maker.batches(planned.indices, planned.per, seeds, self.pace.threads)
        self.decoding += perf_counter() - began
        if not self._is_measured and batches[0].samples and not self.maker.is_alone:
            self.pace.batch_is(nbytes_of(batches[0].values))
            self._is_measured = True
        return self._named(planned, batches)

    def _named(self, planned: BatchPlan, batches: list[Batch]) -> list[ReadyBatch]:
        if self._steps.world_size > 1 and any(not batch.samples for batch in batches):
            raise nothing_left(self._steps.world_size)
        stage = self._mover.stage if self._mover is not None else None
        return [
            ReadyBatch(batch.values if stage is None else stage(batch.values), consumed, batch.samples)
            for batch, consumed in zip(batches, planned.consumed, strict=True)
            if batch.samples
        ]

    def _end(self) -> None:
        self.maker.close()
        if self._mover is not None:
            self._mover.finish()


def _alike(sizes: Numbers) -> int:
    """How many of the first batches have the size of the first."""
    other = np.flatnonzero(sizes != sizes[0])
    return int(other[0]) if len(other) else len(sizes)
