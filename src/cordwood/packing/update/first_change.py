"""Finds the first input that is not the one that was packed, for the message of a job that cannot resume."""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from cordwood.common.text import brief
from cordwood.packing.journal import inputs
from cordwood.packing.journal.inputs import InputEntry
from cordwood.sources import Input, Source


def first_change(store: Path, shards: int, source: Source, start: int) -> str:
    """The first input of these shards, the first of which has number `start`, that is not the source's any more."""
    last = None
    for entry, one in zip_longest(_packed(store, shards), source.inputs(start)):
        if entry is None:
            break  # all that was packed is as it was
        if entry.name is None:
            return "there were other inputs"
        if one is None or one.name != entry.name:
            return _moved(entry, one, last)
        if (one.size, one.stamp) != (entry.size, entry.stamp):
            return f"{brief(entry.name)} was changed after it was packed"
        last = entry.name
    if last is None:
        return "inputs were added, removed or changed"
    return f"what is packed, up to {brief(last)}, is as it was, but inputs behind that were added, removed or changed"


def _packed(store: Path, shards: int) -> Iterator[InputEntry]:
    last: InputEntry | None = None
    for shard in range(shards):
        for entry in inputs.read(store, shard).entries():
            if last is None or entry.name is None or entry.name != last.name:  # else its samples are in two shards
                yield entry
            last = entry


def _moved(entry: InputEntry, one: Input | None, last: str | None) -> str:
    behind = f" behind {brief(last)}" if last is not None else ""
    if one is None or one.name is None:
        return f"{brief(entry.name)} is not there any more"
    return f"{brief(entry.name)} was packed{behind}, and {brief(one.name)} is there now"
