"""``cw.pack(limit=...)``: estimates what packing would cost, how large the store would be, and whether it is worth it.

    print(estimate(source, transform, Path("train.cordwood"), limit=200, workers=8))

Some inputs, spread over the source, are read, transformed, packed into a store that is thrown away, and read back, on
one thread. What is said of the whole is what these took, times their number. Bytes that a store and each of its shards
take whatever they hold are counted apart. Codecs are chosen on inputs from all over the source, as in packing.
"""

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cordwood.codecs import Goal
from cordwood.common.arguments import whole_number
from cordwood.common.resources import default_threads
from cordwood.common.seeding import seed_generators
from cordwood.errors import PackError, UsageError
from cordwood.packing.journal import inputs, job_file
from cordwood.packing.journal.failure import Failure, absence
from cordwood.packing.journal.inputs import InputEntry, Lines, Position, Totals
from cordwood.packing.journal.job_file import JobFile
from cordwood.packing.output.empty_source import nothing_in
from cordwood.packing.output.first_samples import choosing_of_unit, hints_of, units_to_look_at
from cordwood.packing.report.estimate import Estimate
from cordwood.packing.report.summary import frames_note, torch_save_bytes
from cordwood.packing.transform.transform import Transform
from cordwood.packing.workers.one_thread import one_thread
from cordwood.packing.workers.spread import spread
from cordwood.packing.workers.tasks import size_of
from cordwood.packing.workers.work import seed_of
from cordwood.sources import Input, Source
from cordwood.store import Field, inspect_store, store_bytes
from cordwood.store import open as open_store
from cordwood.store.format import shard_index
from cordwood.store.format.folder import open_folder
from cordwood.store.format.shard_file import HEADER_SIZE, read_ends, shard_name
from cordwood.store.writing.appender import Appender
from cordwood.store.writing.encode import SampleEncoder
from cordwood.store.writing.first_samples import MAX_FIRST_SAMPLES, FixedSchema, is_enough, snapshot
from cordwood.store.writing.options import checked_options

READ_BATCH = 64
_PASSES = 3  # of reading back and of encoding, of which the middle one counts
_MOST_KEPT = 256  # samples that are encoded once more, to see how long that takes by itself
_MOST_KEPT_BYTES = 64 << 20
_MOST_TOLD = 3  # failures
_FEWEST_OTHERS = 16  # samples that did not choose codecs, to see whether those that did are smaller
_LONG = 60.0  # seconds of a job in which the start of workers is lost
Clock = Callable[[], float]


class _Tries:
    """Reads and transforms units of inputs, and counts what comes of them."""

    def __init__(self, source: Source, transform: Transform, seed: int, clock: Clock) -> None:
        self._reader, self._absent = source.reader(), source.absent
        self._transform, self._seed, self._clock = transform, seed, clock
        self.inputs = self.samples = self.dropped = self.failed = self.more_frames = 0
        self.example: str | None = None  # the first input with more frames than were read
        self.file_bytes: int | None = 0  # None from the first input on that is no file of its own
        self._failures: list[tuple[int, str, Exception]] = []  # of the lowest numbers
        self.lines = Lines()  # what the store would tell of the inputs
        self._times: list[tuple[float, int]] = []  # seconds and samples of every unit

    def do(self, first: int, unit: list[Input]) -> list[Any]:
        """The samples of a unit."""
        seed = seed_of(self._seed, first)
        seed_generators(seed)
        start = self._clock()
        made: list[list[Any]] = []
        given: list[Any] = []
        try:
            given = [self._read(one) for one in unit]
            batched = self._transform.batched
            made = self._transform.apply_batch(given, seed) if batched else [self._transform.apply(given[0], seed)]
        except Exception as error:  # whatever readers and transforms of others raise
            self._fail(first, unit, Failure.of(error, absence(error, next(iter(given), None), self._absent)), error)
        samples = [sample for of_input in made for sample in of_input]
        self._times.append((self._clock() - start, len(samples)))
        self.inputs += len(unit)
        self.samples += len(samples)
        self.dropped += max(0, len(made) - len(samples))
        for one, of_input in zip(unit, made or [[]] * len(unit), strict=True):
            self.lines.add(InputEntry.of(one, len(of_input)))
        for one in unit if made else ():  # of those that failed there are no samples to compare with
            self.file_bytes = None if self.file_bytes is None or one.size is None else self.file_bytes + one.size
        return samples

    def _read(self, one: Input) -> Any:
        sample = self._reader(one.handle)
        if getattr(self._reader, "more_frames", False):
            self.more_frames += 1
            self.example = self.example or one.name
        return sample

    def _fail(self, first: int, unit: list[Input], failure: Failure, error: Exception) -> None:
        self.failed += len(unit)
        name = f" ({unit[0].name})" if unit[0].name else ""
        self._failures.append((first, f"input {first}{name}: {failure.error}", error))
        self._failures = sorted(self._failures, key=itemgetter(0))[:_MOST_TOLD]

    @property
    def failures(self) -> tuple[str, ...]:
        """What is told of some inputs that failed."""
        return tuple(told for _, told, _ in self._failures)

    @property
    def seconds_a_sample(self) -> float:
        """Without the first unit, which also imports modules and loads models, unless it is the only one."""
        for times in (self._times[1:], self._times):
            samples = sum(count for _, count in times)
            if samples:
                return sum(seconds for seconds, _ in times) / samples
        return 0.0

    def notes(self, *, kept: bool) -> tuple[str, ...]:
        """What else there is to say."""
        return (frames_note(self.more_frames, self.inputs, self.example, kept=kept),) if self.more_frames else ()

    def nothing(self, source: Source) -> Exception:
        """Why there are no samples."""
        if self._failures:
            _, told, cause = self._failures[0]
            error = PackError(f"none of {self.inputs} inputs that were tried could be preprocessed: {told}")
            error.__cause__ = cause
            return error
        if self.inputs:
            return UsageError(f"the transform returned nothing for all of {self.inputs} inputs that were tried")
        return nothing_in(source)


def estimate(
    source: Source,
    transform: Transform,
    dest: Path,
    *,
    limit: int,
    workers: int,
    batch: int = 1,
    seed: int = 0,
    goal: Goal | None = None,
    fields: Mapping[str, Field] | None = None,
    shard_bytes: int | None = None,
    span: tuple[int, int | None] = (0, None),
    stops_at_failures: bool = False,
    job: JobFile | None = None,
    starting: Clock = lambda: 0.0,
    clock: Clock = time.perf_counter,
) -> Estimate:
    """Try about `limit` inputs of the `span` that is to be packed; `batch` of them form a unit.

    `job` is what the store would record of it. `starting` measures how long workers take to start; it is asked only
    where that matters.

    PackError if all of them fail, UsageError if the transform drops them all.
    """
    limit = whole_number("limit", limit, 1, what="the number of inputs to try (200 will do)")
    begin, end = span
    if end is None:
        end = source.count
    tries = _Tries(source, transform, seed, clock)
    kept = _Kept()
    with tempfile.TemporaryDirectory(prefix="cordwood-estimate-") as folder, one_thread():
        store = Path(folder) / "estimate.cordwood"
        options = checked_options(goal, shard_bytes, fields)
        appender = Appender(open_folder(store, "create"), options, default_threads(), resumes=False, adapts=False)
        appender.collecting.hints = hints_of(source)
        try:
            looked = _looked_at(source, span, limit, batch)
            first_samples = _FirstSamples(appender, looked)
            for first, unit in _units(source, begin, end, limit, batch, looked):
                samples = tries.do(first, unit)
                chosen = first_samples.append(first, samples)
                for number, sample in enumerate(samples):
                    kept.add(sample, number in chosen)
            first_samples.hand_over()
            appender.finish()
            fixed = appender.fixed
        finally:
            appender.stop("the estimate has ended")
        if fixed is None:
            raise tries.nothing(source)
        inspection = inspect_store(store)
        sizes = _sizes(store, tries, job)
        found = Estimate(
            source=str(source.describe().get("path") or source.kind),
            dest=str(dest),
            of_inputs=None if end is None else end - begin,
            inputs=tries.inputs,
            samples=tries.samples,
            dropped=tries.dropped,
            failed=tries.failed,
            failures=tries.failures,
            preprocess_seconds=tries.seconds_a_sample,
            encode_seconds=_encoding(fixed, kept.samples, clock),
            read_seconds=_reading(store, clock),
            raw_bytes=inspection.before,
            stored_bytes=sizes.growing + _learnt_by_heart(fixed, kept),
            fixed_bytes=sizes.fixed,
            bytes_per_shard=sizes.per_shard,
            shard_bytes=fixed.manifest.shard_bytes,
            torch_save_bytes=torch_save_bytes(store, tries.samples, inspection.before),
            file_bytes=tries.file_bytes,
            workers=min(max(1, workers), default_threads()),
            free_bytes=_free(dest),
            inspection=inspection,
            stops_at_failures=stops_at_failures,
            notes=(
                *tries.notes(kept=any(field.keep_encoded for field in options.fields.values())),
                *_too_few(source, span, looked, batch),
            ),
        )
    if found.all_seconds is None or found.all_seconds > _LONG:
        return found
    return replace(found, starting_seconds=starting())


def _too_few(source: Source, span: tuple[int, int | None], looked: Sequence[int], batch: int) -> list[str]:
    """A note where packing chooses codecs on more inputs than were tried."""
    if looked or not source.indexed or span != (0, None) or (source.count or 0) <= MAX_FIRST_SAMPLES:
        return []
    wanted = len(units_to_look_at(source.count or 0, batch)) * batch
    return [f"packing chooses codecs on more inputs than these, so sizes may differ; limit={wanted} has all of them"]


def _looked_at(source: Source, span: tuple[int, int | None], limit: int, batch: int) -> list[int]:
    """The units that choose codecs in packing, if that has not all inputs in hand, and so many may be tried."""
    if not source.indexed or span != (0, None) or (source.count or 0) <= MAX_FIRST_SAMPLES:
        return []
    units = units_to_look_at(source.count or 0, batch)
    return units if len(units) * batch <= limit else []


def _units(
    source: Source, begin: int, end: int | None, limit: int, batch: int, looked: Sequence[int]
) -> Iterator[tuple[int, list[Input]]]:
    """Units of inputs, one from each of as many stretches; the first ones if nobody knows how many there are.

    Those that are `looked` at in packing come first, and stand for their stretches.
    """
    if end is None:
        found = islice(source.inputs(begin), limit)
        first = begin
        while unit := list(islice(found, batch)):
            yield first, unit
            first += len(unit)
        return
    firsts = spread(begin, end, batch, limit)
    units = -(-(end - begin) // batch)
    stretches = {first: (((first - begin) // batch + 1) * len(firsts) - 1) // units for first in (*firsts, *looked)}
    taken = {stretches[first] for first in looked}
    chosen = [*looked, *(first for first in firsts if stretches[first] not in taken)][: len(firsts)]
    for first in chosen if source.indexed else sorted(chosen):
        yield first, list(islice(source.inputs(first), min(batch, end - first)))


class _FirstSamples:
    """Hands samples to an appender: at first so many that they fix the schema, in the order of the source.

    Of these the samples of the units that are `looked` at in packing choose codecs; all, if there are none of these.
    """

    def __init__(self, appender: Appender, looked: Sequence[int]) -> None:
        self._appender = appender
        self._looked = frozenset(looked)
        self._waiting: list[tuple[int, bool, Any]] = []  # units, whether they choose codecs, and samples
        self._nbytes = 0
        self._choosing = self._choosing_bytes = 0

    def append(self, first: int, samples: Sequence[Any]) -> Sequence[int]:
        """Take the samples of the unit that begins with input `first`; return which of them choose codecs."""
        chosen = list(range(len(samples)))
        if self._looked:
            enough = first not in self._looked or is_enough(self._choosing, self._choosing_bytes)
            chosen = [] if enough else choosing_of_unit(len(samples), len(self._looked))
        for number, sample in enumerate(samples):
            if self._appender.fixed is not None:
                self._appender.append(sample)
                continue
            nbytes = self._appender.collecting.check(sample)
            self._waiting.append((first, number in chosen, snapshot(sample)))
            self._nbytes += nbytes
            self._choosing += number in chosen
            self._choosing_bytes += nbytes * (number in chosen)
            if is_enough(len(self._waiting), self._nbytes):
                self.hand_over()
        return chosen

    def hand_over(self) -> None:
        """There are enough, or no more."""
        if not self._waiting:
            return
        waiting, self._waiting = sorted(self._waiting, key=itemgetter(0)), []
        collecting = self._appender.collecting
        preparer, prepared = collecting.prepare([sample for _, _, sample in waiting])
        chosen = [one for one, (_, chooses, _) in zip(prepared, waiting, strict=True) if chooses]
        self._appender.fix(preparer, chosen, prepared)
        for _, _, sample in waiting:
            self._appender.append(sample)


class _Sizes(NamedTuple):
    """Bytes of a store."""

    growing: int  # with the number of samples
    per_shard: int
    fixed: int


def _sizes(store: Path, tries: _Tries, job: JobFile | None) -> _Sizes:
    """What the store's files take, with those that packing adds."""
    shards = [read_ends(store / shard_name(number)) for number in range(len(shard_index.read(store).records))]
    lines = tries.lines.text()
    totals = Totals(tries.inputs, tries.samples, tries.dropped, tries.failed, tries.file_bytes or 0)
    inputs.write(store, 0, Position(), Position(tries.inputs), totals, lines)
    if job is not None:
        job_file.write(store, job.completed(totals))
    header = inputs.path_of(store, 0).stat().st_size - len(lines)  # of the list of a shard's inputs
    held = sum(ends.footer_offset - HEADER_SIZE for ends in shards)  # frames and rows
    around = (sum(ends.file_size for ends in shards) - held) // len(shards)
    fixed = store_bytes(store) - held - len(lines) - header - len(shards) * (around + shard_index.RECORD_SIZE)
    return _Sizes(held + len(lines), around + shard_index.RECORD_SIZE + header, fixed)


class _Kept:
    """Copies of the first samples, and whether each was one of those that chose codecs."""

    def __init__(self) -> None:
        self.samples: list[Any] = []
        self.chose: list[bool] = []
        self._nbytes = 0

    def add(self, sample: Any, chose: bool) -> None:
        if len(self.samples) < _MOST_KEPT and self._nbytes < _MOST_KEPT_BYTES:
            self.samples.append(snapshot(sample))
            self.chose.append(chose)
            self._nbytes += size_of(sample)


def _learnt_by_heart(fixed: FixedSchema, kept: _Kept) -> int:
    """The bytes that samples which chose codecs are smaller by than others are.

    A dictionary knows the samples that it was made of. In a large source they are few, but not among those tried here.
    """
    chose = np.array(kept.chose, np.bool_)
    if np.count_nonzero(~chose) < _FEWEST_OTHERS or not chose.any():
        return 0
    owning = [any(chain.assets.encoded for chain in plan.chains) for plan in fixed.plans]
    encoder = SampleEncoder(fixed, threads=1)
    for sample in kept.samples:
        encoder.add(encoder.preparer.prepare(sample))
    sizes = np.concatenate([part.sizes for part in encoder.encoded()])
    smaller = sizes[~chose].mean(axis=0) - sizes[chose].mean(axis=0)
    return int(np.count_nonzero(chose) * np.maximum(smaller, 0)[owning].sum())


def _encoding(fixed: FixedSchema, samples: list[Any], clock: Clock) -> float:
    """Seconds per sample, without the time to choose plans, which is spent once."""
    encoder = SampleEncoder(fixed, threads=1)

    def encode() -> None:
        for sample in samples:
            encoder.add(encoder.preparer.prepare(sample))
        encoder.encoded()

    return _middle(encode, clock) / len(samples)


def _reading(store: Path, clock: Clock) -> float:
    """Seconds a sample, in batches."""
    dataset = open_store(store, threads=1)

    def read() -> None:
        for start in range(0, len(dataset), READ_BATCH):
            dataset[list(range(start, min(start + READ_BATCH, len(dataset))))]

    return _middle(read, clock) / len(dataset)


def _middle(work: Callable[[], None], clock: Clock) -> float:
    """The median time of some passes, behind one that has found memory."""
    work()
    times = []
    for _ in range(_PASSES):
        start = clock()
        work()
        times.append(clock() - start)
    return statistics.median(times)


def _free(dest: Path) -> int:
    """Bytes that are free where the store is to be."""
    place = dest.absolute()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free
