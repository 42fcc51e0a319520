"""What is done with inputs, in a worker process or in the parent: read, transform, prepare, encode.

    work = Work(Job(reader, transform))
    result = work.do(first, handles)            # RawResult: samples, as long as the schema is not known
    work.fix_schema(fixed)
    result = work.do(first, handles)            # EncodedResult: frames

A result has the failures of inputs; other inputs are not affected by these. Results depend on the inputs and their
numbers alone, so another process can do inputs again, together with other ones.
"""

import hashlib
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from cordwood.common.seeding import seed_generators
from cordwood.packing.journal.failure import Failure, absence
from cordwood.packing.journal.inputs import FAILED
from cordwood.packing.transform.transform import Transform
from cordwood.store.writing.encode import Encoded, SampleEncoder
from cordwood.store.writing.first_samples import FixedSchema, snapshot

FIRST_PAUSE = 0.1  # seconds before an input is tried again; then twice as long each time


Made = list[Any] | Failure  # what became of an input
_NONE: Mapping[int, Failure] = MappingProxyType({})


@dataclass
class InputResults:
    """What became of some inputs that follow each other."""

    counts: list[int] = field(default_factory=list)  # samples of each input; 0: dropped, -1: failed
    failures: dict[int, Failure] = field(default_factory=dict)  # by place in `counts`
    more_frames: set[int] = field(default_factory=set)  # places of inputs that have frames which were not read
    seconds: float = 0.0

    @property
    def nbytes(self) -> int:
        """Bytes of frames."""
        return 0

    def _fail(self, failure: Failure) -> None:
        self.failures[len(self.counts)] = failure
        self.counts.append(FAILED)


@dataclass
class RawResult(InputResults):
    """Results while the schema is not known: samples as they are."""

    samples: list[list[Any]] = field(default_factory=list)  # of each input
    labels_kept: dict[str, bool] = field(default_factory=dict)  # whether samples have what their input has there

    def add(self, made: Made) -> None:
        """Add the next input."""
        if not isinstance(made, Failure):
            try:
                # Copies: a row of a batch would keep the whole batch alive, and memory may be used again.
                self.samples.append([snapshot(sample) for sample in made])
                self.counts.append(len(made))
                return
            except Exception as error:
                made = Failure.of(error)
        self.samples.append([])
        self._fail(made)

    def behind(self, start: int) -> "RawResult":
        """The results of the inputs from place `start` on."""
        return RawResult(
            self.counts[start:],
            {place - start: failure for place, failure in self.failures.items() if place >= start},
            {place - start for place in self.more_frames if place >= start},
            self.seconds,
            self.samples[start:],
            self.labels_kept,
        )

    @classmethod
    def of_failures(cls, failures: Sequence[Failure]) -> "RawResult":
        """Inputs all of which failed."""
        result = cls()
        for failure in failures:
            result.add(failure)
        return result


@dataclass
class EncodedResult(InputResults):
    """Results by a fixed schema: samples as frames."""

    parts: list[Encoded] = field(default_factory=list)  # the samples of all inputs, in order
    raw_sizes: list[int] = field(default_factory=list)  # bytes of each sample's values

    def add(self, made: Made, encoder: SampleEncoder) -> None:
        """Add the next input: all of its samples, or none if one does not fit the schema."""
        if not isinstance(made, Failure):
            try:
                prepared = [encoder.preparer.prepare(sample) for sample in made]
                for sample in prepared:
                    encoder.add(sample)
                self.raw_sizes += [sample.nbytes for sample in prepared]
                self.counts.append(len(made))
                return
            except Exception as error:
                made = Failure.of(error)
        self._fail(made)

    @property
    def nbytes(self) -> int:
        """Bytes of frames."""
        return sum(int(part.frame_bytes().sum()) for part in self.parts)

    def between(self, first: int, last: int) -> list[Encoded]:
        """The samples from number `first` up to `last`."""
        found, place = [], 0
        for part in self.parts:
            low, high = max(first - place, 0), min(last - place, len(part))
            if low < high:
                found.append(part if (low, high) == (0, len(part)) else part.part(low, high))
            place += len(part)
        return found

    def cut(self, start: int, end: int) -> tuple[list[int], list[Encoded], list[int]]:
        """The counts, samples and sizes of the inputs from place `start` up to `end`."""
        counts = self.counts[start:end]
        first = sum(count for count in self.counts[:start] if count > 0)
        last = first + sum(count for count in counts if count > 0)
        return counts, self.between(first, last), self.raw_sizes[first:last]


Result = RawResult | EncodedResult


class Job(NamedTuple):
    """What all tasks have in common. `batch` inputs form a unit, beginning with multiples of it."""

    reader: Callable[[Any], Any]
    transform: Transform
    seed: int = 0
    batch: int = 1
    retries: int = 0
    labels: Sequence[str] = ()  # fields that the source knows something of, such as the names of their numbers
    absent: Mapping[str, str] = MappingProxyType({})  # fields that the source might have, and why it has not


class Work:
    """Does the inputs of a job.

    `watch(first, inputs)` is called before code of others is run for that many inputs: to read one, to transform one or
    a batch; and with 0 inputs behind it.
    """

    def __init__(self, job: Job, watch: Callable[[int, int], None] = lambda first, inputs: None) -> None:
        self._job = job
        self._watch = watch
        self._encoder: SampleEncoder | None = None
        self._more_frames: set[int] = set()  # places in the unit that is being done

    def fix_schema(self, fixed: FixedSchema | None) -> None:
        """Encode samples from now on, once the schema is known; its plans may change."""
        if fixed is None:
            return
        if self._encoder is None:
            self._encoder = SampleEncoder(fixed, threads=1)
        self._encoder.fixed = fixed

    def do(self, first: int, handles: Sequence[Any], failed: Mapping[int, Failure] = _NONE) -> Result:
        """The inputs from number `first` on, a multiple of the batch; those in `failed` failed before."""
        start = time.perf_counter()
        result: Result
        if self._encoder is None:
            result = RawResult()
            for made in self._made(first, handles, failed, result.labels_kept, result.more_frames):
                result.add(made)
        else:
            result = EncodedResult()
            for made in self._made(first, handles, failed, None, result.more_frames):
                result.add(made, self._encoder)
            result.parts = self._encoder.encoded()
        result.seconds = time.perf_counter() - start
        return result

    def _made(
        self,
        first: int,
        handles: Sequence[Any],
        failed: Mapping[int, Failure],
        labels_kept: dict[str, bool] | None,
        more_frames: set[int],
    ) -> Iterator[Made]:
        for place in range(0, len(handles), self._job.batch):
            yield from self._do_unit(first + place, handles[place : place + self._job.batch], failed, labels_kept)
            more_frames.update(place + one for one in self._more_frames)

    def _do_unit(
        self,
        first: int,
        unit: Sequence[Any],
        failed: Mapping[int, Failure],
        labels_kept: dict[str, bool] | None,
    ) -> list[Made]:
        pause, seed = FIRST_PAUSE, seed_of(self._job.seed, first)
        for attempt in range(self._job.retries + 1):
            if attempt:
                time.sleep(pause)
                pause *= 2
            seed_generators(seed)
            self._more_frames.clear()
            made = (
                self._batched(first, unit, failed, seed)
                if self._job.transform.batched
                else [self._single(first, unit[0], seed, labels_kept)]
            )
            self._watch(first, 0)
            if not any(isinstance(each, Failure) and number not in failed for number, each in enumerate(made, first)):
                break
        return made

    def _single(self, number: int, handle: Any, seed: int, labels_kept: dict[str, bool] | None) -> Made:
        sample = None
        self._watch(number, 1)
        try:
            sample = self._read(handle, 0)
            labels = self._labels_of(sample) if labels_kept is not None else {}
            made = self._job.transform.apply(sample, seed)
        except (Exception, SystemExit) as error:
            return Failure.of(error, absence(error, sample, self._job.absent))
        if labels_kept is not None:
            for name, label in labels.items():
                kept = all(isinstance(one, Mapping) and same(one.get(name), label) for one in made)
                labels_kept[name] = labels_kept.get(name, True) and kept
        return made

    def _read(self, handle: Any, place: int) -> Any:
        sample = self._job.reader(handle)
        if getattr(self._job.reader, "more_frames", False):
            self._more_frames.add(place)
        return sample

    def _labels_of(self, sample: Any) -> dict[str, Any]:
        if not isinstance(sample, Mapping):
            return {}
        return {name: sample[name] for name in self._job.labels if name in sample}

    def _batched(self, first: int, unit: Sequence[Any], before: Mapping[int, Failure], seed: int) -> list[Made]:
        """An input that cannot be read is left out of its batch; a transform that fails fails for all of it."""
        found: list[Any] = [None] * len(unit)
        failed = {number - first: failure for number, failure in before.items() if 0 <= number - first < len(unit)}
        for place, handle in enumerate(unit):
            if place in failed:
                continue
            self._watch(first + place, 1)
            try:
                found[place] = self._read(handle, place)
            except (Exception, SystemExit) as error:
                failed[place] = Failure.of(error)
        made: list[Any]
        self._watch(first, len(unit))
        try:
            made = list(self._job.transform.apply_batch(found, seed))
        except (Exception, SystemExit) as error:
            sample = next((one for one in found if one is not None), None)
            made = [Failure.of(error, absence(error, sample, self._job.absent))] * len(unit)
        for place, failure in failed.items():
            made[place] = failure
        return made


def seed_of(seed: int, first: int) -> int:
    """The seed of a unit: of 63 bits, which is what all generators take."""
    digest = hashlib.blake2b(struct.pack("<qQ", seed, first), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def same(value: Any, label: Any) -> bool:
    """Whether a sample's label is the one that its input has, in whatever type."""
    try:
        return bool(np.asarray(value == label).all())
    except Exception:  # values of others can do anything when they are compared
        return False
