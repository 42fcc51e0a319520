"""``cw.pack(..., update=True)``: brings a store up to date with its source.

Shards that hold inputs which have changed or are gone are written anew, in a folder beside the store that has links to
all others; then the folders change places. What is new is packed behind the rest, in the ordinary way, which can be
stopped and gone on with. If the first is interrupted, the store is as it was; if it is killed while the folders change
places, the next one who packs puts that right.

While an update is under way, the fingerprint in ``pack.json`` is marked: a run without ``update`` would take the inputs
in another order, and is refused.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from cordwood.common.atomic_file import replacing
from cordwood.common.files import read_all
from cordwood.errors import UsageError
from cordwood.packing.journal import inputs, job_file, shard_log
from cordwood.packing.journal.failure_policy import Failures, listed
from cordwood.packing.journal.first_samples_log import FirstSamplesLog
from cordwood.packing.journal.inputs import FAILED, InputEntry, Lines, Position, Totals
from cordwood.packing.journal.job_file import UPDATING, JobFile
from cordwood.packing.report.progress import PackProgress
from cordwood.packing.transform.identity import difference
from cordwood.packing.update.check_schema import check_classes, check_fields
from cordwood.packing.update.compare_inputs import UpdatePlan, compare, gathered
from cordwood.packing.update.rewrite_shards import FIRST, Rewriting
from cordwood.packing.update.swap_folders import exchanged, recover
from cordwood.packing.workers.engine import Engine
from cordwood.packing.workers.interrupt import Interruption
from cordwood.packing.workers.tasks import Tasks
from cordwood.packing.workers.work import Job
from cordwood.sources import Input, Source
from cordwood.store.format import manifest, shard_index
from cordwood.store.format.folder import OpenFolder, open_folder

_MOST_BYTES = 1 << 34  # of a list of failures

Made = TypeVar("Made")
Report = Callable[[PackProgress], object]


class Remaining(Source):
    """A source in the order of a store: what the store has, which is not asked for again, then all that it lacks."""

    kind = "update"

    def __init__(self, source: Source, plan: UpdatePlan, notes: Sequence[str]) -> None:
        self._source = source
        self._plan = plan
        self._notes = tuple(notes)

    @property
    def count(self) -> int | None:
        plan = self._plan
        if plan.listed is None:
            return self._source.count
        return plan.finished + len(plan.unfinished) + int((~plan.listed).sum())

    @property
    def indexed(self) -> bool:
        return self._source.indexed

    def inputs(self, start: int = 0) -> Iterator[Input]:
        plan = self._plan
        if plan.listed is None:
            return self._source.inputs(start)
        listed = plan.listed
        if start < plan.finished:
            raise UsageError(f"input {start} is packed already: {plan.finished} of them are")
        new = (one for number, one in enumerate(self._source.inputs()) if number >= len(listed) or not listed[number])
        return islice(chain(gathered(self._source, plan.unfinished), new), start - plan.finished, None)

    def reader(self) -> Callable[[Any], Any]:
        return self._source.reader()

    def describe(self) -> dict[str, Any]:
        return self._source.describe()

    def fingerprint(self) -> str:
        return _marked(self._source.fingerprint())

    @property
    def classes(self) -> Mapping[str, Sequence[str]]:
        return self._source.classes

    @property
    def varying(self) -> Sequence[str]:
        return self._source.varying

    @property
    def absent(self) -> Mapping[str, str]:
        return self._source.absent

    @property
    def notes(self) -> Sequence[str]:
        return (*self._source.notes, *self._notes)


def update(
    source: Source,
    dest: Path,
    job: Job,
    now: JobFile,
    *,
    workers: int,
    timeout: float | None,
    failures: Failures,
    accept_changed_transform: bool,
    report: Report,
    run: Callable[[Source], Made],
) -> Made:
    """Bring a store up to date; `run` packs what a source has and the store has not, as any other run does."""
    recover(dest)
    if not (dest / manifest.NAME).exists():
        return run(source)
    before = job_file.require(dest)
    _check_same(dest, before, now, accept_changed_transform)
    # Whoever leaves inputs out that fail would have all shards that had some written anew, every time.
    retry_failed = not failures.skips or difference(before.transform, now.transform) is not None
    failed = before.totals.failed if before.totals is not None else 0
    told = before.complete and now.fingerprint is not None and before.fingerprint == now.fingerprint
    if told and not (retry_failed and failed):
        return run(source)
    folder = open_folder(dest, "resume")
    try:
        check_classes(folder, source)
        if now.transform.get("name") is None:
            check_fields(folder, source, now.options["fields"])
        plan = compare(dest, source, folder.shards, batch=job.batch, retry_failed=retry_failed)
        if _unmarked(before.fingerprint) != now.fingerprint or plan.rewrites:
            shard_log.remove_unfinished(dest, keep=None)  # it was made of another list of inputs
            FirstSamplesLog(dest).remove()
        if plan.rewrites:
            kept, failures.kept = failures.kept, "the store is as it was before the update"
            rewriting = _rewrite(folder, plan, source, job, now, workers, timeout, failures, report)
            failures.kept = kept
            _tell_failures_anew(dest, rewriting.shards, failures.log)
            plan.finished = rewriting.totals.inputs
        job_file.write(dest, replace(now, fingerprint=_marked(now.fingerprint)))
    finally:
        folder.lock.release()
    remaining = Remaining(source, plan, [f"update: {plan}"])
    made = run(remaining)
    finished = job_file.require(dest)
    if finished.totals is not None and plan.listed is not None:
        _list_rest(dest, remaining, finished.totals, failures.log)
    job_file.write(dest, replace(finished, fingerprint=now.fingerprint, contents=now.contents, code=now.code))
    return made


def _marked(fingerprint: str | None) -> str:
    return f"{UPDATING}{fingerprint or ''}"


def _unmarked(fingerprint: str | None) -> str | None:
    text = fingerprint.removeprefix(UPDATING) if isinstance(fingerprint, str) else None
    return text or None


def _check_same(dest: Path, before: JobFile, now: JobFile, accept_changed_transform: bool) -> None:
    if before.part is not None or now.part is not None:
        raise UsageError(
            f"{dest} is a part of a job, and where parts end changes with the number of inputs: merge all parts, and "
            "update the result"
        )
    same_list = replace(before, fingerprint=now.fingerprint, contents=now.contents)
    job_file.check_same(dest, same_list, now, accept_changed_transform=accept_changed_transform)


# ---- shards that change ----------------------------------------------------------------------------------------------


def _rewrite(
    folder: OpenFolder,
    plan: UpdatePlan,
    source: Source,
    job: Job,
    now: JobFile,
    workers: int,
    timeout: float | None,
    failures: Failures,
    report: Report,
) -> Rewriting:
    """Put a new store in the place of the old one; the lock is then that of the new one."""
    with exchanged(folder) as new:
        redone, began = gathered(source, plan.redone), time.monotonic()
        progress = PackProgress(of_inputs=len(redone), workers=workers)
        rewriting = Rewriting(folder.path, new, plan, failures, progress)
        try:
            engine = Engine(job, Tasks(iter(redone), FIRST, None, job.batch), rewriting, workers, timeout)

            def step() -> None:
                seconds = time.monotonic() - began
                report(replace(rewriting.progress, seconds=seconds, waiting_for=engine.waiting_for()))

            with Interruption() as interrupted:
                engine.run(step, interrupted)
            rewriting.refuse_loss()
            rewriting.finish()
        finally:
            rewriting.stop()
        job_file.write(new, replace(now, fingerprint=_marked(now.fingerprint)))
    return rewriting


# ---- what is told of inputs without samples ------------------------------------------------------------------------


def _list_rest(dest: Path, remaining: Remaining, totals: Totals, log: Path) -> None:
    """Inputs behind the last sample that have none are listed with its shard, lest they count as new next time."""
    shard = len(shard_index.read(dest).records) - 1
    if shard < 0:
        return
    told = inputs.read(dest, shard)
    if told.after.input >= totals.inputs:
        return
    failed = _failures(log)
    lines = Lines(told.lines)
    for one in islice(remaining.inputs(told.after.input), totals.inputs - told.after.input):
        lines.add(InputEntry.of(one, FAILED if one.name in failed else 0))
    inputs.write(dest, shard, told.first, Position(totals.inputs), totals, lines.text())


def _failures(log: Path) -> dict[str, dict[str, Any]]:
    """What is told of inputs that failed, by their names."""
    told: dict[str, dict[str, Any]] = {}
    data = read_all(log, "the list of inputs that failed", _MOST_BYTES) if log.exists() else b""
    for line in data.splitlines():
        with suppress(ValueError, KeyError, TypeError):  # cut short by a kill
            one = json.loads(line)
            told[one["name"]] = one
    return told


def _tell_failures_anew(dest: Path, shards: int, log: Path) -> None:
    """Of the inputs that failed, keep those in the list that are in the store, under their new numbers."""
    told = _failures(log)
    kept, number, last = [], -1, None
    for shard in range(shards):
        for entry in inputs.read(dest, shard).entries():
            number += entry.name != last
            last = entry.name
            if entry.samples == FAILED and entry.name in told:
                kept.append(listed({**told[entry.name], "input": number}))
    if kept:
        with replacing(log) as file:
            file.write(b"".join(kept))
    else:
        log.unlink(missing_ok=True)
