"""The first samples of a store: kept until there are enough of them to tell the schema and to choose plans.

look = Look(fields)
look.check(sample)            # UsageError if it can never be stored
look.take(sample)
look.full                     # 256 samples, or 16 MiB

What is fixed for good when the first samples have been looked at: schema, plans, and the manifest that tells them.

Nothing here depends on anything but the samples and what the caller asked for, so a writer that is killed and begins
again comes to the same files.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cordwood import codecs
from cordwood.codecs import Plan
from cordwood.codecs.dtypes import DTYPES
from cordwood.codecs.plan import fallback
from cordwood.common.text import brief
from cordwood.errors import FormatError
from cordwood.store.format import manifest as manifests
from cordwood.store.format import plan_files
from cordwood.store.format.manifest import FieldEntry, Manifest
from cordwood.store.schema.field import Field
from cordwood.store.schema.node import ARRAYS, Node
from cordwood.store.schema.schema import Schema
from cordwood.store.writing.infer import infer, observe
from cordwood.store.writing.options import Options
from cordwood.store.writing.prepare import Prepared, Preparer

LOOK_SAMPLES = 256
LOOK_BYTES = 16 << 20


class Look:
    """Samples that wait for a schema."""

    def __init__(self, fields: Mapping[str, Field]) -> None:
        self.samples: list[Any] = []
        self.nbytes = 0
        self._fields = fields
        self._seen: Node | None = None  # the structure of the last sample
        self._alone: Preparer | None = None  # for samples of that structure
        self._classes = {name: len(field.classes) for name, field in fields.items() if field.classes is not None}
        self._pictures = frozenset(name for name, field in fields.items() if field.keep_encoded)
        self._varying = {name: field for name, field in fields.items() if field.varies}

    def full_with(self, samples: int, nbytes: int) -> bool:
        """Whether so many more samples, of so many bytes, would be enough."""
        return len(self.samples) + samples >= LOOK_SAMPLES or self.nbytes + nbytes >= LOOK_BYTES

    def check(self, sample: Any) -> int:
        """The bytes of a sample's arrays; UsageError if something in it cannot be stored, whatever comes after it."""
        seen = observe(sample, frozenset(self._varying))
        if self._alone is None or seen != self._seen:
            self._alone, self._seen = Preparer(self._schema_of(sample), self._classes, self._pictures), seen
        prepared = self._alone.prepare(sample)
        return sum(array.nbytes for array in prepared.arrays if array is not None)

    def _schema_of(self, sample: Any) -> Schema:
        alone = infer([sample], self._varying)
        # Fields that this sample lacks may come with another one, so only those that are there are asked for.
        asked = {
            leaf.name: self._fields[leaf.name]
            for leaf in alone.leaves
            if leaf.name in self._pictures
            or (leaf.node.kind in ARRAYS and leaf.name in self._fields and self._fields[leaf.name].store_as)
        }
        return infer([sample], {**self._varying, **asked}) if asked else alone

    def take(self, sample: Any, nbytes: int) -> None:
        """Keep a copy of a sample that was found good."""
        self.samples.append(snapshot(sample))
        self.nbytes += nbytes

    def prepare(self, more: list[Any]) -> "tuple[Preparer, list[Prepared]]":
        """The schema of what was kept and of more samples that complete it, and all of these in its terms."""
        samples = [*self.samples, *more]
        preparer = Preparer(infer(samples, self._fields), self._classes, self._pictures)
        return preparer, [preparer.prepare(sample) for sample in samples]


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


log = logging.getLogger("cordwood.store")


def settle(store: Path, options: Options, schema: Schema, samples: Sequence[Prepared]) -> tuple[Manifest, list[Plan]]:
    """Choose plans for a schema's frame leaves, and write the manifest, durably."""
    goal = options.goal or manifests.DEFAULT_GOAL
    plans: list[Plan] = []
    entries: list[FieldEntry] = []
    for leaf in schema.leaves:
        field = options.fields.get(leaf.name, Field())
        wanted = "raw" if field.keep_encoded else field.goal or goal
        name = None
        if leaf.stored is not None:
            arrays = [array for sample in samples if (array := sample.arrays[leaf.frame]) is not None]
            if arrays:
                plans.append(codecs.plan(arrays, wanted, dtype=leaf.stored, own=True))
                name = plan_files.write(store, plans[-1])
            else:
                plans.append(fallback(DTYPES[leaf.stored], wanted))
            log.info("%s: field %s is kept by %s, for the goal %s", store, brief(leaf.name), plans[-1], wanted)
        classes = None if field.classes is None else tuple(field.classes)
        entries.append(FieldEntry(leaf.name, wanted, name, leaf.store_as, classes, field.keep_encoded))
    manifest = Manifest(schema, tuple(entries), goal, options.shard_bytes or manifests.DEFAULT_SHARD_BYTES)
    manifests.write(store, manifest)
    plan_files.remove_others(store, set(manifest.plan_names))
    return manifest, plans


def load_plans(store: Path, manifest: Manifest, schema: Schema) -> list[Plan]:
    """The plans of the frame leaves of a store that has shards already."""
    plans = []
    for leaf in schema.frames:
        entry = manifest.fields[leaf.number]
        if entry.plan is None:
            plans.append(fallback(DTYPES[leaf.stored or "uint8"], entry.goal))
            continue
        plan = plan_files.load(store, entry.plan)
        if plan.dtype != leaf.stored:
            raise FormatError(
                f"{store}: the plan of field {brief(leaf.name)} is for {plan.dtype}, but the field holds {leaf.stored}"
            )
        plans.append(plan)
    return plans
