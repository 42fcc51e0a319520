"""A store as a torch dataset: samples by number, batches by a list of numbers, views of both.

ds = cw.open("train.cordwood")
ds[3], ds[-1], ds[2:10], ds[[5, 1, 9]]
for images, labels in DataLoader(ds.select("image", "label"), batch_size=256, num_workers=2): ...
"""

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import Dataset as TorchDataset

from cordwood.common.suggest import did_you_mean
from cordwood.errors import UsageError
from cordwood.store.reading.assemble import Assembler
from cordwood.store.reading.reader import Reader
from cordwood.store.reading.selection import Choice, choose, numbers_of, positions
from cordwood.store.values.arrays import known

if TYPE_CHECKING:
    from pathlib import Path

    from cordwood.store.inspecting.result import StoreInspection
    from cordwood.store.schema.schema import Leaf, Schema

_AT_ONCE = 1 << 14  # rows read together when a whole column is asked for; each may be in a shard of its own


class Dataset(TorchDataset[Any]):
    """The samples of a store; made by :func:`cordwood.open`.

    ::

        ds = cw.open("train.cordwood")
        len(ds)
        ds[3]                          # a sample, whose tensors own exactly their bytes
        ds[[5, 1, 9]]                  # a batch, read and decoded by one native call; also a tensor of numbers
        ds[100:200]                    # a dataset of these; so is ds.subset(numbers)
        ds.select("image", "label")    # a dataset of tuples that reads nothing else
        ds.schema, ds.names, ds.classes, ds.class_to_idx, ds.targets

    It is an ordinary map-style dataset: ``DataLoader``, ``Subset`` and ``random_split`` take it, workers may be forked
    or spawned, it pickles by the path of its store, and threads may read it at the same time.
    """

    def __init__(
        self,
        reader: Reader,
        choice: Choice | None = None,
        names: tuple[str, ...] | None = None,
        types: Sequence[type] = (),
    ) -> None:
        self._reader = reader
        self._choice = range(len(reader)) if choice is None else choice
        self._names = names
        self._types = tuple(types)
        self._assembler = Assembler(reader, names, self._types)

    # ---- samples ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._choice)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int):
            return self._assembler.sample(self._number(index))
        if isinstance(index, slice):
            return self._like(choose(self._choice, index))
        if isinstance(index, list | np.ndarray | torch.Tensor | range) and getattr(index, "ndim", 1) != 0:
            return self._assembler.batch(numbers_of(self._choice, index))
        if isinstance(index, tuple):
            raise UsageError(f"ds[{', '.join(map(str, index))}] names several samples: pass a list, ds[{list(index)}]")
        try:
            return self._assembler.sample(self._number(operator.index(index)))
        except TypeError:
            raise UsageError(
                f"a sample is asked for by its number, some by a slice, list or tensor, not by {type(index).__name__}"
                f"{self._field_meant(index)}"
            ) from None

    def _field_meant(self, name: Any) -> str:
        """What somebody may have wanted who gave the name of a field in place of a number."""
        if not isinstance(name, str):
            return ""
        if name not in self.names:
            return did_you_mean(name, self.names)
        top = self._names is None and self.schema.root.kind == "dict" and "." not in name
        return f": ds.select({name!r}) reads that field alone" + (f", ds[0][{name!r}] is one sample's" if top else "")

    def __getitems__(self, indices: Any) -> list[Any]:
        """Some samples, not collated: what a ``DataLoader`` asks for."""
        return self._assembler.samples(numbers_of(self._choice, indices))

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def _number(self, index: int) -> int:
        count = len(self._choice)
        if not -count <= index < count:
            raise IndexError(f"sample {index} of {count}")
        return int(self._choice[index])

    # ---- views -----------------------------------------------------------------------------------------------------

    def subset(self, indices: Any) -> "Dataset":
        """A dataset of these samples, in this order; numbers, or a mask of bools.

        ::

            validation = ds.subset(range(0, len(ds), 10))
        """
        return self._like(numbers_of(self._choice, indices).copy())  # the caller's array may change

    def select(self, *names: str) -> "Dataset":
        """A dataset of tuples of these fields, which reads nothing else.

        ::

            ds.select("image", "label")[3]      # (tensor, 7)

        A name may be that of a dict or tuple inside the samples. A field that a sample lacks is None there.
        """
        if not names or not all(isinstance(name, str) for name in names):
            raise UsageError(f"select takes names of fields: {', '.join(self.names)}")
        if self._names is not None and not set(names) <= set(self._names):
            raise UsageError(f"these samples have only {', '.join(self._names)}: select from the whole dataset instead")
        return Dataset(self._reader, self._choice, names, self._types)

    def _like(self, choice: Choice) -> "Dataset":
        return Dataset(self._reader, choice, self._names, self._types)

    # ---- what it holds -----------------------------------------------------------------------------------------------

    @property
    def path(self) -> "Path":
        """The folder of the store (of the first one, where several were put together)."""
        return self._reader.paths[0]

    @property
    def reader(self) -> Reader:
        """What reads the shards."""
        return self._reader

    @property
    def schema(self) -> "Schema":
        """What samples of the store are made of."""
        return self._reader.schema

    @property
    def names(self) -> tuple[str, ...]:
        """The fields that samples of this dataset have, in order."""
        return self._names if self._names is not None else self.schema.names

    def column(self, name: str) -> torch.Tensor:
        """A number field of all samples as one tensor, read without the rest.

        ::

            counts = ds.column("label").bincount()
        """
        leaf = self.schema.leaf(name)
        if leaf.column < 0:
            raise UsageError(f"field {name!r} is no number: ask for it in batches, ds.select({name!r})[[0, 1, 2]]")
        only = Assembler(self._reader, (name,))
        parts = []
        for start in range(0, len(self), _AT_ONCE):
            (part,) = only.batch(positions(choose(self._choice, slice(start, start + _AT_ONCE))))
            if not isinstance(part, torch.Tensor):
                raise UsageError(f"field {name!r} is missing in some samples, so it has no column: read it in batches")
            parts.append(part)
        return torch.cat(parts) if parts else torch.empty(0, dtype=known(leaf.node.dtype))

    @property
    def classes(self) -> list[str]:
        """The names of the labels, as in torchvision's ImageFolder."""
        return list(self._labels()[1])

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The label of each name."""
        return {name: label for label, name in enumerate(self._labels()[1])}

    @property
    def targets(self) -> list[int]:
        """The labels of all samples, in order; :meth:`column` has them as a tensor."""
        return self.column(self._labels()[0].name).tolist()

    def _labels(self) -> "tuple[Leaf, tuple[str, ...]]":
        """The one field whose values have names, and the names."""
        found = [
            (leaf, field.classes)
            for leaf, field in zip(self.schema.leaves, self._reader.fields, strict=True)
            if field.classes is not None
        ]
        if len(found) != 1:
            what = f"{', '.join(leaf.name for leaf, _ in found)} all have" if found else "no field has"
            # AttributeError, so that hasattr(ds, "classes") tells whether there are any.
            raise AttributeError(
                f'{what} class names; a writer gives them with fields={{"label": cw.Field(classes=[...])}}'
            )
        return found[0]

    # ---- for torch and for people ------------------------------------------------------------------------------------

    def __reduce__(self) -> "tuple[Callable[..., Dataset], tuple[Any, ...]]":
        state = (
            tuple(map(str, self._reader.paths)),
            self._reader.lengths,
            self._reader.threads,
            self._choice,
            self._names,
            self._types,
        )
        return _reopened, state

    def inspect(self) -> "StoreInspection":
        """What the store holds: fields, plans, sizes, statistics; the same as ``cw.inspect(path)``."""
        from cordwood.store.inspecting.inspect import inspect_reader  # statistics and words are needed by people only

        return inspect_reader(self._reader)

    def _repr_html_(self) -> str:
        from cordwood.store.inspecting.html import format_dataset_html

        return format_dataset_html(self)

    def __repr__(self) -> str:
        from cordwood.store.inspecting.text import format_dataset

        return format_dataset(self)


def _reopened(
    paths: Sequence[str],
    lengths: Sequence[int],
    threads: int | None,
    choice: Choice,
    names: tuple[str, ...] | None,
    types: Sequence[type],
) -> Dataset:
    """Unpickled: the same samples of the same stores, also if these have grown meanwhile."""
    return Dataset(Reader([*paths], threads=threads, lengths=lengths), choice, names, types)
