"""Which samples a loader reads: a store, or what torch makes of stores.

store_of(ds), store_of(Subset(ds, [3, 1])), store_of(random_split(ds, [0.9, 0.1])[0])
"""

import os
from typing import Any

from torch.utils.data import ConcatDataset, Subset

from cordwood.common.saferepr import brief
from cordwood.errors import UsageError
from cordwood.store import Dataset, concat


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
