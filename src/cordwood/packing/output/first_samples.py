"""The first inputs of a job: their samples wait in the store's appender until these are enough to fix the schema.

first = FirstInputs(appender, log, hints_of(source))
next_input = first.restore(0)               # what another process has logged
first.add(unit, samples, labels_kept)
first.end_unit(next_input)
first.checkpoint()
look = Look(first, source, batch)           # if first.collected.is_full
Engine(job, look.tasks, look, workers).run(report, interrupted, look.enough)
look.end()
prepared = first.fix()

Plans are chosen on samples from all over the source: `Look` gets those that lie behind the first ones. Which they are
depends on the source alone, so each part of a job, and each resumed run, has the same. An iterable can only be gone
through from the beginning, so its first samples choose.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any, NamedTuple

from cordwood.packing.journal.first_samples_log import FirstSamplesLog, WaitingInput
from cordwood.packing.workers.spread import SpreadTasks, spread
from cordwood.packing.workers.work import RawResult, Result
from cordwood.sources import Input, Source
from cordwood.store import Field
from cordwood.store.writing import first_samples
from cordwood.store.writing.appender import Appender
from cordwood.store.writing.first_samples import FixedSchema, snapshot
from cordwood.store.writing.prepare import Prepared

_FEWEST_LOOKED, _MOST_LOOKED = 96, 176  # inputs; a dry run of 200 has all of them, and some others
_LOOKED_SHARE = 32  # one input in so many, which is transformed twice
_FEWEST_UNITS = 8
_UNITS_SHARE = 8  # one unit in so many is transformed twice at most, or 8 of them


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
        self.units: list[tuple[int, int]] = []  # the first input of the unit that each sample is of, and its bytes
        self.looked: list[LookedSample] = []  # from behind the first ones
        self.looked_units = 0
        self.choosing: Sequence[int] | None = None  # the first samples that choose plans; None: all
        self._logged_look = 0, 0  # samples and units
        self._hints = {name: hint for name, hint in hints.items() if name not in self.collected.options.fields}

    def __len__(self) -> int:
        """Samples."""
        return len(self.collected.samples)

    def restore(self, next_input: int) -> int:
        """Take what another process has logged; return the next input, which is `next_input` without a log."""
        for part in self._log.read():
            self._keep_hints({name: name in part.classes for name in self._hints})
            for unit, sample in zip(part.units, part.samples, strict=True):
                (self.add if part.looked is None else self.look)(unit, [sample], {})
            self.waiting += part.waiting
            next_input = part.next_input
            self.looked_units = part.looked or 0
        self._logged = len(self.waiting), len(self)
        self._logged_look = len(self.looked), self.looked_units
        self.end_unit(next_input)
        return next_input

    @property
    def next_input(self) -> int:
        """The input behind the units that were taken as a whole."""
        return self._whole[2]

    def add(self, unit: int, samples: Sequence[Any], labels_kept: Mapping[str, bool]) -> None:
        """Take the samples of one input, all of them or none: UsageError if one of them cannot be stored.

        `unit` is the first input of its unit.
        """
        self.take(unit, samples, [self.collected.check(sample) for sample in samples], labels_kept)

    def take(self, unit: int, samples: Sequence[Any], sizes: Sequence[int], labels_kept: Mapping[str, bool]) -> None:
        """Take samples that were checked, and are of these sizes.

        `labels_kept` says of fields whether the samples have the values that the source gave them. If they have not,
        what the source knows of these is not used.
        """
        for sample, nbytes in zip(samples, sizes, strict=True):
            self.units.append((unit, nbytes))
            self.collected.take(sample, nbytes)
        self._keep_hints(labels_kept)

    def look(self, unit: int, samples: Sequence[Any], labels_kept: Mapping[str, bool]) -> None:
        """Take samples that are packed when it is their turn; UsageError if one of them cannot be stored."""
        sizes = [self.collected.check(sample) for sample in samples]
        self.looked += [LookedSample(unit, nbytes, snapshot(one)) for one, nbytes in zip(samples, sizes, strict=True)]
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
            units = [unit for unit, _ in self.units[samples:last_sample]]
            self._log.append(next_input, waiting, new, list(self._hints), units)
            self._logged = last_input, last_sample
        samples, looked = self._logged_look
        if looked != self.looked_units:
            found = self.looked[samples:]
            units = [one.unit for one in found]
            self._log.append(next_input, (), [one.sample for one in found], list(self._hints), units, self.looked_units)
            self._logged_look = len(self.looked), self.looked_units

    def fix(self) -> list[Prepared]:
        """Fix schema and plans, in the store too; return the first samples, prepared by the schema."""
        self.collected.hints = self._hints
        count = len(self)
        looked = [one.sample for one in sorted(self.looked, key=attrgetter("unit"))]
        preparer, prepared = self.collected.prepare(looked=looked)
        first, behind = prepared[:count], prepared[count:]
        choosing = range(count) if self.choosing is None else self.choosing
        self._appender.fix(preparer, [*(first[number] for number in choosing), *behind], first)
        return first


class LookedSample(NamedTuple):
    """A sample from somewhere in a source: the first input of its unit, and the bytes of its arrays."""

    unit: int
    nbytes: int
    sample: Any


def units_to_look_at(count: int, batch: int) -> list[int]:
    """The first inputs of the units of a source that plans are chosen on, unless some of them are enough."""
    units = -(-count // batch)
    inputs = max(_FEWEST_LOOKED, min(_MOST_LOOKED, count // _LOOKED_SHARE))
    return spread(0, count, batch, max(inputs, batch * min(_FEWEST_UNITS, -(-units // _UNITS_SHARE))))


def choosing_of_unit(samples: int, units: int) -> list[int]:
    """Which of a unit's samples choose plans, if there are so many units: some of those of a batch or of a video."""
    return sorted(spread(0, samples, 1, max(1, first_samples.MAX_FIRST_SAMPLES // units)))


class Look:
    """A sink of the engine that looks at units behind the first samples of a job; `tasks` are these units.

    Units among the first samples count, too. Inputs that fail are packed in their turn, and fail again then. So are
    samples that can never be stored.
    """

    fixed: FixedSchema | None = None

    def __init__(self, first: FirstInputs, source: Source, batch: int) -> None:
        count = source.count or 0
        self._first = first
        self._units = units_to_look_at(count, batch)
        behind = [unit for unit in self._units if unit >= first.next_input]
        self._most_behind = max(_FEWEST_UNITS, -(-count // batch) // _UNITS_SHARE)
        self.inputs = min(count, min(len(behind), self._most_behind) * batch)
        self.tasks = SpreadTasks(source, behind[first.looked_units :], batch)
        self._places: dict[int, list[int]] = {}  # of the first samples, by their units
        for place, (unit, _) in enumerate(first.units):
            self._places.setdefault(unit, []).append(place)
        self._choosing: list[int] = []
        self._passed = self._behind = 0  # units, and those of them that lie behind the first samples
        self._samples = self._nbytes = 0
        self._pass_units()

    def _pass_units(self) -> None:
        """Count everything up to the next unit that is to be looked at."""
        first = self._first
        while not self.enough():
            unit = self._units[self._passed]
            if unit >= first.next_input:
                if self._behind == first.looked_units:
                    return
                self._behind += 1
                sizes = [one.nbytes for one in first.looked if one.unit == unit]
            else:
                places = self._places.get(unit, [])
                chosen = [places[number] for number in choosing_of_unit(len(places), len(self._units))]
                self._choosing += chosen
                sizes = [first.units[place][1] for place in chosen]
            self._passed += 1
            self._samples += len(sizes)
            self._nbytes += sum(sizes)

    def enough(self) -> bool:
        """Whether no more samples are needed, or there are none."""
        full = first_samples.is_enough(self._samples, self._nbytes) or self._behind == self._most_behind
        return full or self._passed == len(self._units)

    def take(self, first: int, inputs: Sequence[Input], result: Result) -> None:
        """Keep some of a unit's samples."""
        assert isinstance(result, RawResult)  # noqa: S101 - for the type checker: there is no schema
        if self.enough():
            return  # it was under way
        samples = [sample for each in result.samples for sample in each]
        chosen = choosing_of_unit(len(samples), len(self._units))
        with suppress(Exception):
            self._first.look(first, [samples[number] for number in chosen], result.labels_kept)
        self._first.looked_units += 1
        self._pass_units()

    def checkpoint(self) -> None:
        """Another process need not look at these again."""
        self._first.checkpoint()

    def end(self) -> None:
        """Let what was found choose the plans; all first samples, if they are the whole source."""
        self._first.choosing = sorted(self._choosing) if self._behind else None


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
                self._first.add(first + place - place % self._batch, samples, result.labels_kept)
        self._first.end_unit(first + len(inputs))

    def checkpoint(self) -> None:
        """Another process need not collect these again."""
        self._first.checkpoint()
