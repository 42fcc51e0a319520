"""Writes the shards whose inputs have changed again; all other files of the store are linked.

    rewriting = Rewriting(store, folder, plan, failed, PackProgress())
    Engine(job, Tasks(iter(inputs), FIRST, None, batch), rewriting, workers).run(report, interrupted)
    rewriting.finish()

It takes the results of the inputs that are done again, in order. Between them it copies the samples of the others,
their frames byte for byte: nothing but what has changed is encoded.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from cordwood.common.text import brief, counted
from cordwood.errors import FormatError, PackError
from cordwood.packing.journal import inputs
from cordwood.packing.journal.failure import Failure
from cordwood.packing.journal.inputs import FAILED, InputEntry, Lines, Position, ShardInputs, Totals
from cordwood.packing.report.progress import PackProgress
from cordwood.packing.update.compare_inputs import DROP, KEEP, REDO, Decisions, UpdatePlan
from cordwood.packing.workers.work import EncodedResult, Result
from cordwood.sources import Input
from cordwood.store.format import manifest, plan_files
from cordwood.store.format.shard_file import shard_name
from cordwood.store.writing.encode import Encoded
from cordwood.store.writing.first_samples import FixedSchema
from cordwood.store.writing.open_shard import OpenShard
from cordwood.store.writing.shard_copy import NewStore

FIRST = 1 << 40  # numbers of inputs that are done again: no other input has the seeds that follow from them
_GROWTH = 2  # a shard may become so many times as large as others before it is cut in two

_MOST_SHOWN = 3  # inputs in a message

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

    `shards` and `totals` are those of the new store, when it is finished; `progress` counts inputs done again.
    """

    def __init__(self, store: Path, folder: Path, plan: UpdatePlan, failed: OnFailure, progress: PackProgress) -> None:
        self.progress = progress
        self._store = store
        self._folder = folder
        self._plan = plan
        self._failed = failed
        stored = manifest.read(store)
        self.fixed: FixedSchema | None = FixedSchema.load(store, stored)
        self._new = NewStore(folder, stored)
        self._new.take_plans(store, plan_files.found(store))
        self._open: OpenShard | None = None
        self._plans: list[str] = []  # that frames of the open shard may need
        self._lines = Lines()  # inputs that belong to no shard yet
        self._listed: _Listed | None = None
        self.totals = Totals()
        self._begun = 0  # samples, in shards told of, of an input that goes on
        self._inputs = 0
        self._last: str | None = None
        self._stored = 0  # inputs with samples in the old store that were done again
        self._lost: list[_RedoneInput] = []  # the first of those that failed
        self._losses = 0
        self._samples = 0  # of the new store
        self._walk = self._walking()
        self._has_ended = False
        self._go_on(None)

    @property
    def shards(self) -> int:
        """Shards of the new store."""
        return self._new.shards

    # ---- as a sink of the engine -----------------------------------------------------------------------------------

    def take(self, first: int, inputs: Sequence[Input], result: Result) -> None:
        """What became of inputs that were done again, the next ones."""
        told, start = self.progress, 0
        for place, (one, count) in enumerate(zip(inputs, result.counts, strict=True)):
            end = start + max(count, 0)
            parts = result.between(start, end) if isinstance(result, EncodedResult) else []
            self._go_on(_RedoneInput(one, count, parts, result.failures.get(place)))
            start = end
        self.progress = replace(
            told,
            inputs=told.inputs + len(inputs),
            samples=told.samples + start,
            dropped=told.dropped + result.counts.count(0),
            failed=told.failed + result.counts.count(FAILED),
            bytes_in=told.bytes_in + sum(one.size or 0 for one in inputs),
            raw_bytes=told.raw_bytes + (sum(result.raw_sizes) if isinstance(result, EncodedResult) else 0),
            stored_bytes=told.stored_bytes + result.nbytes,
        )

    def checkpoint(self) -> None:
        """Nothing is kept of a rewriting that is interrupted: the old store is as it was."""

    def refuse_loss(self) -> None:
        """PackError if the new store lost the samples of all inputs that were done again, for a common cause.

        A single input that fails beside others is what skipping is for.
        """
        empty = self._stored > 0 and not self._samples
        if self._losses and (empty or self._losses == self._stored > 1):
            shown = "; ".join(
                f"{brief(each.one.name)}: {each.failure.error}" for each in self._lost if each.failure is not None
            )
            many = "all " if self._losses == self._stored > 1 else ""
            raise PackError(
                f"{many}{counted(self._losses, 'input')} that the store has samples of and that changed in the source "
                f"failed: {shown}{'; ...' if self._losses > len(self._lost) else ''}. The update would remove their "
                f"samples, so {self._store} is left as it was: repair the inputs or remove them from the source, or "
                "pack to another path"
            )
        if empty and not self._plan.added:
            raise PackError(
                f"the transform drops {counted(self._stored, 'input')} that the store has samples of and that changed "
                f"in the source, and no sample would be left: {self._store} is left as it was"
            )

    def finish(self) -> None:
        """Put the rest in its place, durably."""
        if not self._has_ended:
            raise FormatError(f"{self._store}: not all inputs that have changed were done again")
        self._tell_last(None)
        self._new.finish()

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
            told = inputs.read(self._store, shard)
            raw_bytes, before = told.totals.raw_bytes - before, told.totals.raw_bytes
            if decisions is None or _same_samples(told, decisions):
                self._link(shard, told, decisions, max(raw_bytes, 0))
            else:
                yield from self._rewrite(shard, told, decisions)

    def _link(self, shard: int, told: ShardInputs, decisions: Decisions | None, raw_bytes: int) -> None:
        self._new.take_shard(self._store / shard_name(shard))
        for place, entry in enumerate(told.entries()):
            if decisions is None or decisions[place] == KEEP:
                self._note(entry)
        self._list_shard(raw_bytes)

    def _rewrite(self, shard: int, told: ShardInputs, decisions: Decisions) -> Generator[None, _RedoneInput, None]:
        with self._new.opened_source(self._store / shard_name(shard)) as source:
            self._plans = source.plans
            count = len(source.rows)
            start = place = 0  # samples from `start` up to `place` are to be copied
            for number, entry in enumerate(told.entries()):
                samples = max(entry.samples, 0)
                if place + samples > count:
                    raise _other_list(told, count)
                if decisions[number] == KEEP:
                    self._note(entry)
                    place += samples
                    continue
                self._copy(source.samples(start, place))
                start = place = place + samples
                if decisions[number] == REDO:
                    self._add_done((yield), had_samples=samples > 0)
            if place != count:
                raise _other_list(told, count)
            self._copy(source.samples(start, place))
        self._end_shard()

    def _add_done(self, done: _RedoneInput, *, had_samples: bool) -> None:
        """The samples of an input that was done again."""
        one = done.one
        self._stored += had_samples
        if had_samples and done.failure is not None:
            self._losses += 1
            if len(self._lost) < _MOST_SHOWN:
                self._lost.append(done)
        if done.failure is not None:
            self._failed(self._inputs, one, done.failure)
        if done.samples <= 0:
            self._note(InputEntry.of(one, done.samples))
        for part in done.parts:
            start = 0
            while start < len(part):
                if self._open is not None and self._open.is_full:
                    self._finish_open(self._open)
                shard = self._opened()
                end = start + shard.room_for(part.frame_bytes()[start:])
                shard.add(part.part(start, end))
                self._note(InputEntry.of(one, end - start))
                start = end

    def _copy(self, parts: Iterator[Encoded]) -> None:
        for part in parts:
            self._opened().add(part)

    def _opened(self) -> OpenShard:
        """The shard that samples go to."""
        if self._open is None:
            self._open = self._new.begin_shard(self._plans, _GROWTH)
        return self._open

    def _end_shard(self) -> None:
        """The old shard is done with: the new one ends with it, if there is one."""
        if self._open is not None:
            self._finish_open(self._open)
        elif self._listed is not None:  # inputs without samples belong to the shard before them
            for entry in inputs.entries(self._lines.text()):
                self._listed.lines.add(entry)
            self._lines = Lines()

    def _finish_open(self, shard: OpenShard) -> None:
        self._open = None
        self._new.finish_shard(shard)
        self._list_shard(shard.raw_bytes)

    # ---- what is told of the new shards ----------------------------------------------------------------------------

    def _note(self, entry: InputEntry) -> None:
        self._lines.add(entry)
        self._samples += max(entry.samples, 0)
        if entry.name != self._last:
            self._inputs += 1
        self._last = entry.name

    def _list_shard(self, raw_bytes: int) -> None:
        """The last shard of the new store is in its place."""
        following = next(inputs.entries(self._lines.text()), None)
        self._tell_last(following.name if following is not None else None)
        self._listed = _Listed(self.shards - 1, self._lines, raw_bytes)
        self._lines = Lines()

    def _tell_last(self, following: str | None) -> None:
        """Write the list of the shard before, of which everything is known now; then comes the input `following`."""
        if self._listed is None:
            return
        (number, lines, raw_bytes), self._listed = self._listed, None
        first, totals = Position(self.totals.inputs, self._begun), self.totals
        entries = list(inputs.entries(lines.text()))
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
            totals.more_frames += entry.more_frames
        totals.raw_bytes += raw_bytes
        after = Position(totals.inputs, self._begun)
        inputs.write(self._folder, number, first, after, replace(totals), lines.text())


def _same_samples(told: ShardInputs, decisions: Decisions) -> bool:
    """Whether all that is gone are inputs that had no samples."""
    gone = zip(told.entries(), decisions.tolist(), strict=True)
    return all(decision == KEEP or (decision == DROP and entry.samples <= 0) for entry, decision in gone)


def _other_list(told: ShardInputs, count: int) -> FormatError:
    return FormatError(
        f"{told.where}: its inputs have other samples than the {count} of the shard: it is the list of another one; "
        "restore it from a copy"
    )
