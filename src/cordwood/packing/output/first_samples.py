"""The first inputs of a job: their samples wait in the store's appender until these are enough to fix the schema.

first = FirstInputs(appender, log, hints_of(source))
next_input = first.restore(0)               # what another process has logged
first.add(samples, labels_kept)
first.end_unit(next_input)
first.checkpoint()
prepared = first.fix()
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from cordwood.packing.journal.first_samples_log import FirstSamplesLog, WaitingInput
from cordwood.packing.workers.work import RawResult, Result
from cordwood.sources import Input, Source
from cordwood.store import Field
from cordwood.store.writing.appender import Appender
from cordwood.store.writing.first_samples import FixedSchema
from cordwood.store.writing.prepare import Prepared


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
        self._hints = {name: hint for name, hint in hints.items() if name not in self.collected.options.fields}

    def __len__(self) -> int:
        """Samples."""
        return len(self.collected.samples)

    def restore(self, next_input: int) -> int:
        """Take what another process has logged; return the next input, which is `next_input` without a log."""
        for part in self._log.read():
            self.add(part.samples, {name: name in part.classes for name in self._hints})
            self.waiting += part.waiting
            next_input = part.next_input
        self._logged = len(self.waiting), len(self)
        self.end_unit(next_input)
        return next_input

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

    def fix(self) -> list[Prepared]:
        """Fix schema and plans, in the store too; return the samples, prepared by the schema."""
        self.collected.hints = self._hints
        preparer, prepared = self.collected.prepare()
        self._appender.fix(preparer, prepared)
        return prepared


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
