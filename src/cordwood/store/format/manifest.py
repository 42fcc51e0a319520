"""Reads and writes ``store.json``: schema, fields and options of a store. It does not change once there are samples.

    manifest = read("train.cordwood")
    manifest.goal, manifest.fields[0].name, manifest.schema

::

    {"cordwood_store": [1, 0], "body": {"schema": ..., "fields": [...], "options": {...}}, "crc32c": "8 hex digits"}

The checksum is over the body in one canonical form, so the file may be indented or not.
"""

import json
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from cordwood.codecs import DTYPES, GOALS, Goal
from cordwood.common.atomic_file import replacing
from cordwood.common.files import read_all
from cordwood.common.text import brief, reason_of
from cordwood.errors import FormatError, Reason
from cordwood.native import _native
from cordwood.store.format.plan_files import is_plan_name
from cordwood.store.schema.schema import Schema

NAME: Final = "store.json"
VERSION: Final = (1, 0)
DEFAULT_GOAL: Final = "balanced"
DEFAULT_SHARD_BYTES: Final = 64 << 20
_MOST_BYTES = 256 << 20  # of the file: ten thousand fields take about a megabyte
_KNOWN = ("schema", "fields", "optional", "options", "!format")
_FORMAT = 2  # of shards and plans: what a reader must know


@dataclass(frozen=True)
class FieldEntry:
    """What is recorded of a field: ``plan`` names a file in ``plans/``, ``store_as`` a narrower dtype."""

    name: str
    goal: Goal
    plan: str | None = None
    store_as: str | None = None
    classes: tuple[str, ...] | None = None
    keep_encoded: bool = False  # the bytes are an image, which is decoded when it is read

    def to_json(self) -> dict[str, Any]:
        """As in the file."""
        told = {
            "name": self.name,
            "goal": self.goal,
            "plan": self.plan,
            "store_as": self.store_as,
            "classes": None if self.classes is None else list(self.classes),
        }
        return {**told, "keep_encoded": True} if self.keep_encoded else told


@dataclass(frozen=True)
class Manifest:
    """The contents of ``store.json``. ``schema`` is None until the first shard is written."""

    schema: Schema | None = None
    fields: tuple[FieldEntry, ...] = ()  # one a leaf of the schema, in its order
    goal: Goal = DEFAULT_GOAL
    shard_bytes: int = DEFAULT_SHARD_BYTES
    optional: tuple[str, ...] = ()  # the places that samples may lack or have None at, in the order of the schema
    format: int = _FORMAT  # 1: the store was begun by a version that knows neither tables of shards nor menus

    @property
    def frame_plans(self) -> tuple[str | None, ...]:
        """The plan of each frame leaf, in the order of the frames in a row."""
        leaves = () if self.schema is None else self.schema.frames
        return tuple(self.fields[leaf.number].plan for leaf in leaves)

    @cached_property
    def plan_names(self) -> tuple[str, ...]:
        """The plans that fields name, each once, in the order of the fields."""
        return tuple(dict.fromkeys(field.plan for field in self.fields if field.plan is not None))

    def to_json(self) -> dict[str, Any]:
        """The body of the file."""
        told = {
            "schema": None if self.schema is None else self.schema.to_json(),
            "fields": [field.to_json() for field in self.fields],
            "options": {"goal": self.goal, "shard_bytes": self.shard_bytes},
        }
        optional = {"optional": list(self.optional)} if self.optional else {}
        return {**told, **optional, **({"!format": self.format} if self.format > 1 else {})}


def canonical(body: Any) -> bytes:
    """JSON in the one form that checksums and hashes are made of."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def to_bytes(manifest: Manifest) -> bytes:
    """The bytes of the file."""
    body = manifest.to_json()
    crc = _native.crc32c(canonical(body))
    return (
        json.dumps({"cordwood_store": list(VERSION), "body": body, "crc32c": f"{crc:08x}"}, indent=1).encode() + b"\n"
    )


def write(store: str | os.PathLike[str], manifest: Manifest) -> None:
    """Put the file in its place, durably."""
    with replacing(Path(store) / NAME, durable=True) as file:
        file.write(to_bytes(manifest))


def read(store: str | os.PathLike[str]) -> Manifest:
    """The manifest of a store.

    ::

        manifest = read("train.cordwood")

    StorageError if there is no such file, FormatError if it is not what was written.
    """
    path = Path(store) / NAME
    data = read_all(path, "the store's manifest", _MOST_BYTES)
    return from_bytes(data, str(path))


def from_bytes(data: bytes, where: str) -> Manifest:
    """The manifest in these bytes; `where` names them in messages."""
    try:
        return _manifest(_body(data))
    except FormatError as error:
        raise FormatError(f"{where}: {error}", error.reason) from None


def _body(data: bytes) -> dict[str, Any]:
    """The body, its version and its checksum found right."""
    try:
        outer = json.loads(
            data.decode(),
            parse_float=_no_float,
            parse_constant=_no_float,
            parse_int=_integer,
            object_pairs_hook=_members,
        )
    except (ValueError, RecursionError) as error:
        raise FormatError(f"a store's manifest is JSON, but this is not: {reason_of(error)}") from None
    if not isinstance(outer, dict) or "cordwood_store" not in outer:
        raise FormatError("a store's manifest is a JSON object with a member 'cordwood_store', which is missing here")
    version = outer["cordwood_store"]
    if not isinstance(version, list) or len(version) != 2 or not all(type(part) is int for part in version):
        raise FormatError(f"the version is two numbers, not {brief(version)}")
    if version[0] != VERSION[0]:
        raise FormatError(
            f"a store of version {version[0]}.{version[1]}, but this Cordwood reads version {VERSION[0]}: upgrade it",
            Reason.VERSION,
        )
    body = outer.get("body")
    if not isinstance(body, dict):
        raise FormatError("the body is missing")
    try:
        found = f"{_native.crc32c(canonical(body)):08x}"
    except RecursionError:
        raise FormatError("the body is nested too deeply") from None
    if outer.get("crc32c") != found:
        raise FormatError(
            f"the body has checksum {found}, but {brief(outer.get('crc32c'))} was written: the file is damaged or was "
            "edited; restore it from a copy"
        )
    unknown = [name for name in body if name not in _KNOWN and name.startswith("!")]
    if unknown:
        raise FormatError(f"{brief(unknown[0])} is a feature of a newer Cordwood: upgrade it", Reason.VERSION)
    return body


def _no_float(text: str) -> Any:
    raise ValueError(f"a number that is not an integer: {brief(text)}")


def _integer(text: str) -> int:
    # The length first: Python takes long to read integers of many digits, or refuses.
    if len(text) > 20 or not -(1 << 63) <= int(text) < 1 << 63:
        raise ValueError(f"an integer that does not fit 64 bits: {brief(text)}")
    return int(text)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("an object has two members of one name")
    return made


def _manifest(body: dict[str, Any]) -> Manifest:
    options = body.get("options")
    if not isinstance(options, dict):
        raise FormatError("the options are missing")
    goal, shard_bytes = options.get("goal"), options.get("shard_bytes")
    if goal not in GOALS:
        raise FormatError(f"the goal is {brief(goal)}, but can be {', '.join(GOALS)}")
    if type(shard_bytes) is not int or not 1 <= shard_bytes < 1 << 63:
        raise FormatError(f"shard_bytes is {brief(shard_bytes)}, but is a number of bytes")
    entries = body.get("fields")
    if not isinstance(entries, list):
        raise FormatError("the list of fields is missing")
    fields = tuple(_field(entry) for entry in entries)
    node = body.get("schema")
    schema = None if node is None else Schema.from_json(node, [field.store_as for field in fields])
    names = () if schema is None else schema.names
    if tuple(field.name for field in fields) != tuple(names):
        raise FormatError(
            f"the fields are {brief([field.name for field in fields])}, but the schema's are {brief(names)}"
        )
    for leaf, field in zip(() if schema is None else schema.leaves, fields, strict=True):
        if field.keep_encoded and leaf.node.kind != "bytes":
            raise FormatError(f"field {brief(field.name)} is said to hold encoded images, but holds {leaf.node.kind}")
    version = body.get("!format", 1)
    if type(version) is not int or version not in (1, _FORMAT):
        raise FormatError(
            f"the format is {brief(version)}, but this Cordwood reads 1 and {_FORMAT}: upgrade it", Reason.VERSION
        )
    return Manifest(schema, fields, goal, shard_bytes, _optional(body.get("optional"), schema), version)


def _optional(found: object, schema: Schema | None) -> tuple[str, ...]:
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise FormatError(f"what samples may lack is {brief(found)}, but is a list of names")
    names = {place.name for place in schema.places} if schema is not None else set()
    for name in found:
        if name not in names:
            raise FormatError(f"samples may lack {brief(name)}, which is no part of the schema")
    return tuple(found)


def _field(entry: object) -> FieldEntry:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise FormatError(f"a field without a name: {brief(entry)}")
    name, goal, plan = entry["name"], entry.get("goal"), entry.get("plan")
    store_as, classes, kept = entry.get("store_as"), entry.get("classes"), entry.get("keep_encoded")
    if goal not in GOALS:
        raise FormatError(f"field {brief(name)}: the goal is {brief(goal)}, but can be {', '.join(GOALS)}")
    if plan is not None and not is_plan_name(plan):
        raise FormatError(f"field {brief(name)}: the plan is {brief(plan)}, but is named by 16 hexadecimal digits")
    if store_as is not None and (not isinstance(store_as, str) or store_as not in DTYPES):
        raise FormatError(f"field {brief(name)}: store_as is {brief(store_as)}, but is a dtype")
    if classes is not None and (not isinstance(classes, list) or not all(isinstance(one, str) for one in classes)):
        raise FormatError(f"field {brief(name)}: the classes are {brief(classes)}, but are names")
    if kept is not None and type(kept) is not bool:
        raise FormatError(f"field {brief(name)}: keep_encoded is {brief(kept)}, but is true or false")
    return FieldEntry(name, goal, plan, store_as, None if classes is None else tuple(classes), kept is True)
