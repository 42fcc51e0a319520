"""One run of a packing job: new, or resumed where an earlier run stopped.

run = OneRun(source, dest, transform, settings, failures)
packed = run.run(report)
"""

import logging
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from cordwood.common.resources import default_threads
from cordwood.errors import FormatError, PackError
from cordwood.packing.journal import first_samples_log, inputs, job_file, shard_log
from cordwood.packing.journal.failure_policy import Failures
from cordwood.packing.journal.inputs import Totals
from cordwood.packing.journal.job_file import JobFile
from cordwood.packing.journal.part import Part, bounds
from cordwood.packing.output.empty_source import begun, nothing_in
from cordwood.packing.output.first_samples import Look, SchemaOnlySink, hints_of
from cordwood.packing.output.store_output import StoreOutput
from cordwood.packing.report.lacking import lacking
from cordwood.packing.report.progress import PackProgress, Reporter
from cordwood.packing.report.startup_cost import advice
from cordwood.packing.report.summary import Packed, frames_note, torch_save_bytes
from cordwood.packing.transform.identity import contents_of
from cordwood.packing.transform.transform import Transform
from cordwood.packing.update.check_items import check_items, is_random
from cordwood.packing.update.first_change import first_change
from cordwood.packing.update.swap_folders import recover
from cordwood.packing.update.update import update
from cordwood.packing.workers.engine import Engine, Sink, started
from cordwood.packing.workers.interrupt import Interruption
from cordwood.packing.workers.pool import Pool
from cordwood.packing.workers.tasks import Tasks
from cordwood.packing.workers.work import Job
from cordwood.sources import Input, Source
from cordwood.store import store_bytes
from cordwood.store.format import shard_index
from cordwood.store.format.folder import OpenFolder, open_folder
from cordwood.store.format.shard_file import shard_name
from cordwood.store.writing.options import Options

log = logging.getLogger("cordwood.pack")


@dataclass(frozen=True)
class Settings:
    """What a caller asked for, checked. `batch` is 1 for transforms of single samples."""

    options: Options
    batch: int
    workers: int
    timeout: float | None
    seed: int
    retries: int
    part: Part | None
    accept_changed_transform: bool


class OneRun:
    """One run of a job."""

    def __init__(
        self, source: Source, dest: Path, transform: Transform, settings: Settings, failures: Failures
    ) -> None:
        self.source = source
        self.dest = dest
        self.transform = transform
        self.settings = settings
        self.failures = failures
        self._began = time.monotonic()
        self._starting = 0.0  # seconds in which workers started
        self._notes: list[str] = []  # what else happened while samples were looked at
        self._begun: Iterator[Input] | None = None  # all inputs, if the first was asked for
        self._last = PackProgress(of_inputs=source.count, workers=settings.workers)  # that was reported
        self.random = False  # `run_or_update` found that samples come out different when they are made again
        self._start, self._stop = bounds(settings.part, source.count, settings.batch)

    @cached_property
    def job(self) -> Job:
        """What workers need to know."""
        source, settings = self.source, self.settings
        labels, absent = (*source.classes, *source.varying), dict(source.absent)
        return Job(source.reader(), self.transform, settings.seed, settings.batch, settings.retries, labels, absent)

    @cached_property
    def now(self) -> JobFile:
        """The job as it is to be recorded."""
        settings, transform = self.settings, self.transform
        batch = settings.batch if transform.batched else None
        origin = self.source.origin()
        contents = None if origin is None else contents_of(origin)
        return JobFile(
            self.source.describe(),
            self.source.fingerprint(),
            dict(transform.identity),
            job_file.job_options(settings.options, batch, settings.seed),
            settings.part,
            contents=contents and contents.everything,
            code=contents and contents.code,
        )

    def finished(self) -> Totals | None:
        """What is in the store, if all of the source is; UsageError if the store is complete, and another job's."""
        before = job_file.read(self.dest)
        if before is None or not before.complete or not self._same_inputs(before):
            return None
        job_file.check_same(
            self.dest, before, self.now, accept_changed_transform=self.settings.accept_changed_transform
        )
        shards = len(shard_index.read(self.dest).records)
        missing = next((name for name in map(shard_name, range(shards)) if not (self.dest / name).exists()), None)
        if missing is not None:
            raise FormatError(
                f"{self.dest} is damaged: {missing} is missing. Restore it from a copy, or delete {self.dest} to pack "
                "it anew"
            )
        return before.totals

    def run_or_update(self, report: Reporter) -> Packed:
        """Pack, resume, or bring the store up to date, whichever is needed."""
        recover(self.dest)
        if (self.dest / shard_name(0)).exists():
            job_file.require(self.dest)
        before = job_file.read(self.dest)
        bare = before is not None and not before.complete and not before.under_update and self._is_bare()

        def waits(waiting_for: tuple[str, float] | None) -> None:
            report(replace(self._last, seconds=time.monotonic() - self._began, waiting_for=waiting_for))

        again = self.dest, self.source, self.job, self.settings.workers, self.settings.timeout, waits
        if before is None or bare or self._same_inputs(before):
            packed = self.run(report)
            self.random = is_random(*again)
            return packed
        if not self.settings.accept_changed_transform:
            job_file.check_code(self.dest, before, self.now)
        check_items(*again)
        return self.update(report)

    def _same_inputs(self, before: JobFile) -> bool:
        return before.fingerprint == self.now.fingerprint

    def update(self, report: Reporter) -> Packed:
        """Bring a store up to date with its source; one that is not there is packed."""
        settings = self.settings
        if self.source.count == 0:  # a disk that is not mounted must not empty a store
            raise nothing_in(self.source)
        return update(
            self.source,
            self.dest,
            self.job,
            self.now,
            workers=settings.workers,
            timeout=settings.timeout,
            failures=self.failures,
            accept_changed_transform=settings.accept_changed_transform,
            report=report,
            run=lambda source: OneRun(source, self.dest, self.transform, settings, self.failures).run(report),
        )

    def run(self, report: Reporter) -> Packed:
        """Until everything is packed, or something comes in the way."""
        recover(self.dest)
        now, before = self.now, job_file.read(self.dest)
        if before is not None:
            job_file.check_same(
                self.dest,
                before,
                now,
                accept_changed_transform=self.settings.accept_changed_transform,
                nothing_packed=not before.complete and self._is_bare(),
                how_inputs_changed=self._change,
            )
            if before.complete and before.totals is not None:
                return self._packed(before.totals, before.totals, ("it was complete already",))
        folder = open_folder(self.dest, "resume")
        try:
            self._refuse_nothing(folder)
            return self._pack(folder, report)
        finally:
            folder.lock.release()

    def _refuse_nothing(self, folder: OpenFolder) -> None:
        """Before a store is begun; a part may be empty if the whole is not."""
        if folder.manifest is not None:
            return
        try:
            if self.settings.part is None:
                self._begun = begun(self.source)
            elif self.source.count == 0:
                raise nothing_in(self.source)
        except BaseException:
            folder.discard()
            raise

    def _is_bare(self) -> bool:
        """Whether the run before came to nothing: no shard, none that is open, no samples that wait for a schema."""
        kept = (self.dest / shard_name(0), shard_log.open_path(self.dest, 0), first_samples_log.path_of(self.dest))
        return not any(path.exists() for path in kept)

    def _change(self) -> str:
        return first_change(self.dest, len(shard_index.read(self.dest).records), self.source, self._start)

    def _pack(self, folder: OpenFolder, report: Reporter) -> Packed:
        settings, now = self.settings, self.now
        if folder.manifest is not None and folder.committed:
            job_file.require(self.dest)
        output = StoreOutput(
            folder,
            settings.options,
            hints_of(self.source),
            start=self._start,
            batch=settings.batch,
            threads=default_threads(),
            failed=self.failures,
            looks=self.source.indexed and self.source.count is not None,
        )
        resumed = output.done
        # What a part has looked at of the whole is not packed by that.
        looks = output.first is not None and settings.part is not None and not resumed.inputs
        first = self._start if looks else output.next_input
        log.info("packing into %s from input %d on, with %d worker processes", self.dest, first, settings.workers)
        try:
            job_file.write(self.dest, now)
            self.failures.forget_from(first)
            with Interruption() as interrupted, self._started() as pool:
                try:
                    if looks:
                        self._fix_schema_of_the_whole(output, pool, resumed, report, interrupted)
                    engine = self._engine(first, self._stop, output, pool)

                    def step() -> None:
                        report(self._progress(output, resumed, engine))

                    engine.run(step, interrupted, lambda: output.wants_look)
                    self._starting += engine.starting
                    if output.wants_look:
                        self._look(output, pool, resumed, report, interrupted)
                        output.write_first()
                        engine.run(step, interrupted)
                except KeyboardInterrupt as error:
                    error.add_note(
                        f"{output.done.inputs:,} inputs are packed into {self.dest}; the same call goes on there"
                    )
                    raise
            output.finish()
            totals = output.progress.totals
            if not totals.inputs and settings.part is None:
                raise nothing_in(self.source)
            if totals.failed and not totals.samples and settings.part is None:
                raise self._nothing(totals)
            report(self._progress(output, resumed))
            job_file.write(self.dest, now.completed(totals))
        finally:
            output.stop()
        return self._packed(totals, resumed, (*self.source.notes, *self._notes, *engine.notes))

    def _nothing(self, totals: Totals) -> PackError:
        others = " and the others gave no samples;" if totals.failed < totals.inputs else ""
        return PackError(
            f"nothing was packed: {totals.failed:,} of {totals.inputs:,} inputs failed, most often with "
            f"{self.failures.commonest()};{others} {self.failures.log} tells why each did"
        )

    def _started(self) -> AbstractContextManager[Pool | None]:
        return started(self.job, self.settings.workers, self.settings.timeout)

    def _engine(self, first: int, stop: int | None, sink: Sink, pool: Pool | None) -> Engine:
        found, self._begun = self._begun, None
        tasks = Tasks(self.source.inputs(first) if found is None else found, first, stop, self.settings.batch)
        return Engine(self.job, tasks, sink, self.settings.workers, self.settings.timeout, pool)

    def _fix_schema_of_the_whole(
        self, output: StoreOutput, pool: Pool | None, resumed: Totals, report: Reporter, interrupted: Interruption
    ) -> None:
        """Let a part have the schema and the plans that the whole job would have, so that parts can be merged."""
        if output.first is None:
            return
        sink = SchemaOnlySink(output.first, self.settings.batch)
        engine = self._engine(output.next_input if len(output.first) else 0, None, sink, pool)
        engine.run(lambda: report(self._progress(output, resumed, engine)), interrupted, sink.enough)
        self._starting += engine.starting
        self._notes += engine.notes
        if output.wants_look:
            self._look(output, pool, resumed, report, interrupted)
        if len(output.first):
            output.fix_schema()

    def _look(
        self, output: StoreOutput, pool: Pool | None, resumed: Totals, report: Reporter, interrupted: Interruption
    ) -> None:
        """Look at inputs behind the first ones, all over the source."""
        assert output.first is not None  # noqa: S101 - for the type checker
        look = Look(output.first, self.source, self.settings.batch)
        inputs = look.inputs, self.source.count or 0
        engine = Engine(self.job, look.tasks, look, self.settings.workers, self.settings.timeout, pool)
        engine.run(lambda: report(self._progress(output, resumed, engine, inputs)), interrupted, look.enough)
        self._starting += engine.starting
        self._notes += engine.notes
        look.end()

    def _progress(
        self,
        output: StoreOutput,
        resumed: Totals,
        engine: Engine | None = None,
        looking_at: tuple[int, int] | None = None,
    ) -> PackProgress:
        totals = output.done
        self._last = PackProgress(
            inputs=totals.inputs,
            of_inputs=self.source.count if self._stop is None else self._stop - self._start,
            samples=totals.samples,
            dropped=totals.dropped,
            failed=totals.failed,
            bytes_in=totals.bytes_in,
            raw_bytes=totals.raw_bytes,
            stored_bytes=output.stored_bytes,
            seconds=time.monotonic() - self._began,
            resumed=resumed.inputs,
            workers=self.settings.workers,
            waiting_for=None if engine is None else engine.waiting_for(),
            looking_at=looking_at,
        )
        return self._last

    def _packed(self, totals: Totals, resumed: Totals, notes: tuple[str, ...]) -> Packed:
        seconds = time.monotonic() - self._began
        shards = len(shard_index.read(self.dest).records)
        notes = (*notes, *lacking(self.dest))
        if totals.more_frames:
            example = inputs.with_more_frames(self.dest, shards)
            kept = any(field.keep_encoded for field in self.settings.options.fields.values())
            notes = (*notes, frames_note(totals.more_frames, totals.inputs, example, kept=kept))
        # A time limit needs a worker, so there is no doing without.
        told = "" if self.settings.timeout is not None else advice(seconds, self._starting, self.settings.workers)
        return Packed(
            str(self.dest),
            samples=totals.samples,
            inputs=totals.inputs,
            dropped=totals.dropped,
            failed=totals.failed,
            bytes_in=totals.bytes_in,
            raw_bytes=totals.raw_bytes,
            stored_bytes=store_bytes(self.dest),
            shards=shards,
            seconds=seconds,
            torch_save_bytes=torch_save_bytes(self.dest, totals.samples, totals.raw_bytes),
            resumed_inputs=resumed.inputs,
            resumed_samples=resumed.samples,
            errors=str(self.failures.log) if totals.failed else None,
            part=self.settings.part,
            notes=(*notes, told) if told else notes,
            starting_seconds=self._starting,
            more_frames=totals.more_frames,
        )
