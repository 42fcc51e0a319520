"""One pass over a Loader: takes batches from its thread, counts them, and adapts the pace."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

from cordwood.errors import FeedError
from cordwood.feed.ahead.background import Background
from cordwood.feed.ahead.pace import ReadAhead
from cordwood.feed.batches.epoch import ReadyBatch
from cordwood.feed.device.mover import Mover

_LOOK_EVERY = 0.2  # seconds
_LEAST_BATCHES = 8


@dataclass
class IterationProgress:
    """How far the consumer of an iteration is; the loader and the iterator have it in common."""

    epoch: int
    consumed: int
    length: int
    drawn: int
    batches: int = 0
    samples: int = 0
    counted: int = 0  # samples after the first batch: only these have a time
    first: float = 0.0
    seconds: float = 0.0
    waited: float = 0.0
    waits: int = 0


class Iteration(NamedTuple):
    """What an iteration works with from its first batch on."""

    background: Background[ReadyBatch]
    pace: ReadAhead
    mover: Mover | None
    progress: IterationProgress


class LoaderIterator(Iterator[Any]):
    """The batches of one epoch; forgetting it ends its thread.

    It begins when the first batch is asked for, and not before: frameworks make iterators to look at, and set the epoch
    afterwards.
    """

    def __init__(
        self, begin: Callable[[], Iteration], transform: Callable[[Any], Any] | None, warn: Callable[[int], None]
    ) -> None:
        self._begin: Callable[[], Iteration] | None = begin
        self._begun: Iteration | None = None
        self._transform = transform
        self._warn = warn  # of what the thread has to tell, with a stacklevel
        self._starting = threading.Lock()
        self._is_broken = False  # it ended before the epoch did
        self._began = self._looked = 0.0
        self._before = (0, 0.0, 0.0)
        self._at_first = (0.0, 0)  # waiting for the first batch is told by itself

    def __iter__(self) -> "LoaderIterator":
        return self

    def __next__(self) -> Any:
        begun = self._begun or self._start()
        background, _, mover, progress = begun
        try:
            made = background.get()
            self._warn(2)
        except BaseException as error:
            if isinstance(error, StopIteration) and not self._is_broken:
                progress.consumed = progress.length
                self._look(begun, perf_counter())  # short epochs have no other moment for it
            self.close()
            raise
        batch = made.batch if mover is None else mover.arrive(made.batch)
        if self._transform is not None:
            batch = self._transformed(batch)
        progress.consumed = made.consumed
        progress.batches += 1
        progress.samples += made.samples
        self._measure(begun, made.samples)
        return batch

    def _transformed(self, batch: Any) -> Any:
        try:
            return self._transform(batch) if self._transform is not None else batch
        except StopIteration as error:
            # It would end the loop, and nobody would know why.
            raise FeedError("transform raised StopIteration") from error

    def _start(self) -> Iteration:
        with self._starting:  # threads may share an iterator
            if self._begun is None:
                if self._begin is None:
                    raise StopIteration
                self._began = perf_counter()
                self._begun, self._begin = self._begin(), None
            return self._begun

    def _measure(self, begun: Iteration, samples: int) -> None:
        background, pace, _, progress = begun
        now = perf_counter()
        if progress.batches == 1:
            progress.first = now - self._began
            self._began = self._looked = now
            self._before = (1, background.waited, background.paused)
            self._at_first = (background.waited, background.waits)
            background.depth = pace.depth
            return
        progress.counted += samples
        progress.seconds = now - self._began
        progress.waited = background.waited - self._at_first[0]
        progress.waits = background.waits - self._at_first[1]
        if now - self._looked > _LOOK_EVERY:
            self._look(begun, now)

    def _look(self, begun: Iteration, now: float) -> None:
        background, pace, _, progress = begun
        batches, waited, paused = self._before
        if progress.batches - batches < _LEAST_BATCHES:
            return
        pace.look(now - self._looked, background.waited - waited, background.paused - paused)
        if background.depth != pace.depth:
            background.depth = pace.depth
        self._before = (progress.batches, background.waited, background.paused)
        self._looked = now

    def close(self) -> None:
        """End the thread and drop what is ready; nothing comes after that."""
        self._is_broken = True
        self._begin = None
        if self._begun is not None:
            self._begun.background.close()
