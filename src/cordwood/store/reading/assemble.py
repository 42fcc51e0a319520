"""Makes samples and batches out of the rows and arrays of a store.

    assembler = Assembler(reader, names=("image", "label"))
    assembler.sample(3)                  # (tensor, 7)
    assembler.batch(np.array([3, 1]))    # (tensor of two, tensor([7, 4]))

A batch is what torch's stock collate makes of the same samples: arrays and numbers become tensors with the samples
along the first dimension, texts become lists. What cannot be stacked is a list, too: arrays of different shapes, and
fields that are missing in some of the samples (None stands for those).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from cordwood.errors import FormatError, UsageError
from cordwood.native import _native
from cordwood.store.format.rows import unpack_states
from cordwood.store.reading.encoded_images import decode_batches
from cordwood.store.reading.image_treatment import Seeds
from cordwood.store.reading.reader import PLAIN, Fetched, Filled, Reader, ReadOptions, Rows, column_tensors
from cordwood.store.reading.rebuild import Rebuilder, restore
from cordwood.store.reading.selection import Numbers
from cordwood.store.schema.node import ARRAYS
from cordwood.store.schema.schema import ABSENT, APART, NONE, PRESENT, Leaf
from cordwood.store.values.arrays import CARRIERS, Array, known

ApartArrays = Mapping[int, Mapping[int, Array]]  # by leaf, and by place among the samples
Collate = Callable[[str, Any], Any]  # of a field's name and its values in a batch

_PYTHON: Final = ("int", "float", "bool", "complex")
_WITHIN: Final = 1 << 62  # that offsets lie inside their shard was seen when they were read


class Assembler:
    """Makes samples and batches of the fields with these names (None: of all)."""

    def __init__(self, reader: Reader, names: tuple[str, ...] | None = None, types: Sequence[type] = ()) -> None:
        self.reader = reader
        self.rebuilder = Rebuilder(reader.schema, names, types)
        self.types = tuple(types)
        self.leaves = [reader.schema.leaves[number] for number in self.rebuilder.leaves]
        self.frames = [leaf for leaf in self.leaves if leaf.frame >= 0]
        self.columns = [leaf for leaf in self.leaves if leaf.column >= 0]
        self._position = {leaf.number: at for part in (self.frames, self.columns) for at, leaf in enumerate(part)}
        self._places = len(reader.schema.places)
        # Leaves whose bytes are images: they are decoded here, and are tensors from then on.
        fields = reader.shards.fields
        self.pictures = frozenset(
            leaf.number for leaf in self.frames if leaf.node.kind == "bytes" and fields[leaf.number].keep_encoded
        )

    def holds_arrays(self, leaf: Leaf) -> bool:
        """Whether a leaf's values are arrays for whoever reads them."""
        return leaf.node.kind in ARRAYS or leaf.number in self.pictures

    def sample(self, number: int) -> Any:
        """One sample, by its number in the store."""
        return self.samples(np.array([number], np.int64))[0]

    def samples(self, numbers: Numbers, *, seeds: Seeds | None = None, delivery: ReadOptions = PLAIN) -> list[Any]:
        """Some samples, each with memory of its own."""
        found = self.reader.read(numbers, self.frames, self.columns, together=False, seeds=seeds, delivery=delivery)
        if self.pictures and len(numbers):
            (found,) = self._decoded(numbers, 0, [found], seeds, delivery)
        states, apart = self._told(numbers, found)
        values = [self._values(numbers, leaf, found, apart) for leaf in self.leaves]
        each = zip(*values, strict=True) if values else iter([()] * len(numbers))
        build = self.rebuilder.build
        if states is None:
            return [build(one, None) for one in each]
        return [build(one, told) for one, told in zip(each, states.tolist(), strict=True)]

    def batch(self, numbers: Numbers) -> Any:
        """Some samples as one batch."""
        if not len(numbers):
            raise UsageError("a batch of no samples has no shape: ask for at least one")
        return self.batches(numbers, len(numbers))[0]

    def batches(
        self,
        numbers: Numbers,
        per: int,
        *,
        seeds: Seeds | None = None,
        delivery: ReadOptions = PLAIN,
        collate: Collate | None = None,
        always: Sequence[str] = (),
    ) -> list[Any]:
        """Batches of `per` samples, read together; `collate` has the last word about each field, by its name.

        Fields named in `always` are in a batch even if none of its samples has them.
        """
        read = self.reader.read_batches(numbers, per, self.frames, self.columns, seeds=seeds, delivery=delivery)
        if self.pictures:
            read = self._decoded(numbers, per, read, seeds, delivery)
        return [
            self._batch(numbers[start : start + per], found, collate, always)
            for start, found in zip(range(0, len(numbers), per), read, strict=True)
        ]

    def _batch(self, numbers: Numbers, found: Fetched, collate: Collate | None, always: Sequence[str]) -> Any:
        states, apart = self._told(numbers, found)
        values = [self._collated(numbers, leaf, found, states, apart) for leaf in self.leaves]
        if collate is not None:
            values = [collate(leaf.name, value) for leaf, value in zip(self.leaves, values, strict=True)]
        if states is None:
            return self.rebuilder.build(values, None)
        joined = _joined(states)
        for name in always:
            place = self.reader.schema.leaf(name).state
            while place >= 0:
                joined[place] = PRESENT
                place = self.reader.schema.places[place].parent
        return self.rebuilder.build(values, joined)

    def _told(self, numbers: Numbers, found: Fetched) -> tuple[npt.NDArray[np.uint8] | None, ApartArrays]:
        """The state of every place in every sample, None if nothing is missing; and the arrays that lie apart."""
        if found.is_even:
            return None, {}
        rows = found.row_bytes.view(self.reader.layout.dtype)
        states = self._states(numbers, rows)
        if not self.reader.schema.column_arrays:
            return states, {}
        return np.where(states == APART, PRESENT, states), self.reader.apart(numbers, rows, self.columns)

    def _states(self, numbers: Numbers, rows: Rows) -> npt.NDArray[np.uint8]:
        """The state of every place in every sample; FormatError if it cannot be."""
        sound = self.reader.layout.sound(rows, _WITHIN)
        if not sound.all():
            number = int(numbers[int(np.flatnonzero(~sound)[0])])
            raise FormatError(f"{self.reader.shards.where(number)}: its row tells of what cannot be")
        return unpack_states(rows["states"], self._places)

    def _decoded(
        self, numbers: Numbers, per: int, read: Sequence[Fetched], seeds: Seeds | None, delivery: ReadOptions
    ) -> list[Fetched]:
        """What was read, with images in the place of the bytes that were kept of them."""
        threads = delivery.threads or self.reader.default_threads()
        made = [list(found.arrays) for found in read]
        for at, leaf in enumerate(self.frames):
            if leaf.number in self.pictures:
                encoded: list[Any] = [data for found in read for data in found.arrays[at]]
                where = partial(self._where, numbers, leaf)
                decoded = decode_batches(leaf, encoded, per, seeds, delivery, threads, where)
                for arrays, batch in zip(made, decoded, strict=True):
                    arrays[at] = batch
        return [found._replace(arrays=arrays) for found, arrays in zip(read, made, strict=True)]

    def _where(self, numbers: Numbers, leaf: Leaf, position: int) -> str:
        return self.reader.shards.where(int(numbers[position]), leaf)

    # ---- one leaf of all samples -----------------------------------------------------------------------------------

    def _values(self, numbers: Numbers, leaf: Leaf, found: Fetched, apart: ApartArrays) -> Sequence[Any]:
        """A leaf's value in each sample; of no meaning where the leaf is not present."""
        at = self._position[leaf.number]
        if leaf.is_column_array:
            column, others = found.columns[at], apart.get(leaf.number, {})
            if leaf.node.kind == "tensor":
                return column_tensors(leaf, column, others)
            return [others[i] if i in others else column[i].copy() for i in range(len(column))]
        if leaf.column >= 0:
            return _column_values(leaf, found.columns[at])
        arrays = found.arrays[at]
        if (leaf.node.kind == "tensor" and leaf.store_as is None) or leaf.number in self.pictures:
            return arrays  # type: ignore[return-value] # a list: they were not asked for together
        if leaf.node.kind == "str" and isinstance(arrays, list) and not _native.holds_bytes(arrays):
            return arrays  # texts, and None where there is none
        return [None if array is None else self._value(numbers, i, leaf, array) for i, array in enumerate(arrays)]

    def _value(self, numbers: Numbers, position: int, leaf: Leaf, array: torch.Tensor | bytes | str) -> Any:
        try:
            if isinstance(array, str):
                return array
            if isinstance(array, bytes):
                return restore(leaf, array, self.types)
            if leaf.node.kind == "tensor":
                return array.to(known(leaf.node.dtype))
            carrier = CARRIERS.get(array.dtype)
            return restore(leaf, array.numpy() if carrier is None else array.view(carrier).numpy(), self.types)
        except FormatError as error:
            raise FormatError(f"{self._where(numbers, leaf, position)}: {error}", error.reason) from None

    def _collated(
        self,
        numbers: Numbers,
        leaf: Leaf,
        found: Fetched,
        states: npt.NDArray[np.uint8] | None,
        apart: ApartArrays,
    ) -> Any:
        """A leaf of all samples for a batch: in one tensor, or in a list with None where a sample lacks it."""
        here = None if states is None or leaf.state < 0 else states[:, leaf.state] == PRESENT
        lacking = here is not None and not here.all()
        if leaf.column >= 0 and not lacking and leaf.number not in apart:
            return _column_batch(leaf, found.columns[self._position[leaf.number]])
        if leaf.is_column_array:
            tensors = column_tensors(leaf, found.columns[self._position[leaf.number]], apart.get(leaf.number, {}))
            if not lacking and len({tensor.shape for tensor in tensors}) == 1:
                return torch.stack(tensors)
            arrays: Any = tensors
        elif self.holds_arrays(leaf):
            arrays = self._tensors(leaf, found)
        else:
            arrays = self._values(numbers, leaf, found, apart)
        if here is None or not lacking or isinstance(arrays, Filled):
            return arrays
        return [value if there else None for value, there in zip(arrays, here.tolist(), strict=True)]

    def _tensors(self, leaf: Leaf, found: Fetched) -> Any:
        """The arrays of a leaf in the dtype that was given; also those of NumPy are tensors in a batch."""
        arrays = found.arrays[self._position[leaf.number]]
        if leaf.store_as is None:
            return arrays
        dtype = known(leaf.node.dtype)
        if isinstance(arrays, torch.Tensor):
            return arrays.to(dtype)
        return [array.to(dtype) if isinstance(array, torch.Tensor) else None for array in arrays]


def _column_values(leaf: Leaf, column: npt.NDArray[np.generic]) -> Sequence[Any]:
    match leaf.node.type:
        case kind if kind in _PYTHON:
            return column.tolist()  # type: ignore[no-any-return]
        case "tensor":
            dtype = known(leaf.node.dtype)
            return [torch.from_numpy(column[i : i + 1].copy()).view(dtype).view(()) for i in range(len(column))]
        case _:
            return [restore(leaf, column[i : i + 1].tobytes()) for i in range(len(column))]


def _column_batch(leaf: Leaf, column: npt.NDArray[np.generic]) -> torch.Tensor:
    dtype = known(leaf.node.dtype)
    made = torch.from_numpy(column)
    return made if made.dtype == dtype else made.view(dtype)


def _joined(states: npt.NDArray[np.uint8]) -> list[int]:
    """What a place is in a batch: present if it is so anywhere, absent if it is so everywhere."""
    anywhere = (states == PRESENT).any(axis=0)
    absent = (states == ABSENT).all(axis=0)
    return np.where(anywhere, PRESENT, np.where(absent, ABSENT, NONE)).tolist()  # type: ignore[no-any-return]
