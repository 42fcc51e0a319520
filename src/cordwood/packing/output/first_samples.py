"""The first inputs of a job: their samples wait in the store's appender until these are enough to fix the schema.

first = FirstInputs(appender, log, hints_of(source))
next_input = first.restore(0)               # what another process has logged
first.add(samples, labels_kept)
first.end_unit(next_input)
first.checkpoint()
look = Look(first, source, batch)           # first.collected.is_full, and the source has more
prepared = first.fix()

Plans are chosen on samples from all over the source: `Look` gets those that lie behind the first ones. Which they are
depends on the source alone, so each part of a job, and each resumed run, has the same.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any

from cordwood.packing.journal.first_samples_log import FirstSamplesLog, WaitingInput
from cordwood.packing.workers.spread import SpreadTasks, spread
from cordwood.packing.workers.work import RawResult, Result
from cordwood.sources import Input, Source
from cordwood.store import Field
from cordwood.store.writing import first_samples
from cordwood.store.writing.appender import Appender
from cordwood.store.writing.first_samples import FixedSchema, snapshot
from cordwood.store.writing.prepare import Prepared

_FEWEST_LOOKED = 32  # inputs
_LOOKED_SHARE = 16  # one input in so many, which is transformed twice, for up to 256 of them
_FEWEST_UNITS = 8
_BATCHES_SHARE = 8  # and one batch in so many, for up to 8 of them


def hints_of(source: Source) -> dict[str, Field]:
    """What a source knows of its fields before any sample has come."""
    varying = {name: Field(varies=True) for name in source.varying}
    return {**varying, **{name: Field(classes=names) for name, names in source.classes.items()}}


class FirstInputs:
    """Inputs whose samples wait for a schema; `hints` are what the source knows of fields (`hints_of`)."""

    def __init__(self, appender: Appender, log: FirstSamplesLog, hints: Mapping[str, Field]) -> None:
        self.collected = appender.collecting
        self.waiting: list[WaitingInput] = []
        self._appender = appender
        self._log = log
        self._logged = 0, 0  # inputs and samples
        self._whole = 0, 0, 0  # inputs and samples of the units that were taken as a whole, and the next input
        self.looked: list[tuple[int, Any]] = []  # samples behind the first ones, and the first inputs of their units
        self.looked_bytes = 0
        self.units = 0  # that were looked at
        self.chosen: int | None = None  # of the first samples, so many choose plans; None: all
        self._logged_look = 0, 0  # samples and units
        self._hints = {name: hint for name, hint in hints.items() if name not in self.collected.options.fields}

    def __len__(self) -> int:
        """Samples."""
        return len(self.collected.samples)

    def restore(self, next_input: int) -> int:
        """Take what another process has logged; return the next input, which is `next_input` without a log."""
        for part in self._log.read():
            kept = {name: name in part.classes for name in self._hints}
            if part.looked is not None:
                for first, sample in zip(part.looked, part.samples, strict=True):
                    self.look(first, [sample], kept)
                self.units = part.units
                continue
            self.add(part.samples, kept)
            self.waiting += part.waiting
            next_input = part.next_input
        self._logged = len(self.waiting), len(self)
        self._logged_look = len(self.looked), self.units
        self.end_unit(next_input)
        return next_input

    @property
    def next_input(self) -> int:
        """The input behind the units that were taken as a whole."""
        return self._whole[2]

    def add(self, samples: Sequence[Any], labels_kept: Mapping[str, bool]) -> None:
        """Take the samples of one input, all of them or none: UsageError if one of them cannot be stored."""
        self.take(samples, [self.collected.check(sample) for sample in samples], labels_kept)

    def take(self, samples: Sequence[Any], sizes: Sequence[int], labels_kept: Mapping[str, bool]) -> None:
        """Take samples that were checked, and are of these sizes.

        `labels_kept` says of fields whether the samples have the values that the source gave them. If they have not,
        what the source knows of these is not used.
        """
        for sample, nbytes in zip(samples, sizes, strict=True):
            self.collected.take(sample, nbytes)
        self._keep_hints(labels_kept)

    def look(self, first: int, samples: Sequence[Any], labels_kept: Mapping[str, bool]) -> None:
        """Take samples of the unit that begins with input `first`, which are packed when it is their turn."""
        sizes = [self.collected.check(sample) for sample in samples]
        self.looked += [(first, snapshot(sample)) for sample in samples]
        self.looked_bytes += sum(sizes)
        self._keep_hints(labels_kept)

    def _keep_hints(self, labels_kept: Mapping[str, bool]) -> None:
        self._hints = {name: hint for name, hint in self._hints.items() if labels_kept.get(name, True)}

    def waited(self) -> tuple[int, list[Input], list[int]]:
        """Return the number of the first waiting input, all of them, and their numbers of samples; none waits then."""
        waiting, self.waiting = self.waiting, []
        inputs = [Input(None, *one.entry[:3], one.entry.more_frames) for one in waiting]
        return waiting[0].number, inputs, [one.entry.samples for one in waiting]

    def end_unit(self, next_input: int) -> None:
        """Everything before `next_input` was taken.

        One assignment: an interrupt within a unit leaves all of it out of the log, and the unit is packed again.
        """
        self._whole = len(self.waiting), len(self), next_input

    def checkpoint(self) -> None:
        """Log the units that have come since the last time, so that another process need not pack them again."""
        inputs, samples = self._logged
        last_input, last_sample, next_input = self._whole
        if (last_input, last_sample) != self._logged:
            waiting, new = self.waiting[inputs:last_input], self.collected.samples[samples:last_sample]
            self._log.append(next_input, waiting, new, list(self._hints))
            self._logged = last_input, last_sample
        samples, units = self._logged_look
        if units != self.units:
            found = self.looked[samples:]
            firsts = [first for first, _ in found]
            self._log.append(next_input, (), [sample for _, sample in found], list(self._hints), firsts, self.units)
            self._logged_look = len(self.looked), self.units

    def fix(self) -> list[Prepared]:
        """Fix schema and plans, in the store too; return the first samples, prepared by the schema."""
        self.collected.hints = self._hints
        count = len(self)
        looked = [sample for _, sample in sorted(self.looked, key=itemgetter(0))]
        preparer, prepared = self.collected.prepare(looked=looked)
        first, spread_out = prepared[:count], prepared[count:]
        chosen = range(count) if self.chosen is None else sorted(spread(0, count, 1, self.chosen))
        self._appender.fix(preparer, [*(first[number] for number in chosen), *spread_out], first)
        return first


class Look:
    """A sink of the engine that looks at units behind the first samples of a job; `tasks` are these units.

    Inputs that fail are packed in their turn, and fail again then. So are samples that can never be stored.
    """

    fixed: FixedSchema | None = None

    def __init__(self, first: FirstInputs, source: Source, batch: int) -> None:
        self._first = first
        self._batch = batch
        count = source.count or 0
        units = -(-count // batch)
        # Little beside what is packed then, though a few batches are large.
        wanted = max(_FEWEST_LOOKED, min(first_samples.MAX_FIRST_SAMPLES, count // _LOOKED_SHARE))
        wanted = max(wanted, batch * min(_FEWEST_UNITS, -(-units // _BATCHES_SHARE)))
        self._firsts = spread(0, count, batch, wanted)
        self._most = max(1, first_samples.MAX_FIRST_SAMPLES // max(1, len(self._firsts)))  # samples of a unit
        self._behind = [number for number in self._firsts if number >= first.next_input]
        self.inputs = min(count, len(self._behind) * batch)
        self.tasks = SpreadTasks(source, self._behind[first.units :], batch)

    def enough(self) -> bool:
        """Whether no more samples are needed, or there are none."""
        return self._first.units >= len(self._behind) or self._is_full

    @property
    def _is_full(self) -> bool:
        full = len(self._first.looked) >= first_samples.MAX_FIRST_SAMPLES
        return full or self._first.looked_bytes >= first_samples.MAX_FIRST_BYTES

    def take(self, first: int, inputs: Sequence[Input], result: Result) -> None:
        """Keep some of a unit's samples."""
        assert isinstance(result, RawResult)  # noqa: S101 - for the type checker: there is no schema
        if self.enough():
            return  # it was under way
        samples = [sample for each in result.samples for sample in each]
        chosen = sorted(spread(0, len(samples), 1, self._most))
        with suppress(Exception):
            self._first.look(first, [samples[number] for number in chosen], result.labels_kept)
        self._first.units += 1

    def checkpoint(self) -> None:
        """Another process need not look at these again."""
        self._first.checkpoint()

    def end(self) -> None:
        """Everything was looked at: let as many of the first samples choose plans as their share of the source."""
        first, behind = self._first, 0
        of_first = 0  # units before the last one that was looked at
        for number in self._firsts:
            if behind == first.units and self._is_full:
                break
            behind += number >= first.next_input
            of_first += number < first.next_input
        a_unit = min(self._most, len(first) * self._batch / first.next_input)
        if first.looked:
            first.chosen = min(len(first), round(of_first * a_unit))


class SchemaOnlySink:
    """A sink of the engine for a part of a job: collects the first samples of the whole job, and stores none.

    So all parts have one schema and the same plans, as if one run had packed them, and can be merged.
    """

    fixed: FixedSchema | None = None

    def __init__(self, first: FirstInputs, batch: int) -> None:
        self._first = first
        self._batch = batch

    def enough(self) -> bool:
        """Whether no more samples are needed."""
        return self._first.collected.is_full

    def take(self, first: int, inputs: Sequence[Input], result: Result) -> None:
        """As a store does; inputs that fail are reported by the part that they are in."""
        assert isinstance(result, RawResult)  # noqa: S101 - for the type checker: there is no schema
        for place, samples in enumerate(result.samples):
            if place % self._batch == 0:
                self._first.end_unit(first + place)
                if self.enough():
                    return
            with suppress(Exception):
                self._first.add(samples, result.labels_kept)
        self._first.end_unit(first + len(inputs))

    def checkpoint(self) -> None:
        """Another process need not collect these again."""
        self._first.checkpoint()
