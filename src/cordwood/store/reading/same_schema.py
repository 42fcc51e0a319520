"""What stores must have in common to be read as one, and how much of each is read."""

from collections.abc import Sequence
from pathlib import Path

from cordwood.common.saferepr import brief
from cordwood.errors import FormatError, UsageError
from cordwood.store.format import manifest as manifests
from cordwood.store.format import shard_index
from cordwood.store.schema.schema import Schema

_EMPTY = Schema.from_json({"kind": "dict", "keys": [], "items": []})


def common_schema(paths: Sequence[Path], found: Sequence[manifests.Manifest]) -> Schema:
    """The schema of all stores that have one."""
    there = [(path, one.schema) for path, one in zip(paths, found, strict=True) if one.schema is not None]
    for path, schema in there[1:]:
        if schema.hash != there[0][1].hash:
            raise UsageError(
                f"{there[0][0]} and {path} hold different samples, and cannot be read as one. The first has\n"
                f"{there[0][1]}\nthe other\n{schema}"
            )
    return there[0][1] if there else _EMPTY


def check_meanings(paths: Sequence[Path], found: Sequence[manifests.Manifest]) -> None:
    """Labels, and bytes that are images, must not mean one thing in one store and another in the next."""
    there = [(path, one.fields) for path, one in zip(paths, found, strict=True) if one.schema is not None]
    for path, fields in there[1:]:
        for first, other in zip(there[0][1], fields, strict=True):
            if first.classes != other.classes:
                raise UsageError(
                    f"field {first.name!r} has the classes {brief(first.classes)} in {there[0][0]}, but "
                    f"{brief(other.classes)} in {path}: their labels mean different things, and cannot be read as one"
                )
            if first.keep_encoded != other.keep_encoded:
                images, plain = (there[0][0], path) if first.keep_encoded else (path, there[0][0])
                raise UsageError(
                    f"field {first.name!r} holds encoded images in {images}, but plain bytes in {plain}: they cannot "
                    "be read as one"
                )


def records_of(path: Path, schema: Schema | None) -> shard_index.Records:
    """The shards of a store, of which its manifest must know."""
    records = shard_index.read(path).records
    if schema is None and len(records):
        raise FormatError(
            f"{path / manifests.NAME}: it knows of no samples, but there are {len(records)} shards: the file is older "
            "than they are; restore it from a copy, or make a new store of the shards with `cordwood verify --salvage`"
        )
    return records


def length_of(path: Path, records: shard_index.Records, most: int | None) -> int:
    """The samples of a store, or the first so many of them."""
    samples = int(records["first"][-1] + records["count"][-1]) if len(records) else 0
    if most is None:
        return samples
    if most > samples:
        raise FormatError(f"{path}: {most} samples are expected, but {samples} are there: the store was cut short")
    return most
