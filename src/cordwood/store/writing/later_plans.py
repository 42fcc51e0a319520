"""Plans that a store is given while it is written, because later samples are of another kind than the first ones.

    later = LaterPlans(store, fixed)
    fixed = later.for_shard(8)              # of a store that has the shards before it
    fixed = later.after_shard(7, fixed)     # for shard 9; `fixed` has the plans of shard 8

A writer sees its samples once, so the first ones choose the plans. When a shard is in its place, some of its arrays are
encoded once more: by the plans in use, and by plans that are chosen on others of them. Where these are clearly smaller,
their chains are added to the plans in use, with the shard after the next one. Shards in their places decide alone, so a
writer that was killed and resumes, and any number of workers, come to the same plans.
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
_MAX_FRAME_BYTES = 4 << 20
_MAX_ARRAY_BYTES = 32 << 20
_FEWEST_ARRAYS = 16
_MAX_CHAINS = 32  # of a plan that had some added
_CLEARLY = 0.9  # of the bytes of frames by the plans in use
_CHANGED = 1.05  # of the ratio before: then the samples are of another kind
_GOLDEN = 2654435769  # of 2**32
BYTES_PER_LOOK = 16 << 20  # of shards: small ones are looked at more rarely

log = logging.getLogger("cordwood.store")


class LaterPlans:
    """Chooses plans by shards that are in their places."""

    def __init__(self, store: Path, fixed: FixedSchema) -> None:
        self._store = store
        self._fixed = fixed
        self._layout = RowLayout(fixed.schema)
        self._step = max(1, BYTES_PER_LOOK // fixed.manifest.shard_bytes)  # shards from one look to the next

    def for_shard(self, number: int) -> FixedSchema:
        """Return the plans of a shard, as a process that wrote those before it would have them."""
        if number < 2:
            return self._fixed
        try:
            with self._opened(number - 1) as shard:
                # A shard of version 1 names no plans.
                there = shard.table_plans or self._fixed.plan_names
            names = [used or own for used, own in zip(there, self._fixed.plan_names, strict=True)]
            used = FixedSchema.load(self._store, self._fixed.manifest, names)
        except FormatError as error:
            return self._unread(error, self._fixed)
        return self.after_shard(number - 2, used)

    def after_shard(self, number: int, fixed: FixedSchema) -> FixedSchema:
        """Return the plans for shard `number` + 2, by what shard `number` shows; `fixed` has those of the next one."""
        try:
            changed = self._better(number, fixed) if self._is_due(number) else {}
        except FormatError as error:
            return self._unread(error, fixed)
        for leaf, plan in changed.items():
            name = brief(fixed.schema.frames[leaf].name)
            log.info("%s: field %s is kept by %s from shard %d on", self._store, name, plan, number + 2)
        return fixed.with_plans(self._store, changed) if changed else fixed

    def _unread(self, error: FormatError, fixed: FixedSchema) -> FixedSchema:
        """What is written next does not depend on a shard that was damaged since."""
        log.warning("no plan is chosen by a shard that cannot be read: %s", error)
        return fixed

    @contextmanager
    def _opened(self, number: int) -> Iterator[SourceShard]:
        with opened_shard(self._store / shard_name(number), self._layout, self._fixed.plan_names) as shard:
            yield shard

    def _is_due(self, number: int) -> bool:
        """Whether a look can be worth its time: ever more rarely, and where the ratio of a field has changed."""
        if number & (number - 1) == 0:
            return True
        if number % self._step:
            return False
        before, now = self._ratios(number - self._step), self._ratios(number)
        return any(max(a, b) > _CHANGED * min(a, b) for a, b in zip(before, now, strict=True))

    def _ratios(self, number: int) -> list[float]:
        """Of each field in frames, its stored bytes as a part of its raw bytes."""
        path = self._store / shard_name(number)
        footer = read_footer(path, read_ends(path))
        try:
            fields = {one["name"]: one["stored_bytes"] / max(one["raw_bytes"], 1) for one in footer["fields"]}
            return [float(fields[leaf.name]) for leaf in self._layout.schema.frames]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise FormatError(f"{path}: the footer lacks the sizes of a field ({type(error).__name__})") from None

    def _better(self, number: int, fixed: FixedSchema) -> dict[int, Plan]:
        """Plans that make the arrays of a shard clearly smaller, by their leaves."""
        found = {}
        with self._opened(number) as shard:
            count = len(shard.rows)
            size = max(1, int(self._layout.ends(shard.rows)[-1]) // count)
            most = min(count, _MAX_SAMPLES, _MAX_FRAME_BYTES // size)
            if most < _FEWEST_ARRAYS:
                return {}
            places = np.linspace(0, count - 1, most).astype(np.int64)
            # By parts of multiples of the golden ratio: any beginning of this order comes from the whole shard.
            places = places[np.argsort(np.arange(most) * _GOLDEN % (1 << 32), kind="stable")]
            for leaf, used in enumerate(fixed.plans):
                goal = fixed.manifest.fields[fixed.schema.frames[leaf].number].goal
                arrays = shard.arrays(places, leaf, _MAX_ARRAY_BYTES) if goal != "raw" else []
                if len(arrays) >= _FEWEST_ARRAYS and (plan := _smaller(arrays, used, goal, count)) is not None:
                    found[leaf] = plan
        return found


def _smaller(arrays: list[Array], used: Plan, goal: codecs.Goal, samples: int) -> Plan | None:
    """A plan that makes so many samples, of which these are some, clearly smaller than the plan in use."""
    # Half of the arrays choose, the others judge: a dictionary knows by heart what it was made of.
    chosen, judged = codecs.plan(arrays[::2], goal, dtype=used.dtype, own=True), arrays[1::2]
    before = sum(frame_sizes(used, judged))
    # What is in use stays, since kinds of samples come again, unless it does not go together with what was chosen.
    for plan in (chosen.with_chains_of(used, _MAX_CHAINS), chosen):
        after = sum(frame_sizes(plan, judged))
        saved = (before - after) * samples / len(judged)
        if after < _CLEARLY * before and saved > len(plan.to_json()):
            return plan
    return None
