"""Writes the shards whose inputs have changed again; all other files of the store are linked.

    rewriting = Rewriting(store, folder, plan, failed)
    Engine(job, Tasks(iter(inputs), FIRST, None, batch), rewriting, workers).run(report, interrupted)
    rewriting.finish()

It takes the results of the inputs that are done again, in order. Between them it copies the samples of the others,
their frames byte for byte: nothing but what has changed is encoded.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cordwood.common.files import opened
from cordwood.errors import FormatError
from cordwood.packing.journal import inputs as inputfiles
from cordwood.packing.journal.failure import Failure
from cordwood.packing.journal.inputs import FAILED, InputEntry, Lines, Position, ShardInputs, Totals
from cordwood.packing.output.first_samples import settled_before
from cordwood.packing.update.compare_inputs import DROP, KEEP, REDO, Decisions, UpdatePlan
from cordwood.packing.workers.work import Result, Settled
from cordwood.sources import Input
from cordwood.store.format import manifest, plan_files, shard_index
from cordwood.store.format.folder import sync_parent
from cordwood.store.format.new_folder import link_or_copy
from cordwood.store.format.row_search import read_at
from cordwood.store.format.rows import RowLayout
from cordwood.store.format.shard_file import ShardEnds, read_ends, read_footer, shard_name
from cordwood.store.writing.encode import Encoded
from cordwood.store.writing.open_shard import OpenShard
from cordwood.store.writing.shard_copy import Rows, copied, pieces

FIRST = 1 << 40  # numbers of inputs that are done again: no other input has the seeds that follow from them
_GROWTH = 2  # a shard may become so many times as large as others before it is cut in two

OnFailure = Callable[[int, Input, Failure], None]


class _RedoneInput(NamedTuple):
    """An input that was done again."""

    one: Input
    samples: int
    parts: list[Encoded]
    failure: Failure | None


class _Listed(NamedTuple):
    """A shard of the new store that is there, and will be told of when it is known that nothing more belongs to it."""

    number: int
    lines: Lines
    raw_bytes: int


class Rewriting:
    """The new store in `folder`; a sink of the engine. `failed` is told of inputs that fail, with their new numbers.

    `shards` and `totals` are those of the new store, when it is finished.
    """

    def __init__(self, store: Path, folder: Path, plan: UpdatePlan, failed: OnFailure) -> None:
        self._store = store
        self._folder = folder
        self._plan = plan
        self._failed = failed
        self._manifest = manifest.read(store)
        self.settled: Settled | None = settled_before(store, self._manifest)
        self._layout = RowLayout(self.settled.schema)
        self._records = bytearray()
        self._samples = 0
        self.shards = 0
        self._open: OpenShard | None = None
        self._plans: list[str] = []  # that frames of the open shard may need
        self._lines = Lines()  # inputs that belong to no shard yet
        self._listed: _Listed | None = None
        self.totals = Totals()
        self._begun = 0  # samples, in shards told of, of an input that goes on
        self._inputs = 0
        self._last: str | None = None
        self._walk = self._walking()
        self._has_ended = False
        self._begin()
        self._go_on(None)

    def _begin(self) -> None:
        for path in sorted((self._store / plan_files.FOLDER).glob("*.json")):
            target = self._folder / plan_files.FOLDER / path.name
            target.parent.mkdir(exist_ok=True)
            link_or_copy(path, target, "the plan")
        if (self._folder / plan_files.FOLDER).is_dir():
            sync_parent(self._folder / plan_files.FOLDER / "x")
        manifest.write(self._folder, self._manifest)

    # ---- as a sink of the engine -----------------------------------------------------------------------------------

    def take(self, first: int, inputs: Sequence[Input], result: Result) -> None:
        """What became of inputs that were done again, the next ones."""
        start = 0
        for place, (one, count) in enumerate(zip(inputs, result.counts, strict=True)):
            end = start + max(count, 0)
            self._go_on(_RedoneInput(one, count, list(_between(result.parts, start, end)), result.failures.get(place)))
            start = end

    def checkpoint(self) -> None:
        """Nothing is kept of a rewriting that is interrupted: the old store is as it was."""

    def finish(self) -> None:
        """Put the rest in its place, durably."""
        if not self._has_ended:
            raise FormatError(f"{self._store}: not all inputs that have changed were done again")
        self._tell_last(None)
        records = np.frombuffer(bytes(self._records), shard_index.RECORD)
        shard_index.mend(self._folder, shard_index.ShardIndex(records))
        sync_parent(self._folder / shard_index.NAME)

    def stop(self) -> None:
        """Give up what is open; nothing happens if it was finished."""
        self._walk.close()
        if self._open is not None:
            self._open.drop()
            self._open = None

    def _go_on(self, done: _RedoneInput | None) -> None:
        """Up to the next input that is done again."""
        try:
            self._walk.send(done)  # type: ignore[arg-type]  # the first one, which begins, is None
        except StopIteration:
            self._has_ended = True

    # ---- shard by shard --------------------------------------------------------------------------------------------

    def _walking(self) -> Generator[None, _RedoneInput, None]:
        """Through the old store; waits for every input that is done again."""
        before = 0
        for shard, decisions in enumerate(self._plan.shards):
            told = inputfiles.read(self._store, shard)
            raw_bytes, before = told.totals.raw_bytes - before, told.totals.raw_bytes
            if decisions is None or _same_samples(told, decisions):
                self._link(shard, told, decisions, max(raw_bytes, 0))
            else:
                yield from self._rewrite(shard, told, decisions)

    def _link(self, shard: int, told: ShardInputs, decisions: Decisions | None, raw_bytes: int) -> None:
        path = self._store / shard_name(shard)
        target = self._folder / shard_name(self.shards)
        link_or_copy(path, target, "the shard")
        for place, entry in enumerate(told.entries()):
            if decisions is None or decisions[place] == KEEP:
                self._note(entry)
        self._count_shard(read_ends(target), raw_bytes)

    def _rewrite(self, shard: int, told: ShardInputs, decisions: Decisions) -> Generator[None, _RedoneInput, None]:
        path = self._store / shard_name(shard)
        ends = read_ends(path)
        footer = read_footer(path, ends)
        errors = self._errors(footer)
        names = footer.get("plans")
        self._plans = [name for name in names if plan_files.is_plan_name(name)] if isinstance(names, list) else []
        with opened(path, "the shard") as fd:
            rows = self._rows(fd, path, ends)
            start = place = 0  # rows from `start` up to `place` are to be copied
            for number, entry in enumerate(told.entries()):
                samples = max(entry.samples, 0)
                if place + samples > len(rows):
                    raise _other_list(told, len(rows))
                if decisions[number] == KEEP:
                    self._note(entry)
                    place += samples
                    continue
                self._copy(fd, rows[start:place], errors)
                start = place = place + samples
                if decisions[number] == REDO:
                    self._add_done((yield))
            if place != len(rows):
                raise _other_list(told, len(rows))
            self._copy(fd, rows[start:place], errors)
        self._end_shard()

    def _add_done(self, done: _RedoneInput) -> None:
        """The samples of an input that was done again."""
        one = done.one
        if done.failure is not None:
            self._failed(self._inputs, one, done.failure)
        if done.samples <= 0:
            self._note(InputEntry(one.name, one.size, one.stamp, done.samples))
        for part in done.parts:
            start = 0
            while start < len(part):
                if self._open is not None and self._open.full:
                    self._finish_open(self._open)
                shard = self._opened()
                end = start + shard.room_for(part.sizes[start:])
                shard.add(part.part(start, end))
                self._note(InputEntry(one.name, one.size, one.stamp, end - start))
                start = end

    def _rows(self, fd: int, path: Path, ends: ShardEnds) -> Rows:
        if ends.row_size != self._layout.row_size:
            raise FormatError(f"{path}: rows of {ends.row_size} bytes, but the store's have {self._layout.row_size}")
        rows = self._layout.rows(bytes(read_at(fd, ends.rows_size, ends.rows_offset)))
        good = self._layout.intact(rows, 0) & self._layout.sound(rows, ends.rows_offset)
        if not good.all():
            raise FormatError(
                f"{path}: row {int(np.flatnonzero(~good)[0])} is damaged: restore the shard from a copy, or keep what "
                "is good with `cordwood verify --salvage`"
            )
        return rows

    def _errors(self, footer: dict[str, Any]) -> tuple[float, ...]:
        """The worst error of each lossy field of the old shard."""
        told = {entry.get("name"): entry.get("worst_error") for entry in footer["fields"] if isinstance(entry, dict)}
        return tuple(float(told.get(leaf.name) or 0.0) for leaf in self._layout.schema.frames if leaf.store_as)

    def _copy(self, fd: int, rows: Rows, errors: tuple[float, ...]) -> None:
        if len(rows):
            for some in pieces(rows, np.ones(len(rows), np.bool_)):
                self._opened().add(copied(fd, some, errors))

    def _opened(self) -> OpenShard:
        """The shard that samples go to."""
        if self._open is None:
            plans = list(dict.fromkeys([*self._manifest.plan_names, *self._plans]))
            footer = {"plans": plans, "store": self._manifest.to_json()}
            most = self._manifest.shard_bytes * _GROWTH
            self._open = OpenShard(self._folder, self.shards, self._layout, footer, most)
        return self._open

    def _end_shard(self) -> None:
        """The old shard is done with: the new one ends with it, if there is one."""
        if self._open is not None:
            self._finish_open(self._open)
        elif self._listed is not None:  # inputs without samples belong to the shard before them
            for entry in _entries(self._lines):
                self._listed.lines.add(entry)
            self._lines = Lines()

    def _finish_open(self, shard: OpenShard) -> None:
        self._open = None
        ends = shard.finish()
        footer = read_footer(shard.path, ends)
        self._count_shard(ends, sum(int(entry["raw_bytes"]) for entry in footer["fields"]))

    # ---- what is told of the new shards ----------------------------------------------------------------------------

    def _note(self, entry: InputEntry) -> None:
        self._lines.add(entry)
        if entry.name != self._last:
            self._inputs += 1
        self._last = entry.name

    def _count_shard(self, ends: ShardEnds, raw_bytes: int) -> None:
        following = next(_entries(self._lines), None)
        self._tell_last(following.name if following is not None else None)
        self._records += shard_index.pack_record(self.shards, self._samples, ends)
        self._listed = _Listed(self.shards, self._lines, raw_bytes)
        self._lines = Lines()
        self.shards += 1
        self._samples += ends.count

    def _tell_last(self, following: str | None) -> None:
        """Write the list of the shard before, of which everything is known now; then comes the input `following`."""
        if self._listed is None:
            return
        (number, lines, raw_bytes), self._listed = self._listed, None
        first, totals = Position(self.totals.inputs, self._begun), self.totals
        entries = list(_entries(lines))
        for place, entry in enumerate(entries, 1):
            totals.samples += max(entry.samples, 0)
            so_far, self._begun = self._begun + max(entry.samples, 0), 0
            if place == len(entries) and entry.name == following:
                self._begun = so_far
                continue
            totals.inputs += 1
            totals.dropped += not so_far and entry.samples == 0
            totals.failed += entry.samples == FAILED
            totals.bytes_in += entry.size or 0
        totals.raw_bytes += raw_bytes
        after = Position(totals.inputs, self._begun)
        inputfiles.write(self._folder, number, first, after, replace(totals), lines.text())


def _entries(lines: Lines) -> Iterator[InputEntry]:
    header = inputfiles.InputsHeader(Position(), Position(), Totals())
    return ShardInputs("", header, lines.text()).entries()


def _same_samples(told: ShardInputs, decisions: Decisions) -> bool:
    """Whether all that is gone are inputs that had no samples."""
    gone = zip(told.entries(), decisions.tolist(), strict=True)
    return all(decision == KEEP or (decision == DROP and entry.samples <= 0) for entry, decision in gone)


def _other_list(told: ShardInputs, count: int) -> FormatError:
    return FormatError(
        f"{told.where}: its inputs have other samples than the {count} of the shard: it is the list of another one; "
        "restore it from a copy"
    )


def _between(parts: Sequence[Encoded], start: int, end: int) -> Iterator[Encoded]:
    """The samples of several parts from number `start` up to `end`."""
    place = 0
    for part in parts:
        low, high = max(start - place, 0), min(end - place, len(part))
        if low < high:
            yield part.part(low, high)
        place += len(part)
