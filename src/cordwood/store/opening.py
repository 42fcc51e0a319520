"""``cw.open`` and ``cw.concat``: opens stores, and combines several datasets into one."""

import logging
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from cordwood.common.arguments import checks_keywords
from cordwood.common.suggest import did_you_mean_path
from cordwood.common.text import counted
from cordwood.errors import UsageError
from cordwood.store.dataset import Dataset
from cordwood.store.format.manifest import NAME
from cordwood.store.format.new_folder import set_aside
from cordwood.store.format.shard_index import NAME as INDEX_NAME
from cordwood.store.format.unfinished import unfinished
from cordwood.store.reading.read_plan import ReadPlan
from cordwood.store.reading.reader import Reader
from cordwood.store.reading.selection import positions
from cordwood.store.writing.options import checked_threads

log = logging.getLogger("cordwood.store")


@checks_keywords("cw.open")
def open(path: str | os.PathLike[str], *, types: Iterable[type] = (), threads: int | None = None) -> Dataset:
    """Open a store.

    ::

        ds = cw.open("train.cordwood")
        image, label = ds.select("image", "label")[0]

    Opening reads 64 bytes a shard, whatever the number of samples; what a sample needs is read when it is asked for.
    ``types`` are named tuple classes to use for samples that were written with classes of that name and fields;
    without them a fresh class is made, since nothing that a file names is ever imported. ``threads`` decode a batch
    (default: all cores of this process, and one in a worker of a ``DataLoader``). A store whose packing was stopped is
    opened with a warning: it holds the first part of its samples. So is one whose ``shards.bin`` is missing or damaged:
    the index is made again from the shards, in memory.
    """
    if threads is not None:
        threads = checked_threads(threads)
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"open takes the path of a store, not a {type(path).__name__}")
    _check_there(Path(path))
    reader = Reader([path], threads=threads)
    log.debug("%s is open: %d samples", path, len(reader))
    for told in _warnings(path, reader):
        warnings.warn(told, stacklevel=3)  # behind the check
    return Dataset(ReadPlan(reader, types=tuple(types)))


def _warnings(path: str | os.PathLike[str], reader: Reader) -> Iterator[str]:
    """What the caller must know of a store that can be read."""
    (index,) = reader.shards.indexes
    if index.mended and not index.is_behind:  # one that is behind lacks what a writer may be about to add
        more = f" (and {counted(len(index.mended) - 1, 'more problem')})" if len(index.mended) > 1 else ""
        yield (
            f"{index.mended[0]}{more}; the index was made again in memory, from the shards. `cordwood verify "
            f"{os.fspath(path)}` checks the store, and cw.Writer({os.fspath(path)!r}, mode='append').close() writes "
            f"{INDEX_NAME} anew"
        )
    told = unfinished(path)
    if told is not None:
        yield f"{os.fspath(path)} has {counted(len(reader), 'sample')} so far: {told}"


def _check_there(path: Path) -> None:
    if (path / NAME).exists():
        return
    if set_aside(path).exists() and not path.exists():
        raise UsageError(
            f"{path} was being brought up to date when a process was killed: run the same `cordwood pack --update` "
            "again"
        )
    if not path.exists():
        advice = did_you_mean_path(path) or f": make a store with cw.pack or cw.Writer({str(path)!r})"
        raise UsageError(f"{path} does not exist{advice}")
    if path.is_file():
        raise UsageError(f"{path} is a file, but a store is a folder: tensor files are opened with cw.load or cw.peek")
    if any(path.glob("shard-*.cws")):
        raise UsageError(
            f"{path} has shards but no {NAME}, which tells what is in them: restore it from a copy, or make a new "
            f"store of them with `cordwood verify {path} --salvage OUT`"
        )
    raise UsageError(f"{path} is a folder without {NAME}: no store, or one of which no shard is finished yet")


def concat(datasets: Sequence[Dataset]) -> Dataset:
    """Several datasets as one, the samples of the first before those of the second.

    ::

        both = cw.concat([cw.open("2023.cordwood"), cw.open("2024.cordwood")[:1000]])

    Their samples must be made of the same fields. A batch may hold samples of all of them, and is still read by one
    native call.
    """
    parts = list(datasets)
    if not parts or not all(isinstance(part, Dataset) for part in parts):
        raise UsageError("concat takes a list of datasets that cw.open gave; for others use torch's ConcatDataset")
    plans = [part.read_plan for part in parts]
    if len({plan.names for plan in plans}) > 1:
        raise UsageError("concat: the datasets have different fields selected; select after putting them together")
    readers = [plan.reader for plan in plans]
    together = Reader(
        [path for reader in readers for path in reader.shards.paths],
        threads=readers[0].threads,
        lengths=[length for reader in readers for length in reader.shards.lengths],
    )
    starts = np.cumsum([0, *(len(reader) for reader in readers)]).tolist()
    types = tuple(dict.fromkeys(kind for plan in plans for kind in plan.types))
    if all(isinstance(plan.selection, range) and plan.selection == range(len(plan.reader)) for plan in plans):
        return Dataset(ReadPlan(together, None, plans[0].names, types))
    numbers = np.concatenate([positions(plan.selection) + start for plan, start in zip(plans, starts, strict=False)])
    return Dataset(ReadPlan(together, numbers, plans[0].names, types))
