"""Validates the options of a writer and checks them against an existing store."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cordwood.codecs import GOALS, Goal
from cordwood.common.arguments import one_of, whole_number
from cordwood.common.resources import default_threads
from cordwood.common.text import brief
from cordwood.errors import UsageError
from cordwood.store.format.manifest import Manifest
from cordwood.store.schema.field import Field

_MOST_THREADS = 256


@dataclass
class Options:
    """What the caller asked for; None: nothing."""

    goal: Goal | None
    shard_bytes: int | None
    fields: Mapping[str, Field]

    def manifest(self, before: Manifest = Manifest()) -> Manifest:  # noqa: B008 - it is frozen
        """Return the manifest of a store without samples; `before` has what the caller did not ask for."""
        return Manifest(goal=self.goal or before.goal, shard_bytes=self.shard_bytes or before.shard_bytes)


def checked_options(goal: Goal | None, shard_bytes: int | None, fields: Mapping[str, Field] | None) -> Options:
    """What the caller asked for, if it can be meant."""
    if goal is not None:
        one_of("goal", goal, GOALS)
    if shard_bytes is not None:
        shard_bytes = whole_number("shard_bytes", shard_bytes, 1, (1 << 48) - 1, "a number of bytes such as 64 << 20")
    if fields is not None and not isinstance(fields, Mapping):
        raise UsageError(f"fields must map names to cw.Field(...), got a {type(fields).__name__}")
    given = dict(fields or {})
    for name, field in given.items():
        if not isinstance(name, str) or not isinstance(field, Field):
            raise UsageError(f"fields must map names to cw.Field(...), got {name!r}: {field!r}")
    return Options(goal, shard_bytes, given)


def checked_threads(threads: int | None) -> int:
    """How many threads encode; None means all cores of this process."""
    if threads is None:
        return default_threads()
    wanted = whole_number("threads", threads, 1, what="1 or more, or None for all cores of this process")
    return min(wanted, _MOST_THREADS)


def check_same(options: Options, manifest: Manifest, where: Path) -> None:
    """Whatever the caller asks for must be what the store was made with: UsageError shows both."""
    asked: list[tuple[str, object, object]] = []
    if options.goal is not None:
        asked.append(("goal", options.goal, manifest.goal))
    if options.shard_bytes is not None:
        asked.append(("shard_bytes", options.shard_bytes, manifest.shard_bytes))
    entries = {entry.name: entry for entry in manifest.fields}
    for name, field in options.fields.items():
        if field.optional:
            asked.append((f"optional of field {name!r}", True, name in manifest.optional))
        entry = entries.get(name)
        if entry is None and field == Field(optional=True) and name in manifest.optional:  # a container
            continue
        if entry is None:
            raise UsageError(f"fields names {name!r}, but {where} has {', '.join(map(brief, entries)) or 'no fields'}")
        of = f"the {{}} of field {name!r}"
        if field.goal is not None:
            asked.append((of.format("goal"), field.goal, entry.goal))
        if field.store_as is not None:
            asked.append((of.format("store_as"), field.store_as, entry.store_as))
        if field.classes is not None:
            asked.append((of.format("classes"), tuple(field.classes), entry.classes))
        if field.keep_encoded:
            asked.append((of.format("keep_encoded"), True, entry.keep_encoded))
        if field.varies:
            found = manifest.schema is not None and manifest.schema.leaf(name).node.kind == "any"
            asked.append((of.format("varies"), True, found))
    for what, given, recorded in asked:
        if given != recorded:
            raise UsageError(
                f"{what} is given as {brief(given)}, but {where} was made with {brief(recorded)}: leave it out, or "
                "write another store"
            )
