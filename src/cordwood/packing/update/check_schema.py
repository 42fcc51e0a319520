"""Compares what a source says about the fields of its samples with the schema of the store that it is to update.

    check_classes(folder, source)       # UsageError: the stored labels would mean other classes
    check_fields(folder, source, ())    # UsageError: 'age': int -> float; 'new' is added

Samples with other fields or types do not fit into the store. Each would fail, and under ``on_error="skip"`` be left
out.
"""

from collections.abc import Collection

from cordwood.common.text import brief
from cordwood.errors import UsageError
from cordwood.sources import Source
from cordwood.store.format.folder import OpenFolder

_MOST_SHOWN = 8  # fields in a message


def check_classes(folder: OpenFolder, source: Source) -> None:
    """A new class would change the numbers of others, and the labels of what is packed would be wrong."""
    for entry in folder.manifest.fields if folder.manifest is not None else ():
        names = source.classes.get(entry.name)
        if entry.classes is not None and names is not None and tuple(names) != entry.classes:
            raise UsageError(
                f"the classes of {entry.name!r} are {brief(list(names))} now, but {folder.path} was packed with "
                f"{brief(list(entry.classes))}: the labels that are stored would mean other ones; pack to a new store"
            )


def check_fields(folder: OpenFolder, source: Source, asked: Collection[str]) -> None:
    """UsageError if samples of the source, stored as they are read, have other fields or types than the store.

    `asked` are the fields with options of the caller's, which come before what the source says of varying fields.
    """
    stored = folder.manifest
    now = {name: "" if kind == "any" and name in asked else kind for name, kind in source.field_types.items()}
    if not now or stored is None or stored.schema is None:
        return
    before = {place.name: place.node.type or place.node.kind for place in stored.schema.places if place.parent < 0}
    differences = [
        *(f"{brief(name)}: {before[name]} -> {kind}" for name, kind in now.items() if _differs(before.get(name), kind)),
        *(f"{brief(name)} is added" for name in now if name not in before),
        *(f"{brief(name)} is gone" for name in before if name not in now and name not in stored.optional),
    ]
    if differences:
        more = [f"and {len(differences) - _MOST_SHOWN:,} more"] if len(differences) > _MOST_SHOWN else []
        raise UsageError(
            f"the columns of {source.describe().get('path')} are not those that {folder.path} was packed with: "
            f"{'; '.join([*differences[:_MOST_SHOWN], *more])}. New samples do not fit into the store, which is as it "
            "was: pack to another path, or restore the columns"
        )


def _differs(before: str | None, now: str) -> bool:
    """An unknown type (empty) is compared when a sample is stored; what takes anything takes every type."""
    return bool(now) and before not in (None, "any", now)
