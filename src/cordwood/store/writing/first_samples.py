"""The first samples of a store, and what they fix: the schema, and the plan of each field.

    first = FirstSamples(options)
    first.take(sample, first.check(sample))         # UsageError if the sample can never be stored
    if first.is_full:                               # 256 samples, or 16 MiB
        preparer, prepared = first.prepare()
        fixed = FixedSchema.choose(store, options, preparer, prepared)

Schema and plans depend on the samples and the options alone, so a writer that was killed and starts again writes the
same files.
"""

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from cordwood import codecs
from cordwood.codecs import DTYPES, Array, Goal, Plan, fallback
from cordwood.common.text import brief
from cordwood.errors import FormatError
from cordwood.native import _native
from cordwood.store.format import plan_files
from cordwood.store.format.manifest import FieldEntry, Manifest
from cordwood.store.format.manifest import write as write_manifest
from cordwood.store.format.rows import APART_BYTES, unpack_states
from cordwood.store.schema.field import Field
from cordwood.store.schema.node import ARRAYS, DICTS, MOST_COLUMN_BYTES, Node
from cordwood.store.schema.schema import ABSENT, PRESENT, Schema, SchemaNode
from cordwood.store.writing.infer import fitting, infer, observe
from cordwood.store.writing.options import Options
from cordwood.store.writing.prepare import Prepared, Preparer

MAX_FIRST_SAMPLES = 256
MAX_FIRST_BYTES = 16 << 20
_ENOUGH_ARRAYS = 16  # fewer do not show that all have one shape
_ALIKE_PERCENT = 95  # of the arrays have the shape of a column
_FRAME_PERCENT = 115  # of the bytes of frames that columns may have: they are read faster
_FRAME_IN_ROW = 6  # bytes that a row needs to tell of a short frame

log = logging.getLogger("cordwood.store")


def is_enough(samples: int, nbytes: int) -> bool:
    """Whether so many samples, of so many bytes, are enough to choose plans on."""
    return samples >= MAX_FIRST_SAMPLES or nbytes >= MAX_FIRST_BYTES


class FirstSamples:
    """Copies of samples that wait for a schema."""

    committed = 0

    def __init__(self, options: Options) -> None:
        self.options = options
        self.samples: list[Any] = []
        self.hints: Mapping[str, Field] = {}  # what is known of fields that are not among the options
        self._nbytes = 0
        self._structure: Node | None = None  # of the last sample
        self._preparer: Preparer | None = None  # for samples of that structure
        self._varying = {name: field for name, field in options.fields.items() if field.varies}

    @property
    def taken(self) -> int:
        """Samples."""
        return len(self.samples)

    @property
    def is_full(self) -> bool:
        """Whether these samples are enough."""
        return self.is_full_with(0, 0)

    def is_full_with(self, samples: int, nbytes: int) -> bool:
        """Whether that many more samples, of that many bytes, would be enough."""
        return is_enough(len(self.samples) + samples, self._nbytes + nbytes)

    def check(self, sample: Any) -> int:
        """Return the bytes of a sample's arrays; UsageError if the sample cannot be stored, whatever follows it."""
        structure = observe(sample, frozenset(self._varying))
        if self._preparer is None or structure != self._structure:
            self._preparer, self._structure = Preparer(self._schema_of(sample), self.options.fields), structure
        prepared = self._preparer.prepare(sample)
        return sum(array.nbytes for array in prepared.arrays if array is not None)

    def _schema_of(self, sample: Any) -> Schema:
        alone = infer([sample], self._varying)
        # Fields that this sample lacks may come with another one, so only those that are there are asked for.
        asked = {
            leaf.name: field
            for leaf in alone.leaves
            if (field := self.options.fields.get(leaf.name)) is not None
            and (field.keep_encoded or (leaf.node.kind in ARRAYS and field.store_as))
        }
        return infer([sample], {**self._varying, **asked}) if asked else alone

    def take(self, sample: Any, nbytes: int) -> None:
        """Keep a copy of a sample that was checked."""
        self.samples.append(snapshot(sample))
        self._nbytes += nbytes

    def prepare(self, more: Sequence[Any] = (), looked: Sequence[Any] = ()) -> tuple[Preparer, list[Prepared]]:
        """Infer the schema of what was kept and of more samples that complete it, and prepare all of these.

        Samples `looked` at elsewhere follow. They may bring fields that the first samples lack, and nothing else: one
        that lacks a field of theirs, or has another type there, is refused when it comes, as without a look.
        """
        samples = [*self.samples, *more]
        first = len(samples)
        if looked:
            hinted = {**self.hints, **self.options.fields}
            samples += fitting(samples, looked, frozenset(name for name, field in hinted.items() if field.varies))
        fields = dict(self.options.fields)
        asked = {name for name, field in fields.items() if field.optional or field.varies}
        schema = infer(samples, fields)
        if varying := _varying(schema, {name: field for name, field in self.hints.items() if name not in fields}):
            fields |= varying
            schema = infer(samples, fields)
        integers = {leaf.name for leaf in schema.leaves if leaf.node.dtype.startswith(("int", "uint"))}
        fields |= {name: field for name, field in self.hints.items() if name in integers - fields.keys()}
        prepared = list(map(Preparer(schema, fields).prepare, samples))
        optional = _optional(schema, prepared[:first], asked)
        with_columns = self._with_columns(schema, fields, prepared)
        if with_columns != schema:
            prepared = list(map(Preparer(with_columns, fields).prepare, samples))
        return Preparer(with_columns, fields, optional), prepared

    def _with_columns(self, schema: Schema, fields: Mapping[str, Field], samples: Sequence[Prepared]) -> Schema:
        """The same schema, in which small arrays lie in columns where that takes less space than frames."""
        usual = self.options.manifest().goal
        shapes = {}
        for leaf in schema.frames:
            field = fields.get(leaf.name, Field())
            if leaf.node.kind in ARRAYS and leaf.state >= 0 and not leaf.store_as:
                arrays = [array for sample in samples if (array := sample.arrays[leaf.frame]) is not None]
                shape = _column_shape(leaf.node, arrays, len(samples), field.goal or usual)
                if shape is not None:
                    shapes[leaf.state] = shape
        if not shapes:
            return schema
        stored = {leaf.name: leaf.store_as for leaf in schema.frames if leaf.store_as is not None}
        return Schema(_with_shapes(schema, schema.place, shapes), stored)


def _column_shape(node: Node, arrays: Sequence[Array], samples: int, goal: Goal) -> tuple[int, ...] | None:
    """The shape with which arrays are kept in a column, if they are. These arrays are in so many samples."""
    if len(arrays) < _ENOUGH_ARRAYS:
        return None
    shape, count = Counter(array.shape for array in arrays).most_common(1)[0]
    alike = [array for array in arrays if array.shape == shape]
    nbytes = alike[0].nbytes
    # Arrays of three dimensions are taken for images, which a Loader treats while it decodes their frames.
    if len(shape) not in (1, 2) or not 0 < nbytes <= MOST_COLUMN_BYTES or count * 100 < len(arrays) * _ALIKE_PERCENT:
        return None
    # The plan is chosen on other arrays than those that are measured: its assets would know them by heart.
    plan, measured = codecs.plan(alike[::2], goal, dtype=node.dtype, own=True), alike[1::2]
    of_frames = sum(_FRAME_PERCENT * size + 100 * _FRAME_IN_ROW for size in frame_sizes(plan, measured))
    width = max(nbytes, APART_BYTES)
    return shape if 100 * width * len(measured) * samples <= of_frames * len(arrays) else None


def _with_shapes(schema: Schema, place: SchemaNode, shapes: Mapping[int, tuple[int, ...]]) -> Node:
    """The node of this place, with these shapes at places below it."""
    items = tuple(_with_shapes(schema, schema.places[number], shapes) for number in schema.children(place))
    return replace(place.node, items=items, shape=shapes.get(place.number))


def _varying(schema: Schema, hints: Mapping[str, Field]) -> dict[str, Field]:
    """Those of the hints that say that a field varies, where the samples have such a field and no arrays in it."""
    found = {}
    for place in schema.places:
        if place.parent < 0 and place.name in hints and hints[place.name].varies and schema.root.kind in DICTS:
            leaves = [schema.leaves[number].node for number in place.leaves]
            if not any(leaf.kind in ARRAYS or leaf.type in ("tensor", "ndarray") for leaf in leaves):
                found[place.name] = hints[place.name]
    return found


def _optional(schema: Schema, samples: Sequence[Prepared], asked: Collection[str]) -> tuple[str, ...]:
    """The names of the places that some sample lacks, or has None at, and of those that the caller asked for."""
    packed = np.frombuffer(b"".join(sample.states for sample in samples), np.uint8).reshape(len(samples), -1)
    states = unpack_states(packed, len(schema.places))
    places = [place for place in schema.places if place.node.kind != "none"]  # those may be missing anyway
    found = []
    for place in places:
        # What is below a container that is not there says nothing about samples that have the container.
        there = True if place.parent < 0 else states[:, place.parent] == PRESENT
        of_place = states[:, place.number]
        # None is one of the values of what takes anything.
        lacking = of_place == ABSENT if place.node.kind == "any" else of_place != PRESENT
        if place.name in asked or bool((lacking & there).any()):
            found.append(place.name)
    return tuple(found)


def snapshot(value: Any) -> Any:
    """A sample that stays as it is when the caller writes to its tensors and lists again."""
    if isinstance(value, torch.Tensor):
        plain = value.detach()
        # Torch warns that half complex numbers are new to it, but not of their bits.
        halves = plain.dtype == torch.complex32 and not plain.is_conj()
        return plain.view(torch.int32).clone().view(torch.complex32) if halves else plain.clone()
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return type(value)((key, snapshot(item)) for key, item in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)._make(map(snapshot, value))  # type: ignore[attr-defined]
    if isinstance(value, list | tuple):
        return type(value)(map(snapshot, value))
    return value


class FixedSchema(NamedTuple):
    """The manifest of a store, which never changes once it is chosen, and the plans of its frame leaves.

    `later` names the plans where they are not those of the manifest (`later_plans`).
    """

    manifest: Manifest
    plans: Sequence[Plan]
    later: tuple[str | None, ...] | None = None

    @property
    def plan_names(self) -> tuple[str | None, ...]:
        """The names of the plans, one per frame leaf; None where a leaf has none of its own."""
        return self.manifest.frame_plans if self.later is None else self.later

    @property
    def schema(self) -> Schema:
        """The schema, which such a manifest has."""
        assert self.manifest.schema is not None  # noqa: S101 - for the type checker
        return self.manifest.schema

    def preparer(self) -> Preparer:
        """Return a new preparer of samples for this schema."""
        return Preparer(self.schema, {entry.name: entry for entry in self.manifest.fields}, self.manifest.optional)

    def apart_plans(self) -> dict[int, Plan]:
        """Return the plans of arrays that do not fit their columns, by columns: they own nothing."""
        fields = self.manifest.fields
        return {
            leaf.column: fallback(DTYPES[leaf.node.dtype], fields[leaf.number].goal)
            for leaf in self.schema.column_arrays
        }

    @classmethod
    def choose(
        cls,
        store: Path,
        options: Options,
        preparer: Preparer,
        samples: Sequence[Prepared],
        others: Sequence[Prepared] = (),
    ) -> "FixedSchema":
        """Choose the plans by these samples, and write them and the manifest, durably.

        `others` count for fields that none of the samples has.
        """
        manifest = options.manifest()
        plans: list[Plan] = []
        entries: list[FieldEntry] = []
        for leaf in preparer.schema.leaves:
            field = preparer.fields.get(leaf.name, Field())
            wanted: Goal = "raw" if field.keep_encoded else field.goal or manifest.goal
            name = None
            if leaf.stored is not None:
                arrays = _arrays(samples, leaf.frame) or _arrays(others, leaf.frame)
                if arrays:
                    plans.append(codecs.plan(arrays, wanted, dtype=leaf.stored, own=True))
                    name = plan_files.write(store, plans[-1])
                else:
                    plans.append(fallback(DTYPES[leaf.stored], wanted))
                log.info("%s: field %s is kept by %s, for the goal %s", store, brief(leaf.name), plans[-1], wanted)
            classes = None if field.classes is None else tuple(field.classes)
            entries.append(FieldEntry(leaf.name, wanted, name, leaf.store_as, classes, field.keep_encoded))
        manifest = replace(
            manifest, schema=preparer.schema, fields=tuple(entries), optional=tuple(preparer.optional or ())
        )
        write_manifest(store, manifest)
        plan_files.remove_others(store, set(manifest.plan_names))
        return cls(manifest, plans)

    @classmethod
    def load(cls, store: Path, manifest: Manifest, names: Sequence[str | None] | None = None) -> "FixedSchema":
        """Load what was chosen for a store that has a schema; `names` are other plans than the manifest's."""
        fixed = cls(manifest, plans := [], None if names is None else tuple(names))
        if len(fixed.plan_names) != len(fixed.schema.frames):
            raise FormatError(f"{store}: {len(fixed.plan_names)} plans for {len(fixed.schema.frames)} fields in frames")
        for leaf, name in zip(fixed.schema.frames, fixed.plan_names, strict=True):
            if name is None:
                plans.append(fallback(DTYPES[leaf.stored or "uint8"], manifest.fields[leaf.number].goal))
                continue
            plan = plan_files.load(store, name)
            if plan.dtype != leaf.stored:
                raise FormatError(
                    f"{store}: the plan of field {brief(leaf.name)} is for {plan.dtype}, but the field holds "
                    f"{leaf.stored}"
                )
            plans.append(plan)
        return fixed

    def with_plans(self, store: Path, changed: Mapping[int, Plan]) -> "FixedSchema":
        """The same schema with other plans for some frame leaves, which are written to the store, durably."""
        names = [
            plan_files.write(store, changed[leaf]) if leaf in changed else name
            for leaf, name in enumerate(self.plan_names)
        ]
        plans = [changed.get(leaf, plan) for leaf, plan in enumerate(self.plans)]
        return self._replace(plans=plans, later=tuple(names))


def frame_sizes(plan: Plan, arrays: Sequence[Array]) -> list[int]:
    """Bytes of the frames that a plan makes of arrays."""
    items = tuple((array, array.shape, plan.encoder(array.ndim, short=True)) for array in arrays)
    return [len(frame) for frame in _native.encode_batch(items, 1)]


def _arrays(samples: Sequence[Prepared], frame: int) -> list[Array]:
    return [array for sample in samples if (array := sample.arrays[frame]) is not None]
