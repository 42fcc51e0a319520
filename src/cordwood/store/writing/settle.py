"""What is fixed for good when the first samples have been looked at: schema, plans, and the manifest that tells them.

Nothing here depends on anything but the samples and what the caller asked for, so a writer that is killed and begins
again comes to the same files.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from cordwood import codecs
from cordwood.codecs import Plan
from cordwood.codecs.dtypes import DTYPES
from cordwood.codecs.plan import fallback
from cordwood.common.saferepr import brief
from cordwood.errors import FormatError
from cordwood.store.format import manifest as manifests
from cordwood.store.format import plan_files
from cordwood.store.format.manifest import FieldEntry, Manifest
from cordwood.store.schema.field import Field
from cordwood.store.schema.schema import Schema
from cordwood.store.writing.options import Options
from cordwood.store.writing.prepare import Prepared

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
