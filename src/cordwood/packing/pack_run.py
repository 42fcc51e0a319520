"""One run of a packing job: new, or resumed where an earlier run stopped.

run = OneRun(source, dest, transform, settings, failures)
packed = run.run(report)
"""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cordwood.common.resources import default_threads
from cordwood.errors import PackError
from cordwood.packing.journal import first_samples_log, job_file, shard_log
from cordwood.packing.journal.failure_policy import Failures
from cordwood.packing.journal.inputs import Totals
from cordwood.packing.journal.job_file import JobFile
from cordwood.packing.journal.part import Part, bounds
from cordwood.packing.output.empty_source import begun, nothing_in
from cordwood.packing.output.first_samples import SchemaOnlySink
from cordwood.packing.output.store_output import StoreOutput
from cordwood.packing.report.progress import PackProgress, Reporter
from cordwood.packing.report.startup_cost import advice
from cordwood.packing.report.summary import Packed, store_bytes, torch_save_bytes
from cordwood.packing.transform.identity import contents_of
from cordwood.packing.transform.transform import Transform
from cordwood.packing.update.first_change import first_change
from cordwood.packing.update.swap_folders import recover
from cordwood.packing.update.update import update
from cordwood.packing.workers.engine import Engine, Sink
from cordwood.packing.workers.interrupt import Interruption
from cordwood.packing.workers.tasks import Tasks
from cordwood.packing.workers.work import Job
from cordwood.sources import Input, Source
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
    seed: int
    retries: int
    part: Part | None
    accept_changed_transform: bool


def job_of(source: Source, transform: Transform, settings: Settings) -> Job:
    """What workers need to know."""
    labels, absent = tuple(source.classes), dict(source.absent)
    return Job(source.reader(), transform, settings.seed, settings.batch, settings.retries, labels, absent)


class OneRun:
    """One run of a job."""

    def __init__(
        self, source: Source, dest: Path, transform: Transform, settings: Settings, failures: Failures
    ) -> None:
        self._source = source
        self._dest = dest
        self._transform = transform
        self._settings = settings
        self._failures = failures
        self._began = time.monotonic()
        self._starting = 0.0  # seconds in which workers started
        self._begun: Iterator[Input] | None = None  # all inputs, if the first was asked for
        self._start, self._stop = bounds(settings.part, source.count, settings.batch)

    def update(self, report: Reporter) -> Packed:
        """Bring a store up to date with its source; one that is not there is packed."""
        settings = self._settings
        if self._source.count == 0:  # a disk that is not mounted must not empty a store
            raise nothing_in(self._source)
        return update(
            self._source,
            self._dest,
            job_of(self._source, self._transform, settings),
            self._job_file(),
            workers=settings.workers,
            failures=self._failures,
            accept_changed_transform=settings.accept_changed_transform,
            report=report,
            run=lambda source: OneRun(source, self._dest, self._transform, settings, self._failures).run(report),
        )

    def run(self, report: Reporter) -> Packed:
        """Until everything is packed, or something comes in the way."""
        recover(self._dest)
        now = self._job_file()
        before = job_file.read(self._dest)
        if before is not None:
            job_file.check_same(
                self._dest,
                before,
                now,
                accept_changed_transform=self._settings.accept_changed_transform,
                nothing_packed=not before.complete and self._is_bare(),
                how_inputs_changed=self._change,
            )
            if before.complete and before.totals is not None:
                return self._packed(before.totals, before.totals, ("it was complete already",))
        folder = open_folder(self._dest, "resume")
        try:
            self._refuse_nothing(folder)
            return self._pack(folder, now, report)
        finally:
            folder.lock.release()

    def _refuse_nothing(self, folder: OpenFolder) -> None:
        """Before a store is begun; a part may be empty if the whole is not."""
        if folder.manifest is not None:
            return
        try:
            if self._settings.part is None:
                self._begun = begun(self._source)
            elif self._source.count == 0:
                raise nothing_in(self._source)
        except BaseException:
            folder.discard()
            raise

    def _is_bare(self) -> bool:
        """Whether the run before came to nothing: no shard, none that is open, no samples that wait for a schema."""
        kept = (self._dest / shard_name(0), shard_log.open_path(self._dest, 0), first_samples_log.path_of(self._dest))
        return not any(path.exists() for path in kept)

    def _change(self) -> str:
        return first_change(self._dest, len(shard_index.read(self._dest).records), self._source, self._start)

    def _job_file(self) -> JobFile:
        settings, transform = self._settings, self._transform
        batch = settings.batch if transform.batched else None
        options = job_file.job_options(settings.options, batch, settings.seed)
        identity, origin = dict(transform.identity), self._source.origin()
        return JobFile(
            self._source.describe(),
            self._source.fingerprint(),
            identity,
            options,
            settings.part,
            contents=None if origin is None else contents_of(origin),
        )

    def _pack(self, folder: OpenFolder, now: JobFile, report: Reporter) -> Packed:
        settings = self._settings
        if folder.manifest is not None and folder.committed:
            job_file.require(self._dest)
        output = StoreOutput(
            folder,
            settings.options,
            self._source.classes,
            start=self._start,
            batch=settings.batch,
            threads=default_threads(),
            failed=self._failures,
        )
        resumed = output.done
        # What a part has looked at of the whole is not packed by that.
        looks = output.first is not None and settings.part is not None and not resumed.inputs
        first = self._start if looks else output.next_input
        log.info("packing into %s from input %d on, with %d worker processes", self._dest, first, settings.workers)
        try:
            job_file.write(self._dest, now)
            self._failures.forget_from(first)
            with Interruption() as interrupted:
                try:
                    if looks:
                        self._fix_schema_of_the_whole(output, interrupted)
                    engine = self._engine(first, self._stop, output)
                    engine.run(lambda: report(self._progress(output, resumed)), interrupted)
                    self._starting += engine.starting
                except KeyboardInterrupt as error:
                    error.add_note(
                        f"{output.done.inputs:,} inputs are packed into {self._dest}; the same call goes on there"
                    )
                    raise
            output.finish()
            totals = output.progress.totals
            if not totals.inputs and settings.part is None:
                raise nothing_in(self._source)
            if totals.failed and not totals.samples and settings.part is None:
                raise self._nothing(totals)
            report(self._progress(output, resumed))
            job_file.write(self._dest, now.completed(totals))
        finally:
            output.stop()
        return self._packed(totals, resumed, (*self._source.notes, *engine.notes))

    def _nothing(self, totals: Totals) -> PackError:
        others = " and the others gave no samples;" if totals.failed < totals.inputs else ""
        return PackError(
            f"nothing was packed: {totals.failed:,} of {totals.inputs:,} inputs failed, most often with "
            f"{self._failures.commonest()};{others} {self._failures.log} tells why each did"
        )

    def _engine(self, first: int, stop: int | None, sink: Sink) -> Engine:
        found, self._begun = self._begun, None
        tasks = Tasks(self._source.inputs(first) if found is None else found, first, stop, self._settings.batch)
        return Engine(job_of(self._source, self._transform, self._settings), tasks, sink, self._settings.workers)

    def _fix_schema_of_the_whole(self, output: StoreOutput, interrupted: Interruption) -> None:
        """Let a part have the schema and the plans that the whole job would have, so that parts can be merged."""
        if output.first is None:
            return
        sink = SchemaOnlySink(output.first, self._settings.batch)
        engine = self._engine(output.next_input if len(output.first) else 0, None, sink)
        engine.run(lambda: None, interrupted, sink.enough)
        self._starting += engine.starting
        if len(output.first):
            output.fix_schema()

    def _progress(self, output: StoreOutput, resumed: Totals) -> PackProgress:
        totals = output.done
        return PackProgress(
            inputs=totals.inputs,
            of_inputs=self._source.count if self._stop is None else self._stop - self._start,
            samples=totals.samples,
            dropped=totals.dropped,
            failed=totals.failed,
            bytes_in=totals.bytes_in,
            raw_bytes=totals.raw_bytes,
            stored_bytes=output.stored_bytes,
            seconds=time.monotonic() - self._began,
            resumed=resumed.inputs,
            workers=self._settings.workers,
        )

    def _packed(self, totals: Totals, resumed: Totals, notes: tuple[str, ...]) -> Packed:
        seconds = time.monotonic() - self._began
        told = advice(seconds, self._starting, self._settings.workers)
        return Packed(
            str(self._dest),
            samples=totals.samples,
            inputs=totals.inputs,
            dropped=totals.dropped,
            failed=totals.failed,
            bytes_in=totals.bytes_in,
            raw_bytes=totals.raw_bytes,
            stored_bytes=store_bytes(self._dest),
            shards=len(shard_index.read(self._dest).records),
            seconds=seconds,
            torch_save_bytes=torch_save_bytes(self._dest, totals.samples, totals.raw_bytes),
            resumed_inputs=resumed.inputs,
            resumed_samples=resumed.samples,
            errors=str(self._failures.log) if totals.failed else None,
            part=self._settings.part,
            notes=(*notes, told) if told else notes,
            starting_seconds=self._starting,
        )
