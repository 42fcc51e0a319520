"""The output of a job: takes results in the order of their inputs, writes a store, and keeps how far the job is.

    output = StoreOutput(folder, options, hints_of(source), start=0, batch=1, threads=2, failed=policy)
    output.take(first, inputs, result)
    output.checkpoint()                 # whatever happens now, another process resumes from here
    output.finish()
    output.stop()

The store is written by an `Appender`, as that of `cw.Writer`. What is added here: which inputs a shard holds, and the
logs by which a killed job resumes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property

from cordwood.errors import FormatError
from cordwood.packing.journal import inputs, shard_log
from cordwood.packing.journal.failure import Failure
from cordwood.packing.journal.first_samples_log import FirstSamplesLog, WaitingInput
from cordwood.packing.journal.inputs import FAILED, InputEntry, InputsHeader, Position, Totals
from cordwood.packing.journal.shard_log import Checkpoint, Log
from cordwood.packing.output.accounting import InputCursor, ShardProgress
from cordwood.packing.output.first_samples import FirstInputs
from cordwood.packing.workers.work import EncodedResult, RawResult, Result
from cordwood.sources import Input
from cordwood.store import Field
from cordwood.store.format.folder import OpenFolder
from cordwood.store.writing.appender import Appender
from cordwood.store.writing.encode import Encoded, SampleEncoder
from cordwood.store.writing.first_samples import FixedSchema
from cordwood.store.writing.open_shard import OpenShard, ResumedShard
from cordwood.store.writing.options import Options
from cordwood.store.writing.prepare import Prepared

OnFailure = Callable[[int, Input, Failure], None]


class StoreOutput:
    """The store of a job, and how far the job is.

    `progress` counts what has been written. `first` holds the first inputs, and is None once the schema is fixed.
    `failed` is called for each failed input, in order. If it raises, the whole unit is discarded. If it `looks`, the
    first samples alone do not fix the schema: results that come behind them wait until `write_first` is called.
    """

    def __init__(
        self,
        folder: OpenFolder,
        options: Options,
        hints: Mapping[str, Field],
        *,
        start: int,
        batch: int,
        threads: int,
        failed: OnFailure,
        looks: bool = False,
    ) -> None:
        self.path = folder.path
        self.progress = ShardProgress(Position(start))
        self.next_input = start  # the first one that no process has packed or logged before
        self.stored_bytes = 0  # of frames, by this process
        self.first: FirstInputs | None = None
        self._batch = batch
        self._threads = threads
        self._failed = failed
        self._looks = looks
        self._behind: list[tuple[int, Sequence[Input], Result]] = []  # what came behind the first samples
        self._first_log = FirstSamplesLog(self.path)
        self._shard_log: Log | None = None  # of the open shard
        known = folder.manifest is not None and folder.manifest.schema is not None
        left = self._find(folder) if known else None
        resumes = folder.shards > 0 or left is not None
        self._appender = Appender(folder, options, threads, resumes=resumes, adapts=not looks)
        if self._appender.fixed is None:
            self.first = FirstInputs(self._appender, self._first_log, hints)
            self.next_input = self.first.restore(start)
            if self.first.waiting and self.first.collected.is_full and not looks:
                self.write_first()
            return
        self._first_log.remove()
        if left is not None:
            self._resume_shard(left, folder.shards)
        self.next_input = self.progress.position.input

    def _find(self, folder: OpenFolder) -> shard_log.LogContents | None:
        """Set the progress to the end of the last shard; return what another process left of the next one."""
        if folder.shards:
            last = folder.shards - 1
            header = inputs.read_header(self.path, last) if inputs.path_of(self.path, last).exists() else None
            if header is None or header.totals.samples != folder.committed:
                told = "has no list of its inputs" if header is None else f"ends with number {header.totals.samples}"
                raise FormatError(
                    f"{self.path} has {folder.committed} samples, but its last shard {told}: somebody else has written "
                    "to it; pack to a store of its own"
                )
            self.progress.position, self.progress.totals = header.after, header.totals
            self.progress.end_shard()
        left = shard_log.read(self.path, folder.shards)
        there = shard_log.open_path(self.path, folder.shards).exists()
        if left is None or not there or left.checkpoint.first != self.progress.position:
            left = None
        shard_log.remove_unfinished(self.path, keep=None if left is None else folder.shards)
        return left

    def _resume_shard(self, left: shard_log.LogContents, number: int) -> None:
        shards = self._appender.writing.shards
        try:
            shards.use(FixedSchema.load(self.path, shards.fixed.manifest, left.checkpoint.plans))
            self._begin_shard(number, left)
        except FormatError:  # the disk has lost what it had promised to keep: the shard is packed again
            shard_log.remove_unfinished(self.path, keep=None)
            return
        progress, told = self.progress, left.checkpoint
        progress.position, progress.totals = told.position, told.totals
        for entry in inputs.entries(left.lines, str(self.path)):
            progress.lines.add(entry)

    @property
    def wants_look(self) -> bool:
        """Whether the first samples have come, and others from behind them are to be looked at."""
        return self._looks and self.first is not None and self.first.collected.is_full

    @property
    def fixed(self) -> FixedSchema | None:
        """Schema and plans, once they are known."""
        return self._appender.fixed

    @cached_property
    def _encoder(self) -> SampleEncoder:
        """For samples that came before their worker knew the schema."""
        return SampleEncoder(self._appender.writing.fixed, self._threads)

    @property
    def done(self) -> Totals:
        """What is written, and what waits for the schema."""
        totals = self.progress.totals
        waiting = [one.entry.samples for one in self.first.waiting] if self.first is not None else []
        return replace(
            totals,
            inputs=totals.inputs + len(waiting),
            samples=totals.samples + sum(count for count in waiting if count > 0),
            dropped=totals.dropped + waiting.count(0),
            failed=totals.failed + waiting.count(FAILED),
        )

    def take(self, first: int, inputs: Sequence[Input], result: Result) -> None:
        """What became of the inputs from number `first` on, the next one."""
        if isinstance(result, RawResult):
            place = 0
            while self.first is not None and place < len(inputs):
                if self.wants_look:
                    self._behind.append((first + place, inputs[place:], result.behind(place)))
                    return
                unit = range(place, min(place + self._batch, len(inputs)))
                self._collect(self.first, first, inputs, result, unit)
                place = unit.stop
                if self.first.collected.is_full and not self._looks:
                    self.write_first()
            if self.first is not None:
                return
            first, inputs, result = first + place, inputs[place:], self._encoded(result, place)
        start = 0
        for place in sorted(result.failures):
            unit_start = place - place % self._batch
            if unit_start > start:
                self._write(first + start, inputs[start:unit_start], *result.cut(start, unit_start))
                start = unit_start
            self._failed(first + place, inputs[place], result.failures[place])
        self._write(first + start, inputs[start:], *result.cut(start, len(inputs)))

    def _collect(
        self, collecting: FirstInputs, first: int, inputs: Sequence[Input], result: RawResult, unit: range
    ) -> None:
        """Keep the samples of a unit, which wait for the schema."""
        sizes: dict[int, list[int]] = {}
        for each in unit:
            try:
                if result.counts[each] != FAILED:
                    sizes[each] = [collecting.collected.check(sample) for sample in result.samples[each]]
            except Exception as error:
                result.counts[each], result.failures[each] = FAILED, Failure.of(error)
            if result.counts[each] == FAILED:
                self._failed(first + each, inputs[each], result.failures[each])
        for each in unit:
            if each in sizes:
                collecting.take(first + unit.start, result.samples[each], sizes[each], result.labels_kept)
            # Without their handles, which may be whole samples: there may be many inputs without samples.
            collecting.waiting.append(WaitingInput(first + each, InputEntry.of(inputs[each], result.counts[each])))
        collecting.end_unit(first + unit.stop)

    def _encoded(self, result: RawResult, start: int) -> EncodedResult:
        """The samples of the inputs from number `start` on, encoded."""
        made = EncodedResult()
        for place in range(start, len(result.counts)):
            made.add(result.failures.get(place, result.samples[place]), self._encoder)
        made.parts = self._encoder.encoded()
        return made

    def fix_schema(self) -> tuple[FirstInputs, list[Prepared]]:
        """Fix schema and plans by the first inputs, and return these with their samples."""
        assert self.first is not None  # noqa: S101 - for the type checker
        prepared = self.first.fix()
        first, self.first = self.first, None
        return first, prepared

    def write_first(self) -> None:
        """Fix schema and plans by the first inputs, and write these and what has come behind them."""
        first, prepared = self.fix_schema()
        for sample in prepared:  # they made the schema, so they fit it: an error here is not an input's failure
            self._encoder.add(sample)
        self._write(*first.waited(), self._encoder.encoded(), [sample.nbytes for sample in prepared])
        behind, self._behind = self._behind, []
        for each in behind:
            self.take(*each)

    def _write(
        self, first: int, inputs: Sequence[Input], counts: list[int], parts: list[Encoded], raw_sizes: list[int]
    ) -> None:
        """Write samples of whole units, and note which inputs they are of."""
        if not inputs:
            return
        skipped = self.progress.position.samples
        with self._logging():
            cursor = InputCursor(self.progress, first, inputs, counts, raw_sizes, self._batch)
            for part in parts:
                done, skipped = min(skipped, len(part)), max(skipped - len(part), 0)
                while done < len(part):
                    shard = self._shard_with_room()
                    end = self._appender.writing.shards.add(part, done)
                    self.stored_bytes += int(part.frame_bytes()[done:end].sum())
                    cursor.advance(end - done, shard.is_full)
                    done = end
            cursor.finish()

    @contextmanager
    def _logging(self) -> Iterator[None]:
        """If the block fails, samples, progress and log do not agree, so nothing more is logged of the open shard."""
        try:
            yield
        except BaseException:
            self._close_log()
            raise

    def _close_log(self) -> None:
        if self._shard_log is not None:
            self._shard_log.close()
            self._shard_log = None

    def _shard_with_room(self) -> OpenShard:
        """A full shard waits for the next sample, since inputs without samples that follow it belong to it."""
        shards = self._appender.writing.shards
        if shards.open is not None and not shards.open.is_full:
            return shards.open
        self._commit()
        return self._begin_shard(shards.next, None)

    def _begin_shard(self, number: int, left: shard_log.LogContents | None) -> OpenShard:
        path = shard_log.open_path(self.path, number)
        resumed = ResumedShard(path) if left is None else ResumedShard(path, left.rows, left.checkpoint.statistics)
        shard = self._appender.writing.shards.begin(resumed)
        self._shard_log = Log(shard_log.log_path(self.path, number), 0 if left is None else left.size)
        return shard

    def _commit(self) -> None:
        """Let the open shard, if there is one, take its place."""
        shards = self._appender.writing.shards
        if shards.open is not None:
            shards.commit(self._ending(shards.open.number, *self.progress.end_shard(), self._shard_log))
            self._shard_log = None

    @contextmanager
    def _ending(self, number: int, header: InputsHeader, lines: bytes, log: Log | None) -> Iterator[None]:
        """The list of its inputs is on the disk before a shard is, and its log no longer than needed."""
        inputs.write(self.path, number, *header, lines)
        yield
        self._first_log.remove()
        if log is not None:
            log.remove()

    def checkpoint(self) -> None:
        """Put everything that has come on the disk, so that another process can resume after it."""
        if self.first is not None:
            self.first.checkpoint()
            return
        progress, shard = self.progress, self._appender.writing.shards.open
        if shard is None or self._shard_log is None:
            return
        with self._logging():
            rows, statistics = shard.sync()
            plans = self._appender.writing.shards.fixed.plan_names
            told = Checkpoint(progress.position, progress.totals, progress.first, statistics, plans)
            self._shard_log.add(told.to_json(), rows, progress.new_lines.text())
        progress.new_lines.clear()
        self._first_log.remove()

    def finish(self) -> None:
        """All inputs have come: the last shard, however small, is in its place when this returns."""
        if self.first is not None and len(self.first):
            self.write_first()
        if self.first is None:
            self._commit()
            self._appender.writing.shards.finish()
        elif self.first.waiting:  # all of them without samples: there is nothing to write, but something to count
            first, inputs, counts = self.first.waited()
            InputCursor(self.progress, first, inputs, counts, [], self._batch).finish()
            self._first_log.remove()

    def stop(self) -> None:
        """End the threads; what was not finished stays where another process finds it."""
        self._appender.stop("the job has ended")
        self._first_log.close()
        self._close_log()
