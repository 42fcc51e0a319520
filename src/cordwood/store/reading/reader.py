"""Reads samples by number out of the shards of one store, or of several with the same schema.

    reader = Reader(["train.cordwood"])
    rows, arrays = reader.fetch(np.array([7, 3]), reader.schema.frames, together=True)

A plan is loaded when a frame first names it. Every read copies and checks what it gives (`native/store/guard.c` tells
why), so any number of threads may read at once, and a fork may happen at any time.
"""

import math
import os
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from cordwood.codecs import BY_CODE, DTYPES, decode, frame_info
from cordwood.common.resources import default_threads, physical_memory
from cordwood.errors import FormatError, Reason, UsageError
from cordwood.native import _native
from cordwood.store.format.rows import MOST_APART
from cordwood.store.reading.buffers import Allocate, Ragged, check_memory, new_tensor, release
from cordwood.store.reading.image_treatment import Seeds, Treated, Treatment
from cordwood.store.reading.native_errors import OUT_SHAPE, fault_error
from cordwood.store.reading.selection import Numbers
from cordwood.store.reading.shards import Shards
from cordwood.store.schema.node import ARRAYS
from cordwood.store.schema.schema import APART, PRESENT, Leaf
from cordwood.store.values.arrays import Array, known, to_tensor
from cordwood.tensors import torch_dtype

Rows = npt.NDArray[np.void]


class Filled(NamedTuple):
    """Rows of different lengths in one tensor, filled up; a sample that has none has length 0."""

    values: torch.Tensor
    lengths: torch.Tensor


# Of one leaf: a tensor of all samples, or one per sample and None where it has none. Texts are str, but bytes where
# they are no UTF-8.
Arrays = torch.Tensor | Filled | list[torch.Tensor | None] | list[bytes | str | None]

_READERS: "weakref.WeakSet[Reader]" = weakref.WeakSet()


class Fetched(NamedTuple):
    """What a read gave: `is_even` means that in no sample anything is absent or None, unless it always is."""

    is_even: bool
    row_bytes: npt.NDArray[np.uint8]
    columns: list[npt.NDArray[Any]]
    arrays: list[Arrays]


class ReadOptions(NamedTuple):
    """How arrays arrive: what is done with which frame leaves on the way, in which memory, by how many threads."""

    treatments: Mapping[int, Treatment] = {}
    allocate: Allocate = new_tensor
    threads: int | None = None
    bytes_read: npt.NDArray[np.uint64] | None = None  # one number, to which what was read is added
    # Frame leaves whose arrays, where they have one dimension, are rows to be filled up, and with what.
    fills: Mapping[int, float] = {}


PLAIN = ReadOptions()


class _Outs(NamedTuple):
    """Memory for one leaf: of every batch for the caller, and as the native call takes it."""

    arrays: list[Arrays]
    per: int
    native: Any
    treat: Any = None


class Reader:
    """Reads samples of stores that are alike, the `shards` of which it opens."""

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        *,
        threads: int | None = None,
        lengths: Sequence[int] | None = None,
        sparse: bool = False,
    ) -> None:
        self.shards = Shards(paths, lengths=lengths, sparse=sparse)
        self.schema = self.shards.schema
        self.layout = self.shards.layout
        self.threads = threads
        self._accepted = [1 << DTYPES[_stored(leaf)].code for leaf in self.schema.frames]
        in_front = self.layout.dtype.fields["columns"][1] if self.layout.dtype.fields else 0
        self._column_places = [
            (in_front + at.start, dtype.itemsize)
            for at, dtype in zip(self.layout.column_slices, self.layout.column_dtypes, strict=True)
        ]
        self._shapes: dict[int, tuple[int, ...]] = {}  # of a frame leaf's last sample
        self._ragged: set[int] = set()  # frame leaves of which two shapes were seen
        self._large: set[int] = set()  # those of them with large arrays, or other numbers of dimensions
        _READERS.add(self)
        weakref.finalize(self, _release_memory).atexit = False

    def __len__(self) -> int:
        return len(self.shards)

    # ---- reading -------------------------------------------------------------------------------------------------

    def fetch(self, numbers: Numbers, leaves: Sequence[Leaf], *, together: bool) -> tuple[Rows, list[Arrays]]:
        """The rows of some samples and the arrays of these leaves of frames or column arrays, as they are stored.

        `together` asks for one tensor of all samples where their shapes are equal, of frames; else each sample's is its
        own.
        """
        numbers = np.ascontiguousarray(numbers, np.int64)
        frames = [leaf for leaf in leaves if leaf.frame >= 0]
        columns = [leaf for leaf in leaves if leaf.frame < 0]
        found = self.read(numbers, frames, columns, together=together)
        rows = found.row_bytes.view(self.layout.dtype)
        if not columns:
            return rows, found.arrays
        apart = self.apart(numbers, rows, columns)
        states = self.layout.states(rows)
        arrays = dict(zip(frames, found.arrays, strict=True))
        for leaf, values in zip(columns, found.columns, strict=True):
            there = np.isin(states[:, leaf.state], (PRESENT, APART)).tolist()
            of_column = column_tensors(leaf, values, apart.get(leaf.number, {}))
            arrays[leaf] = [one if here else None for one, here in zip(of_column, there, strict=True)]
        return rows, [arrays[leaf] for leaf in leaves]

    def apart(self, numbers: Numbers, rows: Rows, leaves: Sequence[Leaf]) -> dict[int, dict[int, Array]]:
        """The arrays of these leaves that do not lie in their columns: by leaf, and by place among the samples."""
        apart = [one for one in self.layout.apart(rows) if one.leaf in leaves]
        if apart and not self.layout.sound(rows, MOST_APART).all():
            number = int(numbers[int(np.flatnonzero(~self.layout.sound(rows, MOST_APART))[0])])
            raise FormatError(f"{self.shards.where(number)}: its row tells of what cannot be")
        found = {}
        for leaf, places, begins, sizes in apart:
            frames = self._bytes(numbers[places], leaf, begins, sizes)
            found[leaf.number] = {
                place: self._decoded(int(numbers[place]), leaf, frame)
                for place, frame in zip(places.tolist(), frames, strict=True)
            }
        return found

    def _bytes(self, numbers: Numbers, leaf: Leaf, begins: Any, sizes: Any) -> list[bytes]:
        while True:
            places = (np.ascontiguousarray(part) for part in (begins, sizes))
            answer = _native.store_bytes(self.shards.handle, np.ascontiguousarray(numbers), *places)
            if isinstance(answer, list):
                return answer
            if answer[0] != "attach":
                _, fault = answer[1][0]
                raise self._error(int(numbers[fault[0]]), leaf, fault)
            self.shards.attach(answer[1])

    def _decoded(self, number: int, leaf: Leaf, frame: bytes) -> Array:
        """The array of a frame that lies apart, which needs no plan."""
        try:
            found = frame_info(frame).dtype
            if found != leaf.node.dtype:
                raise FormatError(f"the frame holds {found}, but the schema says {leaf.node.dtype}")
            return decode(frame)
        except FormatError as error:
            raise FormatError(f"{self.shards.where(number, leaf)}: {error}", error.reason) from None

    def read(
        self,
        numbers: Numbers,
        frames: Sequence[Leaf],
        columns: Sequence[Leaf],
        *,
        together: bool,
        seeds: Seeds | None = None,
        delivery: ReadOptions = PLAIN,
    ) -> Fetched:
        """What :meth:`fetch` gives, and columns of the rows, in one native call."""
        per = len(numbers) if together else 0
        return self.read_batches(numbers, per, frames, columns, seeds=seeds, delivery=delivery)[0]

    def read_batches(
        self,
        numbers: Numbers,
        per: int,
        frames: Sequence[Leaf],
        columns: Sequence[Leaf],
        *,
        seeds: Seeds | None = None,
        delivery: ReadOptions = PLAIN,
    ) -> list[Fetched]:
        """Several batches of `per` samples (the last may have fewer) in one native call; 0: each sample by itself."""
        count, row_size = len(numbers), self.layout.row_size
        memory = np.empty(count * row_size, np.uint8)
        values = [np.empty(count, self.layout.column_dtypes[leaf.column]) for leaf in columns]
        places = tuple((*self._column_places[leaf.column], out) for leaf, out in zip(columns, values, strict=True))
        for _ in range(3 * len(frames) + 2):
            asked = frozenset(self._ragged)  # before: another thread may see at the same time that shapes differ
            outs = [self._outs(numbers, leaf, per, seeds, delivery) for leaf in frames]
            wanted = tuple(
                (leaf.frame, self._accepted[leaf.frame], out.per, out.native, out.treat)
                for leaf, out in zip(frames, outs, strict=True)
            )
            even, faults = self._read(numbers, memory, places, wanted, delivery)
            if not faults:
                # A bool is true or not, whatever bits say so.
                values = [found.view(np.uint8) != 0 if found.dtype == np.bool_ else found for found in values]
                if not per or per >= count:
                    return [Fetched(even, memory, values, [_all_of(out) for out in outs])]
                return [
                    Fetched(
                        even,
                        memory[start * row_size : (start + per) * row_size],
                        [found[start : start + per].copy() for found in values],
                        [_batch_of(out, start, per) for out in outs],
                    )
                    for start in range(0, count, per)
                ]
            for which, fault in faults:
                leaf = frames[which] if which >= 0 else None
                if leaf is None or fault[1] != OUT_SHAPE or leaf.node.kind not in ARRAYS:
                    raise self._error(int(numbers[fault[0]]), leaf, fault)
                # An array of another shape than the one before: let each tell its own, or ask each before.
                (self._large if leaf.frame in asked else self._ragged).add(leaf.frame)
        where = self.shards.where(int(numbers[0]))
        raise FormatError(f"{where}: shapes changed while they were read; read again")

    def _read(
        self, numbers: Numbers, memory: Any, columns: Any, wanted: Any, delivery: ReadOptions
    ) -> tuple[bool, list[tuple[int, Any]]]:
        """One native read, with the shards and plans that it turns out to need: whether all is there, and faults."""
        threads = delivery.threads or self.default_threads()
        while True:
            handle, plans = self.shards.handle, self.shards.plans
            answer = _native.store_read(
                handle, numbers, memory, columns, wanted, plans, threads, physical_memory(), delivery.bytes_read
            )
            if answer is None:
                return True, []
            if answer[0] == "uneven":
                return False, []
            if answer[0] == "attach":
                self.shards.attach(answer[1])
                continue
            lacking = [int(numbers[fault[0]]) for _, fault in answer[1] if fault[1] == Reason.PLAN_MISSING]
            # One that brings a new plan is enough: most samples lack the same.
            if not any(self.shards.load_plans(plans, number) for number in lacking):
                return False, answer[1]

    def advise(self, numbers: Numbers, frames: Sequence[Leaf]) -> int:
        """Tell the system that these samples are read soon; the bytes that it was asked for."""
        wanted = bytearray(self.layout.frames)
        for leaf in frames:
            wanted[leaf.frame] = 1
        while True:
            answer = _native.store_advise(self.shards.handle, numbers, bytes(wanted))
            if isinstance(answer, int):
                return answer
            self.shards.attach(answer[1])

    def _error(self, number: int, leaf: Leaf | None, fault: Any) -> FormatError:
        where = self.shards.where(number, leaf)
        if fault[1] == Reason.PLAN_MISSING:
            self.shards.explain_plans(number, where)
        return fault_error(where, fault)

    def default_threads(self) -> int:
        """How many threads decode, if nobody says."""
        if self.threads is not None:
            return self.threads
        # A DataLoader's workers share the cores already.
        return 1 if torch.utils.data.get_worker_info() is not None else default_threads()

    # ---- shapes and memory ---------------------------------------------------------------------------------------

    def _outs(self, numbers: Numbers, leaf: Leaf, per: int, seeds: Seeds | None, delivery: ReadOptions) -> _Outs:
        if leaf.node.kind not in ARRAYS:
            texts: list[bytes | str | None] = []
            return _Outs([texts], 0, texts, leaf.node.kind == "str")
        count = len(numbers)
        name = _stored(leaf)
        fill = delivery.fills.get(leaf.frame)
        if fill is not None and per:
            filled = self._filled(numbers, leaf, per, fill, delivery)
            if filled is not None:
                return filled
        one_shape = self._one_shape(numbers, leaf)
        rank = len(self._shapes.get(leaf.frame, ()))
        if one_shape is None and rank and leaf.frame not in self._large and leaf.frame not in delivery.treatments:
            ragged = Ragged(leaf.name, name, rank, per, delivery.allocate)
            return _Outs(ragged.arrays, 0, ragged, rank)
        shapes = None if one_shape is not None else self.shapes(numbers, leaf, delivery.threads)
        treatment, treated = delivery.treatments.get(leaf.frame), None
        if treatment is not None and (one_shape is not None or any(shape is not None for shape in shapes or ())):
            treated = treatment.of(leaf.name, name, one_shape or shapes or (), seeds)
            name = name if treated is None else treated.dtype
        carrier, dtype = DTYPES[name].numpy, torch_dtype(name)
        if dtype is None:
            raise UsageError(f"field {leaf.name!r} holds {name}, which this version of torch does not have")
        native = treated.native if treated is not None else None
        if per and one_shape is not None:
            shape = one_shape if treated is None else treated.shape(one_shape)
            check_memory((count, *shape), dtype.itemsize, "field %r of %d samples", leaf.name, count)
            starts = range(0, count, per)
            made = [delivery.allocate((min(per, count - start), *shape), carrier, dtype) for start in starts]
            seen: list[Arrays] = [_seen(tensor, treated) for tensor, _ in made]
            return _Outs(seen, per, tuple(array for _, array in made), native)
        sizes: list[tuple[int, ...] | None] = [one_shape] * count if shapes is None else shapes
        if treated is not None:
            sizes = [None if shape is None or len(shape) != 3 else treated.shape(shape) for shape in sizes]
        for shape in {shape for shape in sizes if shape is not None}:
            check_memory(shape, dtype.itemsize, "field %r", leaf.name)
        total = sum(math.prod(shape) for shape in sizes if shape is not None)
        check_memory((total,), dtype.itemsize, "field %r of %d samples", leaf.name, count)
        arrays: list[Arrays] = []
        apart: list[Any] = []
        for start in range(0, count, per or count or 1):
            batch = sizes[start : start + (per or count)]
            if per and _alike(batch):
                tensor, array = delivery.allocate((len(batch), *(batch[0] or ())), carrier, dtype)
                arrays.append(_seen(tensor, treated))
                apart += list(array) if array.ndim > 1 else [array[i : i + 1].reshape(()) for i in range(len(array))]
            else:
                each = [None if shape is None else delivery.allocate(shape, carrier, dtype) for shape in batch]
                arrays.append([None if one is None else _seen(one[0], treated) for one in each])
                apart += [None if one is None else one[1] for one in each]
        return _Outs(arrays, 0, tuple(apart), native)

    def _filled(self, numbers: Numbers, leaf: Leaf, per: int, fill: float, delivery: ReadOptions) -> _Outs | None:
        """Rows straight into what is filled up; None if some are no rows."""
        shapes = self.shapes(numbers, leaf, delivery.threads)
        dtype = known(_stored(leaf))
        if any(shape is not None and len(shape) != 1 for shape in shapes):
            return None
        lengths = np.array([0 if shape is None else shape[0] for shape in shapes], np.int64)
        arrays: list[Arrays] = []
        rows: list[Any] = []
        for start in range(0, len(shapes), per):
            batch = lengths[start : start + per]
            size = (len(batch), int(batch.max()))
            check_memory(size, dtype.itemsize, "field %r of %d samples", leaf.name, len(batch))
            tensor, array = delivery.allocate(size, DTYPES[_stored(leaf)].numpy, dtype)
            tensor.fill_(fill)
            arrays.append(Filled(tensor, torch.from_numpy(batch.copy())))
            rows += [row[:length] for row, length in zip(array, batch.tolist(), strict=True)]
        there = (None if shape is None else row for shape, row in zip(shapes, rows, strict=True))
        return _Outs(arrays, 0, tuple(there))

    def _one_shape(self, numbers: Numbers, leaf: Leaf) -> tuple[int, ...] | None:
        """The shape that all samples are taken to have, until one turns out to have another."""
        if leaf.frame in self._ragged or not len(numbers):
            return None
        seen = self._shapes.get(leaf.frame)
        if seen is None:
            seen = self.shapes(numbers[:1], leaf)[0]
            if seen is None:
                return None
            self._shapes[leaf.frame] = seen
        return seen

    def shapes(self, numbers: Numbers, leaf: Leaf, threads: int | None = None) -> list[tuple[int, ...] | None]:
        """The shape of a leaf's array in each sample, None where it has none."""
        numbers = np.ascontiguousarray(numbers, np.int64)
        while True:
            plans = self.shards.plans
            answer: Any = _native.store_shapes(
                self.shards.handle, numbers, leaf.frame, plans, threads or self.default_threads()
            )
            if isinstance(answer, list):
                break
            if answer[0] == "attach":
                self.shards.attach(answer[1])
                continue
            which, fault = answer[1][0]
            if fault[1] != Reason.PLAN_MISSING or not self.shards.load_plans(plans, int(numbers[fault[0]])):
                raise self._error(int(numbers[fault[0]]), leaf if which >= 0 else None, fault)
        code = DTYPES[_stored(leaf)].code
        for position, found in enumerate(answer):
            if found is not None and found[0] != code:
                where = self.shards.where(int(numbers[position]), leaf)
                raise FormatError(
                    f"{where}: the frame holds {BY_CODE[found[0]].name}, but the schema says {leaf.stored}"
                )
        return [None if found is None else found[1] for found in answer]


def column_tensors(leaf: Leaf, column: npt.NDArray[Any], apart: Mapping[int, Array]) -> list[torch.Tensor]:
    """The arrays of a column, those `apart` in their places; each has memory of its own."""
    return [to_tensor(apart[i] if i in apart else column[i].copy(), leaf.node.dtype) for i in range(len(column))]


def _release_memory() -> None:
    """Without a reader nobody takes what is kept for the next batch."""
    if not _READERS:
        release()


def _all_of(outs: _Outs) -> Arrays:
    return outs.arrays[0] if outs.arrays else []


def _batch_of(outs: _Outs, start: int, per: int) -> Arrays:
    if isinstance(outs.native, list):
        texts: list[bytes | str | None] = outs.native[start : start + per]
        return texts
    return outs.arrays[start // per]


def _seen(tensor: torch.Tensor, treated: Treated | None) -> torch.Tensor:
    """As the caller sees it: channels in front of height and width, wherever they are in memory."""
    return tensor.movedim(-1, -3) if treated is not None and treated.channels_last else tensor


def _alike(shapes: Sequence[tuple[int, ...] | None]) -> bool:
    return len(shapes) > 0 and shapes[0] is not None and all(shape == shapes[0] for shape in shapes)


def _stored(leaf: Leaf) -> str:
    if leaf.stored is None:
        raise UsageError(f"field {leaf.name!r} is a column, and has no frames")
    return leaf.stored
