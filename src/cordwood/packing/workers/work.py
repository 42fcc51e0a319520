"""What is done with inputs, in a worker process or in the parent: read, transform, prepare, encode.

    work = Work(reader, transform, seed=0, batch=1)
    result = work.do(first, handles)            # raw samples, as long as nobody knows the schema
    work.settle(Settled(schema, plans, classes))
    result = work.do(first, handles)            # frames

An input that fails is told in the result; the others are not touched by it. What comes out depends on the inputs and
their numbers alone, so inputs can be done again by another process, in other company.
"""

import hashlib
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from cordwood.codecs import Plan
from cordwood.common.seeding import seed_generators
from cordwood.packing.journal.failure import Failure, absence
from cordwood.packing.journal.inputs import FAILED
from cordwood.packing.transform.transform import Transform
from cordwood.store.schema.schema import Schema
from cordwood.store.writing.encode import Chunk, Encoded, LeafCoder, encode
from cordwood.store.writing.first_samples import snapshot
from cordwood.store.writing.prepare import Prepared, Preparer

FIRST_PAUSE = 0.1  # seconds before an input is tried again; then twice as long each time


class Settled(NamedTuple):
    """What is fixed once the first samples are known.

    `classes` tells how many labels the fields with labels have, `pictures` are the fields that stay encoded images.
    """

    schema: Schema
    plans: Sequence[Plan]
    classes: Mapping[str, int]
    pictures: Sequence[str] = ()


@dataclass
class Result:
    """What became of some inputs that follow each other."""

    counts: list[int] = field(default_factory=list)  # samples of each input; 0: dropped, -1: failed
    failures: dict[int, Failure] = field(default_factory=dict)  # by place in `counts`
    raw: list[list[Any]] | None = None  # samples of each input, while there is no schema
    parts: list[Encoded] = field(default_factory=list)  # the samples of all inputs, in order
    raw_sizes: list[int] = field(default_factory=list)  # bytes of each sample's values
    labels_kept: dict[str, bool] = field(default_factory=dict)  # whether samples have the label of their input
    seconds: float = 0.0

    @property
    def nbytes(self) -> int:
        """Bytes of its frames."""
        return sum(int(part.sizes.sum()) for part in self.parts)


class Work:
    """Does inputs. `batch` inputs form a unit, beginning with multiples of it; `watch` is told where it is."""

    def __init__(
        self,
        reader: Callable[[Any], Any],
        transform: Transform,
        seed: int,
        batch: int,
        retries: int = 0,
        labels: Sequence[str] = (),
        absent: Mapping[str, str] = MappingProxyType({}),
        watch: Callable[[int], None] = lambda first: None,
    ) -> None:
        self._reader = reader
        self._transform = transform
        self._seed = seed
        self._batch = batch
        self._retries = retries
        self._labels = labels  # fields whose numbers the source has names for
        self._absent = absent  # fields that the source might have, and why it has not
        self._watch = watch
        self._encoder: SampleEncoder | None = None

    def settle(self, settled: Settled, threads: int = 1) -> None:
        """From now on samples are encoded."""
        self._encoder = SampleEncoder(settled, threads)

    def do(self, first: int, handles: Sequence[Any]) -> Result:
        """The inputs from number `first` on, a multiple of the batch."""
        start = time.perf_counter()
        result = Result(raw=[] if self._encoder is None else None)
        for place in range(0, len(handles), self._batch):
            unit = handles[place : place + self._batch]
            self._watch(first + place)
            self._do_unit(first + place, unit, result)
        if self._encoder is not None:
            result.parts = self._encoder.finish()
        result.seconds = time.perf_counter() - start
        return result

    def _do_unit(self, first: int, unit: Sequence[Any], result: Result) -> None:
        seed = seed_of(self._seed, first)
        pause = FIRST_PAUSE
        for attempt in range(self._retries + 1):
            if attempt:
                time.sleep(pause)
                pause *= 2
            seed_generators(seed)
            made = self._batched(unit, seed) if self._transform.batched else [self._single(unit[0], seed, result)]
            if not any(isinstance(each, Failure) for each in made):
                break
        for each in made:
            self._take(each, result)

    def _single(self, handle: Any, seed: int, result: Result) -> list[Any] | Failure:
        sample = None
        try:
            sample = self._reader(handle)
            labels = self._labels_of(sample) if result.raw is not None else {}
            made = self._transform.apply(sample, seed)
        except (Exception, SystemExit) as error:
            return Failure.of(error, absence(error, sample, self._absent))
        for name, label in labels.items():
            kept = all(isinstance(one, Mapping) and same(one.get(name), label) for one in made)
            result.labels_kept[name] = result.labels_kept.get(name, True) and kept
        return made

    def _labels_of(self, sample: Any) -> dict[str, Any]:
        if not isinstance(sample, Mapping):
            return {}
        return {name: sample[name] for name in self._labels if name in sample}

    def _batched(self, unit: Sequence[Any], seed: int) -> list[list[Any] | Failure]:
        """An input that cannot be read is left out of its batch; a transform that fails fails for all of it."""
        found: list[Any] = []
        failed: dict[int, Failure] = {}
        for place, handle in enumerate(unit):
            try:
                found.append(self._reader(handle))
            except (Exception, SystemExit) as error:
                found.append(None)
                failed[place] = Failure.of(error)
        made: list[Any]
        try:
            made = list(self._transform.apply_batch(found, seed))
        except (Exception, SystemExit) as error:
            sample = next((one for one in found if one is not None), None)
            made = [Failure.of(error, absence(error, sample, self._absent))] * len(unit)
        for place, failure in failed.items():
            made[place] = failure
        return made

    def _take(self, made: list[Any] | Failure, result: Result) -> None:
        if not isinstance(made, Failure):
            try:
                if result.raw is not None:
                    # Copies: a row of a batch would drag the whole batch along, and memory may be used again.
                    result.raw.append([snapshot(sample) for sample in made])
                else:
                    assert self._encoder is not None  # noqa: S101 - for the type checker
                    result.raw_sizes += self._encoder.add(made)
                result.counts.append(len(made))
                return
            except Exception as error:  # a sample that does not fit the others
                made = Failure.of(error)
        if result.raw is not None:
            result.raw.append([])
        result.failures[len(result.counts)] = made
        result.counts.append(FAILED)


class SampleEncoder:
    """Turns samples into frames, some at a time, in memory that is used again."""

    def __init__(self, settled: Settled, threads: int) -> None:
        self._preparer = Preparer(settled.schema, settled.classes, settled.pictures)
        self._coders = [LeafCoder(plan) for plan in settled.plans]
        self._chunk = Chunk(len(settled.plans))
        self._threads = threads
        self._parts: list[Encoded] = []

    def add(self, samples: Sequence[Any]) -> list[int]:
        """The samples of one input: all of them or, with an exception, none; tells the bytes of each one's values."""
        return self.add_prepared([self._preparer.prepare(sample) for sample in samples])

    def add_prepared(self, samples: Sequence[Prepared]) -> list[int]:
        """Samples in the terms of the schema."""
        sizes = []
        for sample in samples:
            if self._chunk.full:
                self._encode()
            self._chunk.add(*sample)
            sizes.append(sum(array.nbytes for array in sample.arrays if array is not None) + len(sample.columns))
        return sizes

    def finish(self) -> list[Encoded]:
        """All that was added since the last time."""
        if self._chunk.count:
            self._encode()
        parts, self._parts = self._parts, []
        return parts

    def _encode(self) -> None:
        self._parts.append(encode(self._chunk, self._coders, self._threads))
        self._chunk.clear()


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
