"""A store as a torch dataset: samples by number, batches by a list of numbers, views of both.

ds = cw.open("train.cordwood")
ds[3], ds[-1], ds[2:10], ds[[5, 1, 9]]
for images, labels in DataLoader(ds.select("image", "label"), batch_size=256, num_workers=2): ...
"""

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import Dataset as TorchDataset

from cordwood.common.suggest import did_you_mean
from cordwood.errors import UsageError
from cordwood.store.reading.assemble import Assembler
from cordwood.store.reading.read_plan import ReadPlan
from cordwood.store.reading.reader import Reader
from cordwood.store.reading.selection import Choice, choose, positions
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

    def __init__(self, plan: ReadPlan) -> None:
        self.read_plan = plan  # not for users: what the Loader reads by

    # ---- samples ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.read_plan)

    @overload
    def __getitem__(self, index: slice) -> "Dataset": ...

    @overload
    def __getitem__(self, index: SupportsIndex | list[Any] | npt.NDArray[Any] | torch.Tensor | range) -> Any: ...

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int):
            return self.read_plan.assembler.sample(self._number(index))
        if isinstance(index, slice):
            return Dataset(self.read_plan.select(choose(self.read_plan.selection, index)))
        if isinstance(index, list | np.ndarray | torch.Tensor | range) and getattr(index, "ndim", 1) != 0:
            return self.read_plan.assembler.batch(self.read_plan.numbers(index))
        if isinstance(index, tuple):
            raise UsageError(f"ds[{', '.join(map(str, index))}] names several samples: pass a list, ds[{list(index)}]")
        try:
            return self.read_plan.assembler.sample(self._number(operator.index(index)))
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
        top = self.read_plan.names is None and self.schema.root.kind == "dict" and "." not in name
        return f": ds.select({name!r}) reads that field alone" + (f", ds[0][{name!r}] is one sample's" if top else "")

    def __getitems__(self, indices: Any) -> list[Any]:
        """Some samples, not collated: what a ``DataLoader`` asks for."""
        return self.read_plan.assembler.samples(self.read_plan.numbers(indices))

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def _number(self, index: int) -> int:
        selection = self.read_plan.selection
        if not -len(selection) <= index < len(selection):
            raise IndexError(f"sample {index} of {len(selection)}")
        return int(selection[index])

    # ---- views -----------------------------------------------------------------------------------------------------

    def subset(self, indices: Any) -> "Dataset":
        """A dataset of these samples, in this order; numbers, or a mask of bools.

        ::

            validation = ds.subset(range(0, len(ds), 10))
        """
        return Dataset(self.read_plan.select(self.read_plan.numbers(indices).copy()))  # the caller's array may change

    def select(self, *names: str) -> "Dataset":
        """A dataset of tuples of these fields, which reads nothing else.

        ::

            ds.select("image", "label")[3]      # (tensor, 7)

        A name may be that of a dict or tuple inside the samples. A field that a sample lacks is None there.
        """
        if not names or not all(isinstance(name, str) for name in names):
            raise UsageError(f"select takes names of fields: {', '.join(self.names)}")
        have = self.read_plan.names
        if have is not None and not set(names) <= set(have):
            raise UsageError(f"these samples have only {', '.join(have)}: select from the whole dataset instead")
        plan = self.read_plan
        return Dataset(ReadPlan(plan.reader, plan.selection, names, plan.types))

    # ---- what it holds -----------------------------------------------------------------------------------------------

    @property
    def path(self) -> "Path":
        """The folder of the store (of the first one, where several were put together)."""
        return self.read_plan.reader.shards.paths[0]

    @property
    def reader(self) -> Reader:
        """What reads the shards."""
        return self.read_plan.reader

    @property
    def schema(self) -> "Schema":
        """What samples of the store are made of."""
        return self.read_plan.reader.schema

    @property
    def names(self) -> tuple[str, ...]:
        """The fields that samples of this dataset have, in order."""
        return self.read_plan.field_names

    def column(self, name: str) -> torch.Tensor:
        """A field of all samples as one tensor, read without the rest: of numbers, or of arrays kept in columns.

        ::

            counts = ds.column("label").bincount()
        """
        leaf = self.schema.leaf(name)
        if leaf.column < 0:
            raise UsageError(
                f"field {name!r} is no number, nor in columns: ask for it in batches, ds.select({name!r})[[0, 1, 2]]"
            )
        only = Assembler(self.read_plan.reader, (name,))
        parts, shape = [], leaf.node.shape or ()
        for start in range(0, len(self), _AT_ONCE):
            (part,) = only.batch(positions(choose(self.read_plan.selection, slice(start, start + _AT_ONCE))))
            if not isinstance(part, torch.Tensor) or tuple(part.shape[1:]) != shape:
                what = "has another shape or is missing" if leaf.is_column_array else "is missing"
                raise UsageError(f"field {name!r} {what} in some samples, so it has no column: read it in batches")
            parts.append(part)
        return torch.cat(parts) if parts else torch.empty((0, *shape), dtype=known(leaf.node.dtype))

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
            for leaf, field in zip(self.schema.leaves, self.read_plan.reader.shards.fields, strict=True)
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
        plan, reader = self.read_plan, self.read_plan.reader
        paths = tuple(map(str, reader.shards.paths))
        return _reopened, (paths, reader.shards.lengths, reader.threads, plan.selection, plan.names, plan.types)

    def inspect(self) -> "StoreInspection":
        """What the store holds: fields, plans, sizes, statistics; the same as ``cw.inspect(path)``."""
        from cordwood.store.inspecting.inspect import inspect_reader  # statistics and words are needed by people only

        return inspect_reader(self.read_plan.reader)

    def _repr_html_(self) -> str:
        from cordwood.store.inspecting.html import format_dataset_html

        return format_dataset_html(self.read_plan, self.inspect())

    def __repr__(self) -> str:
        from cordwood.store.inspecting.text import format_dataset

        return format_dataset(self.read_plan)


def _reopened(
    paths: Sequence[str],
    lengths: Sequence[int],
    threads: int | None,
    choice: Choice,
    names: tuple[str, ...] | None,
    types: Sequence[type],
) -> Dataset:
    """Unpickled: the same samples of the same stores, also if these have grown meanwhile."""
    return Dataset(ReadPlan(Reader([*paths], threads=threads, lengths=lengths), choice, names, types))
