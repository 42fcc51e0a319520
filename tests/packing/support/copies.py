"""Jobs without processes, whose inputs give as many samples as they say, to try what an output makes of them.

job = Copies([1, 0, 3, -1, 1], batch=2)         # -1 fails
job.run(tmp_path / "s")                         # True: it came to its end
job.run(tmp_path / "s", tasks=2)                # False: killed after two tasks
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cordwood.packing.journal import inputs as inputfiles
from cordwood.packing.journal.failure import Failure
from cordwood.packing.journal.inputs import InputEntry, Position
from cordwood.packing.output.store_output import StoreOutput
from cordwood.packing.workers.work import Job, Work
from cordwood.sources import Input
from cordwood.store.format import shard_index
from cordwood.store.format.folder import open_folder
from cordwood.store.writing.options import checked_options


class CopyingTransform:
    """Stands for any transform: makes of (number, count) so many samples, with numbers drawn from NumPy's generator."""

    identity: dict[str, Any] = {}

    def __init__(self, batched: bool) -> None:
        self.batched = batched

    def apply(self, sample: tuple[int, int], seed: int) -> list[Any]:
        number, count = sample
        return [{"number": number, "copy": each, "noise": np.random.random(number % 4)} for each in range(count)]

    def apply_batch(self, samples: Sequence[Any], seed: int) -> list[list[Any]]:
        return [[] if sample is None else self.apply(sample, seed) for sample in samples]


def read(handle: tuple[int, int]) -> tuple[int, int]:
    if handle[1] < 0:
        raise ValueError(f"input {handle[0]} fails")
    return handle


@dataclass
class Copies:
    """A job; `counts` are the samples of its inputs, `names` tells whether inputs have names."""

    counts: Sequence[int]
    batch: int = 1
    shard_bytes: int = 400
    names: bool = True
    checkpoints: float = 0.5  # how likely there is one after a task
    failed: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)  # inputs that were read and transformed, by all runs

    def input(self, number: int) -> Input:
        handle = number, self.counts[number]
        return Input(handle, f"in/{number}", number % 10, number) if self.names else Input(handle)

    def run(self, path: Path, tasks: int | None = None, seed: int = 0) -> bool:
        """Go on with the store until the end, or for so many tasks at most; where these end, and when there are
        checkpoints, is drawn by the seed."""
        chance = random.Random(seed)
        folder = open_folder(path, "resume")
        options = checked_options("fast", self.shard_bytes, None)
        try:
            output = StoreOutput(folder, options, {}, start=0, batch=self.batch, threads=1, failed=self._fail)
            try:
                return self._run(output, chance, tasks)
            finally:
                output.stop()
        finally:
            folder.lock.release()

    def _run(self, output: StoreOutput, chance: random.Random, tasks: int | None) -> bool:
        work = Work(Job(read, CopyingTransform(self.batch > 1), 7, self.batch))  # type: ignore[arg-type]
        place = output.next_input
        assert place % self.batch == 0 or place == len(self.counts)
        self.failed = [number for number in self.failed if number < place]
        while place < len(self.counts):
            if tasks == 0:
                return False
            tasks = None if tasks is None else tasks - 1
            work.fix_schema(output.fixed)
            end = min(place + chance.randint(1, 4) * self.batch, len(self.counts))
            inputs = [self.input(number) for number in range(place, end)]
            output.take(place, inputs, work.do(place, [one.handle for one in inputs]))
            self.done += range(place, end)
            if chance.random() < self.checkpoints:
                output.checkpoint()
            place = end
        if tasks is not None:
            return False
        output.finish()
        self.totals = output.progress.totals
        return True

    def _fail(self, number: int, one: Input, failure: Failure) -> None:
        assert failure.error == f"ValueError: input {number} fails"
        self.failed.append(number)


def told_inputs(path: Path) -> list[InputEntry]:
    """What the shards tell of their inputs; fails unless each goes on where the one before it ends."""
    records = shard_index.read(path).records
    found, place, samples = [], Position(), 0
    for shard, count in enumerate(records["count"].tolist()):
        told = inputfiles.read(path, shard)
        samples += count
        assert told.first == place
        assert told.totals.samples == samples
        entries = list(told.entries())
        assert sum(max(entry.samples, 0) * entry.inputs for entry in entries) == count
        found += entries
        place = told.after
    return found
