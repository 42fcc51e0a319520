"""The first samples of a job: kept until there are enough of them to tell the schema and to choose plans.

beginning = Beginning(path, options, source.classes)
for samples in made:
    beginning.add(samples)
    if beginning.full:
        manifest, settled, prepared = beginning.settle()
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from cordwood.packing.journal.first_samples_log import FirstSamples
from cordwood.packing.workers.work import Result, Settled
from cordwood.sources import Input
from cordwood.store.format.manifest import Manifest
from cordwood.store.schema.field import Field
from cordwood.store.writing.first_samples import Look, load_plans, settle
from cordwood.store.writing.infer import infer
from cordwood.store.writing.options import Options
from cordwood.store.writing.prepare import Prepared, Preparer


class Begun(NamedTuple):
    """What is fixed from now on, and the samples that it was told by."""

    manifest: Manifest
    settled: Settled
    prepared: list[Prepared]


class Beginning:
    """Samples that wait for a schema; `classes` are the source's names of labels, by field."""

    def __init__(self, path: Path, options: Options, classes: Mapping[str, Sequence[str]]) -> None:
        self._path = path
        self._options = options
        self._look = Look(options.fields)
        self._classes = {name: names for name, names in classes.items() if name not in options.fields}

    @property
    def full(self) -> bool:
        """Whether these samples are enough."""
        return self._look.full_with(0, 0)

    def __len__(self) -> int:
        return len(self._look.samples)

    def add(self, samples: Sequence[Any], labels_kept: Mapping[str, bool]) -> None:
        """The samples of one input, all of them or none: UsageError if something in them cannot be stored.

        `labels_kept` tells of fields whether the samples have the labels that the source gave them; if not, its names
        are not theirs.
        """
        sizes = [self._look.check(sample) for sample in samples]
        for sample, nbytes in zip(samples, sizes, strict=True):
            self._look.take(sample, nbytes)
        self._classes = {name: names for name, names in self._classes.items() if labels_kept.get(name, True)}

    def samples_from(self, number: int) -> list[Any]:
        """Those that were added behind so many."""
        return self._look.samples[number:]

    @property
    def classes(self) -> list[str]:
        """Fields whose labels are the source's so far."""
        return list(self._classes)

    def restore(self, samples: Sequence[Any], classes: Sequence[str]) -> None:
        """Samples that another process had added."""
        self.add(samples, {name: name in classes for name in self._classes})

    def settle(self) -> Begun:
        """Fix schema and plans, on the disk too."""
        samples = self._look.samples
        plain = infer(samples, self._options.fields)
        integers = {leaf.name for leaf in plain.leaves if leaf.node.dtype.startswith(("int", "uint"))}
        named = {name: Field(classes=names) for name, names in self._classes.items() if name in integers}
        options = Options(self._options.goal, self._options.shard_bytes, {**named, **self._options.fields})
        counts = {name: len(field.classes) for name, field in options.fields.items() if field.classes is not None}
        pictures = tuple(name for name, field in options.fields.items() if field.keep_encoded)
        preparer = Preparer(infer(samples, options.fields), counts, pictures)
        prepared = [preparer.prepare(sample) for sample in samples]
        manifest, plans = settle(self._path, options, preparer.schema, prepared)
        return Begun(manifest, Settled(preparer.schema, plans, counts, pictures), prepared)


class FirstLook:
    """A sink of the engine for a part of a job, which looks at the first samples of the whole, and keeps none.

    So all parts have one schema and the same plans, as if one run had packed them, and can be merged.
    """

    settled: Settled | None = None

    def __init__(self, beginning: Beginning, batch: int, log: FirstSamples) -> None:
        self._beginning = beginning
        self._batch = batch
        self._log = log
        self._logged = len(beginning)
        self._next = 0

    def enough(self) -> bool:
        """Whether no more samples are needed."""
        return self._beginning.full

    def take(self, first: int, inputs: Sequence[Input], result: Result) -> None:
        """As a store does; inputs that fail are the business of the part that they are in."""
        raw = result.raw or []
        self._next = first + len(inputs)
        for place in range(0, len(raw), self._batch):
            if self._beginning.full:
                return
            for samples in raw[place : place + self._batch]:
                with suppress(Exception):
                    self._beginning.add(samples, result.labels_kept)

    def checkpoint(self) -> None:
        """Another process need not look at these again."""
        if len(self._beginning) > self._logged:
            self._log.append(self._next, [], self._beginning.samples_from(self._logged), self._beginning.classes)
            self._logged = len(self._beginning)


def settled_before(path: Path, manifest: Manifest) -> Settled:
    """What was fixed by another process."""
    schema = manifest.schema
    assert schema is not None  # noqa: S101 - for the type checker: asked for stores that have one
    counts = {field.name: len(field.classes) for field in manifest.fields if field.classes is not None}
    pictures = tuple(field.name for field in manifest.fields if field.keep_encoded)
    return Settled(schema, load_plans(path, manifest, schema), counts, pictures)
