"""Checks arguments that only a Loader has.

    count("threads", "auto", most=256)              # None
    store_of(Subset(ds, [3, 1]))                    # a Dataset of two samples

``store_of`` accepts a dataset of a store, and what torch makes of such datasets: ``Subset``, ``ConcatDataset``, the
parts of a ``random_split``.
"""

import os
from typing import Any

from torch.utils.data import ConcatDataset, Subset

from cordwood.common.arguments import whole_number
from cordwood.common.text import brief
from cordwood.errors import UsageError
from cordwood.store import Dataset, concat


def count(name: str, given: Any, *, most: int) -> int | None:
    """At least one; None for "auto"."""
    if isinstance(given, str) and given == "auto":
        return None
    return whole_number(name, given, 1, most, f"a whole number from 1 to {most} or 'auto'")


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
