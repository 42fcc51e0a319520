"""Checks that a dataset that has grown still starts with the packed items.

    check_items(Path("train.cordwood"), source, job, workers=4, timeout=None, report=step)

Items have no names, and an update packs those behind the ones that a store has. A list of files that is sorted anew, or
another dataset at the same path, would leave some samples out and have others twice. So a few items, spread evenly, are
made again, and compared by the bytes that they are stored as. `is_random` compares the first inputs of any source in
this way, with other random numbers.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cordwood.errors import CordwoodError, UsageError
from cordwood.packing.journal import inputs
from cordwood.packing.journal.failure import Failure
from cordwood.packing.journal.inputs import FAILED, ShardInputs
from cordwood.packing.workers.engine import Engine
from cordwood.packing.workers.interrupt import Interruption
from cordwood.packing.workers.spread import SpreadTasks
from cordwood.packing.workers.work import EncodedResult, Job, Result
from cordwood.sources import Input, Source
from cordwood.store.format import manifest, shard_index
from cordwood.store.format.rows import RowLayout
from cordwood.store.format.shard_file import shard_name
from cordwood.store.writing.encode import Encoded
from cordwood.store.writing.first_samples import FixedSchema
from cordwood.store.writing.shard_copy import opened_shard

_MOST = 8  # units that are made again: batches, or single inputs

Step = Callable[[tuple[str, float] | None], object]  # gets the input that is waited for, and for how many seconds


class _SampleBytes(NamedTuple):
    """What is stored of some samples."""

    frames: list[bytes]
    rows: list[bytes]  # columns and states
    apart: list[bytes]

    @classmethod
    def of(cls, parts: Sequence[Encoded]) -> "_SampleBytes":
        return cls(
            [frame for part in parts for frame in part.frames],
            [row.tobytes() for part in parts for row in np.concatenate([part.columns, part.states], axis=1)],
            [one.frame for part in parts for one in part.apart],
        )


class _ShardItems(NamedTuple):
    """What a shard tells of its inputs, and the number of the first one."""

    number: int
    told: ShardInputs


class _MadeAgain:
    """A sink of the engine that keeps what it gets: the samples of a unit, or why it has none."""

    def __init__(self, fixed: FixedSchema) -> None:
        self.fixed: FixedSchema | None = fixed
        self.units: dict[int, list[Encoded] | Failure] = {}

    def take(self, first: int, inputs: Sequence[Input], result: Result) -> None:
        """Keep a unit by the number of its first input."""
        if result.failures:
            self.units[first] = next(iter(result.failures.values()))
        elif isinstance(result, EncodedResult):  # as always: the schema is known
            self.units[first] = result.parts

    def checkpoint(self) -> None:
        """Nothing is kept for another process."""


def check_items(store: Path, source: Source, job: Job, workers: int, timeout: float | None, report: Step) -> None:
    """UsageError if one of a few items that a store was packed from has another content now.

    Items that failed or gave no samples are not made again. Nothing is done where inputs have names, or where fewer
    than a batch of them are packed.
    """
    told = list(_told(store))
    if not told or next(told[0].entries()).name is not None:
        return
    packed = told[-1].after.input
    shards = _numbered(told, job.batch)
    if source.count is not None and source.count < packed:
        return  # which an update refuses
    good = [first for first in _with_samples(shards, job.batch) if first + job.batch <= packed]
    firsts = [good[place * (len(good) - 1) // (_MOST - 1)] for place in range(_MOST)] if good else []
    for first, failure in _differing(store, source, job, shards, sorted({*firsts}), workers, timeout, report):
        how = "is not the one that" if failure is None else f"fails now ({failure.error}), although"
        raise UsageError(
            f"{source.describe().get('object')} has {source.count:,} items, but item {first} {how} {store} was packed "
            "from it: its items were reordered, replaced, or are random, so the new ones cannot be identified. Pack "
            f"to another path, or delete {store} to pack it anew"
        )


def is_random(store: Path, source: Source, job: Job, workers: int, timeout: float | None, report: Step) -> bool:
    """Whether one of the first inputs gives other samples than the stored ones when it is made again.

    False where that cannot be found out, as for an iterator.
    """
    shards = _numbered(list(takewhile(lambda each: each.first.input < _MOST, _told(store))), job.batch)
    firsts = [first for first in _with_samples(shards, job.batch) if first < _MOST]
    other = job._replace(seed=job.seed ^ 1)
    with suppress(CordwoodError):
        found = _differing(store, source, other, shards, firsts, workers, timeout, report)
        return any(failure is None for _, failure in found)
    return False


def _told(store: Path) -> Iterator[ShardInputs]:
    return (inputs.read(store, shard) for shard in range(len(shard_index.read(store).records)))


def _numbered(told: Sequence[ShardInputs], batch: int) -> list[_ShardItems]:
    """The shards by their first inputs; only the first shard if these are unknown.

    A shard may begin within a batch, and only says how many samples of the batch are in the shards before. Its first
    input then follows the last one of the shard before, unless the samples of one input are in both.
    """
    shards: list[_ShardItems] = []
    number = 0
    for each in told:
        if batch == 1:
            number = each.first.input
        elif number != each.first.input and not each.first.samples:
            return shards[:1]
        shards.append(_ShardItems(number, each))
        number += sum(entry.inputs for entry in each.entries())
    return shards if batch == 1 or (told and (number, 0) == told[-1].after) else shards[:1]


def _with_samples(shards: Sequence[_ShardItems], batch: int) -> list[int]:
    """The first inputs of the units that have samples, and of which no input failed."""
    if not shards:
        return []
    after = shards[-1].told.after
    size = after.input if after.samples else -(-after.input // batch) * batch  # a unit that is not finished is left out
    stored, failed = np.zeros((2, size), np.bool_)
    for number, told in shards:
        for entry in told.entries():
            end = number + entry.inputs
            stored[number:end] |= entry.samples > 0
            failed[number:end] |= entry.samples == FAILED
            number = end
    good = stored.reshape(-1, batch).any(1) & ~failed.reshape(-1, batch).any(1)
    return [int(unit) * batch for unit in np.flatnonzero(good)]


def _differing(
    store: Path,
    source: Source,
    job: Job,
    shards: Sequence[_ShardItems],
    firsts: Sequence[int],
    workers: int,
    timeout: float | None,
    report: Step,
) -> Iterator[tuple[int, Failure | None]]:
    """Units that are other ones when they are made again, and why they fail if they do."""
    if not firsts:
        return
    stored = manifest.read(store)
    again = _MadeAgain(FixedSchema.load(store, stored))
    engine = Engine(job, SpreadTasks(source, firsts, job.batch), again, min(workers, 1), timeout)
    with Interruption() as interrupted:
        engine.run(lambda: report(engine.waiting_for()), interrupted)
    for first, made in again.units.items():
        if isinstance(made, Failure):
            yield first, made
            continue
        kept = list(_kept(store, stored, shards, range(first, first + job.batch)))
        if _SampleBytes.of(made) != _SampleBytes.of(kept):
            yield first, None


def _kept(store: Path, stored: manifest.Manifest, shards: Sequence[_ShardItems], wanted: range) -> Iterator[Encoded]:
    """The stored samples of these inputs."""
    assert stored.schema is not None  # noqa: S101 - for the type checker: a store with shards has one
    layout = RowLayout(stored.schema)
    for shard, (number, told) in enumerate(shards):
        if told.after.input < wanted.start or told.first.input >= wanted.stop:
            continue
        with opened_shard(store / shard_name(shard), layout, stored.frame_plans) as source:
            sample = 0
            for entry in told.entries():
                samples, end = max(entry.samples, 0), number + entry.inputs
                low, high = max(number, wanted.start), min(end, wanted.stop)
                if low < high:
                    yield from source.samples(sample + (low - number) * samples, sample + (high - number) * samples)
                number, sample = end, sample + entry.inputs * samples
