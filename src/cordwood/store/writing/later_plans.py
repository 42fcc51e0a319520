"""Plans that a store is given while it is written, because later samples are of another kind than the first ones.

    later = LaterPlans(store, fixed)
    fixed = later.next(shards)                  # for the next shard of a store that has so many
    fixed = later(7, fixed)                     # what shard 7 shows; `fixed` has the plans of shard 8

A writer sees its samples once, so the first ones choose the plans. When a shard is in its place, its arrays are encoded
once more: by the plans in use, and by plans that are chosen on some of them. Where these are clearly smaller, they take
effect with the shard after the next one. Shards in their places decide alone, so a writer that was killed and resumes,
and any number of workers, come to the same plans.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from cordwood import codecs
from cordwood.codecs import Array, Plan
from cordwood.common.text import brief
from cordwood.errors import FormatError
from cordwood.store.format.rows import RowLayout
from cordwood.store.format.shard_file import read_ends, read_footer, shard_name
from cordwood.store.writing.first_samples import FixedSchema, frame_sizes
from cordwood.store.writing.shard_copy import SourceShard, opened_shard

_MAX_SAMPLES = 2048
_MAX_BYTES = 4 << 20  # of their frames
_FEWEST_ARRAYS = 16
_CLEARLY = 0.9  # of the bytes of frames by the plans in use
_CHANGED = 1.05  # of the ratio of the shard before: then the samples are of another kind

log = logging.getLogger("cordwood.store")


class LaterPlans:
    """Chooses plans by shards that are in their places."""

    def __init__(self, store: Path, fixed: FixedSchema) -> None:
        self._store = store
        self._fixed = fixed
        self._layout = RowLayout(fixed.schema)

    def next(self, shards: int) -> FixedSchema:
        """Return the plans of the next shard of a store that has so many, as the process before would have had them."""
        if shards < 2:
            return self._fixed
        try:
            with self._opened(shards - 1) as shard:
                names = [used or own for used, own in zip(shard.table_plans, self._fixed.plan_names, strict=False)]
            used = FixedSchema.load(self._store, self._fixed.manifest, names)
        except FormatError as error:
            return self._damaged(error, self._fixed)
        return self(shards - 2, used)

    def __call__(self, number: int, fixed: FixedSchema) -> FixedSchema:
        """Return the plans for shard `number` + 2; `fixed` has those of the shard before."""
        try:
            changed = self._better(number, fixed) if self._is_due(number) else {}
        except FormatError as error:
            return self._damaged(error, fixed)
        for leaf, plan in changed.items():
            name = brief(fixed.schema.frames[leaf].name)
            log.info("%s: field %s is kept by %s from shard %d on", self._store, name, plan, number + 2)
        return fixed.with_plans(self._store, changed) if changed else fixed

    def _damaged(self, error: FormatError, fixed: FixedSchema) -> FixedSchema:
        """What is written next does not depend on a shard that was damaged since."""
        log.warning("no plan is chosen by a shard that cannot be read: %s", error)
        return fixed

    @contextmanager
    def _opened(self, number: int) -> Iterator[SourceShard]:
        with opened_shard(self._store / shard_name(number), self._layout, self._fixed.plan_names) as shard:
            yield shard

    def _is_due(self, number: int) -> bool:
        """Whether a look can be worth its time: ever more rarely, and where a field's ratio has changed."""
        if number & (number - 1) == 0:
            return True
        before, now = self._ratios(number - 1), self._ratios(number)
        return any(max(a, b) > _CHANGED * min(a, b) for a, b in zip(before, now, strict=True))

    def _ratios(self, number: int) -> list[float]:
        """Of each field, its stored bytes as a part of its raw bytes."""
        path = self._store / shard_name(number)
        fields = {one["name"]: one for one in read_footer(path, read_ends(path))["fields"]}
        found = [fields[leaf.name] for leaf in self._layout.schema.frames]
        return [one["stored_bytes"] / max(one["raw_bytes"], 1) for one in found]

    def _better(self, number: int, fixed: FixedSchema) -> dict[int, Plan]:
        """Plans that make the arrays of a shard clearly smaller, by their leaves."""
        entries = fixed.manifest.fields
        goals = [entries[leaf.number].goal for leaf in fixed.schema.frames]
        leaves = [leaf for leaf, goal in enumerate(goals) if goal != "raw"]
        with self._opened(number) as shard:
            count = len(shard.rows)
            size = max(1, int(self._layout.ends(shard.rows)[-1]) // count)
            most = min(count, _MAX_SAMPLES, max(_FEWEST_ARRAYS, _MAX_BYTES // size))
            arrays = shard.arrays(np.unique(np.linspace(0, count - 1, most).astype(int)), leaves)
        found = {}
        for leaf, of_leaf in zip(leaves, arrays, strict=True):
            plan = _smaller(of_leaf, fixed.plans[leaf], goals[leaf], count / most)
            if plan is not None:
                found[leaf] = plan
        return found


def _smaller(arrays: list[Array], used: Plan, goal: codecs.Goal, samples: float) -> Plan | None:
    """A plan that makes these arrays, each of which stands for so many, clearly smaller than the plan in use."""
    if len(arrays) < _FEWEST_ARRAYS:
        return None
    # Half of the arrays choose, the others judge: a dictionary knows by heart what it was made of.
    plan, judged = codecs.plan(arrays[::2], goal, dtype=used.dtype, own=True), arrays[1::2]
    before, after = sum(frame_sizes(used, judged)), sum(frame_sizes(plan, judged))
    saved = (before - after) * samples * len(arrays) / len(judged)
    return plan if after < _CLEARLY * before and saved > len(plan.to_json()) else None
