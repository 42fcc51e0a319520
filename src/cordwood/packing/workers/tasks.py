"""Divides inputs into tasks: large enough that sending them costs little, small enough that no worker waits.

    tasks = Tasks(source.inputs(start), start, stop, batch=1)
    task = tasks.next()             # None: there are no more
    tasks.learn(result)             # how long it took

Nothing that is stored depends on where a task ends.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch

from cordwood.packing.workers.work import EncodedResult, Result
from cordwood.packing.workers.worker import Task
from cordwood.sources import Input

_SECONDS = 0.05  # of a task: sending it and its result take some ten thousandths
_MOST_INPUTS = 2048
_MOST_BYTES = 8 << 20  # of samples before they are encoded
_DEEPEST = 8  # containers that are looked into
_GROWTH = 4  # at most, from one task to the next


class Tasks:
    """The inputs from number `first` up to `stop`, None being their end; `batch` of them are a unit."""

    def __init__(self, inputs: Iterator[Input], first: int, stop: int | None, batch: int) -> None:
        self.first = first
        self._inputs = inputs
        self._next = first
        self._stop = stop
        self._batch = batch
        self._units = 1  # of the next task
        self._most_units = _MOST_INPUTS // batch  # by what inputs themselves take

    def next(self) -> tuple[Task, list[Input]] | None:
        """The next task, and its inputs."""
        wanted = self._units * self._batch
        if self._stop is not None:
            wanted = min(wanted, self._stop - self._next)
        found = list(islice(self._inputs, wanted))
        if not found:
            return None
        task = Task(self._next, [one.handle for one in found])
        self._next += len(found)
        return task, found

    def behind(self, end: int) -> int:
        """The first input of what follows a task that ends before input `end`."""
        return end

    def learn_size(self, inputs: int, nbytes: int) -> None:
        """So many bytes are taken by so many inputs: those of an iterable are samples, and may be large."""
        self._most_units = min(_MOST_INPUTS // self._batch, _MOST_BYTES * inputs // (max(nbytes, 1) * self._batch))
        self._units = max(1, min(self._units, self._most_units))

    def learn(self, result: Result) -> None:
        """Let the next tasks be of the right size."""
        if not isinstance(result, EncodedResult):
            return  # samples that travel as they are do so one by one
        units = -(-len(result.counts) // self._batch)
        by_time = _SECONDS * units / max(result.seconds, 1e-9)
        by_bytes = _MOST_BYTES * units / max(sum(result.raw_sizes), 1)
        wanted = min(by_time, by_bytes, self._units * _GROWTH, self._most_units)
        self._units = max(1, int(wanted))


def size_of(handle: Any, depth: int = 0) -> int:
    """About the bytes of what a source gives a reader: a number or a path, or a whole sample."""
    if isinstance(handle, torch.Tensor):
        return int(handle.nbytes) if handle.layout is torch.strided else 0
    if isinstance(handle, np.ndarray):
        return int(handle.nbytes)
    if isinstance(handle, str | bytes | bytearray):
        return len(handle)
    if isinstance(handle, dict | tuple | list) and depth < _DEEPEST:
        return sum(size_of(item, depth + 1) for item in (handle.values() if isinstance(handle, dict) else handle))
    return 8
