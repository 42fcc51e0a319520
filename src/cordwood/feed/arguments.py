"""Checks of what a Loader is told: each gives back the value in one form, or says what it should have been.

Which samples a loader reads: a store, or what torch makes of stores.

store_of(ds), store_of(Subset(ds, [3, 1])), store_of(random_split(ds, [0.9, 0.1])[0])
"""

import os
from typing import Any, Final

import numpy as np
from torch.utils.data import ConcatDataset, Subset

from cordwood.common.text import brief
from cordwood.errors import UsageError
from cordwood.store import Dataset, concat

_MOST_WORKERS: Final = 4096


def flag(name: str, given: Any) -> bool:
    """True or False, and nothing that only passes for it."""
    if type(given) is not bool:
        raise UsageError(f"{name} is {brief(given)}, but is True or False")
    return given


def function(name: str, given: Any) -> Any:
    """Something to call, or None."""
    if given is not None and not callable(given):
        raise UsageError(f"{name} is {brief(given)}, but is a function")
    return given


def count(name: str, given: Any, *, most: int) -> int | None:
    """At least one; None for "auto"."""
    if isinstance(given, str) and given == "auto":
        return None
    given = plain(given)
    if type(given) is not int or not 1 <= given <= most:
        raise UsageError(f"{name} is {brief(given)}, but is a number from 1 to {most}, or 'auto'")
    return int(given)


def workers(given: Any) -> int:
    """A number of processes."""
    given = plain(given)
    if type(given) is not int or not 0 <= given <= _MOST_WORKERS:
        raise UsageError(f"sample_workers is {brief(given)}, but is a number of processes; 0 uses threads")
    return int(given)


def skips(on_damage: Any) -> bool:
    """Whether damaged samples are left out."""
    if on_damage not in ("raise", "skip"):
        raise UsageError(f"on_damage is {brief(on_damage)}, but is 'raise' or 'skip'")
    return bool(on_damage == "skip")


def plain(given: Any) -> Any:
    """A whole number of NumPy's as one of Python's; anything else as it is."""
    return int(given) if isinstance(given, np.integer) else given


def store_of(dataset: Any) -> Dataset:
    """The samples as a dataset of a store's: subsets of subsets become one choice of numbers."""
    if isinstance(dataset, Dataset):
        return dataset
    if isinstance(dataset, Subset):
        return store_of(dataset.dataset).subset(dataset.indices)
    if isinstance(dataset, ConcatDataset):
        return concat([store_of(part) for part in dataset.datasets])
    wanted = "Loader takes a dataset that cw.open gave, or a Subset, random_split or ConcatDataset of such"
    if isinstance(dataset, str | os.PathLike):
        raise UsageError(f"{wanted}, not a path: cw.Loader(cw.open({os.fspath(dataset)!r}), ...)")
    raise UsageError(
        f"{wanted}, not {brief(dataset)}: pack it with cw.pack; any other loader runs ahead with "
        "cw.prefetch(DataLoader(...))"
    )
