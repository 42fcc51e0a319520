"""Samples by number, out of the shards of one store or of several alike.

    reader = Reader(["train.cordwood"])
    rows, arrays = reader.fetch(np.array([7, 3]), reader.schema.frames, together=True)

Opening reads `store.json` and the records of the shards, nothing else. A shard is mapped when a sample of it is first
asked for, a plan is loaded when a frame first names it. Every read copies and checks what it gives (`native/guard.c`
tells why), so any number of threads may read at once, and a fork may happen at any time.
"""

import math
import os
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from cordwood.codecs.dtypes import BY_CODE, DTYPES
from cordwood.codecs.frame import default_threads, physical_memory
from cordwood.errors import FormatError, StorageError, UsageError
from cordwood.native import _native
from cordwood.store import manifest as manifests
from cordwood.store import shardindex
from cordwood.store.alike import check_classes, common_schema, length_of, records_of
from cordwood.store.buffers import check_memory, new_array, release
from cordwood.store.faults import OUT_SHAPE, PLAN_MISSING, fault_error
from cordwood.store.layout import Layout, pack_states
from cordwood.store.loadedplans import LoadedPlans
from cordwood.store.node import ARRAYS
from cordwood.store.regular import opened
from cordwood.store.schema import NONE, PRESENT, Leaf
from cordwood.store.shardfile import ShardEnds, read_ends_of, shard_name
from cordwood.tensors.dtypes import torch_dtype

Numbers = npt.NDArray[np.int64]
Rows = npt.NDArray[np.void]
# Of one leaf: a tensor of all samples, or one a sample and None where it has none; texts and their like are bytes.
Arrays = torch.Tensor | list[torch.Tensor | None] | list[bytes | None]

_MOST_MAPPED = 32768  # shards; the system allows a process about twice as many mappings
_READERS: "weakref.WeakSet[Reader]" = weakref.WeakSet()


class Fetched(NamedTuple):
    """What a read gave: `even` means that in no sample anything is absent or None, unless it always is."""

    even: bool
    row_bytes: npt.NDArray[np.uint8]
    columns: list[npt.NDArray[Any]]
    arrays: list[Arrays]


class Reader:
    """Stores whose samples are alike, one after the other; `lengths` cuts each off after so many samples."""

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        *,
        threads: int | None = None,
        lengths: Sequence[int] | None = None,
    ) -> None:
        self.paths = tuple(Path(os.path.abspath(path)) for path in paths)  # noqa: PTH100 - links stay links
        self.threads = threads
        self.manifests = tuple(manifests.read(path) for path in self.paths)
        self.schema = common_schema(self.paths, self.manifests)
        check_classes(self.paths, self.manifests)
        self.layout = Layout(self.schema)
        self.records = tuple(records_of(path, one.schema) for path, one in zip(self.paths, self.manifests, strict=True))
        self.lengths = tuple(
            length_of(path, records, None if lengths is None else lengths[i])
            for i, (path, records) in enumerate(zip(self.paths, self.records, strict=True))
        )
        self._accepted = [1 << DTYPES[_stored(leaf)].code for leaf in self.schema.frames]
        self._dtypes = [(DTYPES[_stored(leaf)].numpy, torch_dtype(_stored(leaf))) for leaf in self.schema.frames]
        in_front = self.layout.dtype.fields["columns"][1] if self.layout.dtype.fields else 0
        self._column_places = [(in_front + at.start, at.stop - at.start) for at in self.layout.column_slices]
        self._firsts = self._place_shards()
        self._shard_starts = np.cumsum([0, *map(len, self.records)])
        self._handle = self._new_handle()
        self._mapped = 0
        self._lock = threading.Lock()
        self._plans = LoadedPlans()
        self._shapes: dict[int, tuple[int, ...]] = {}  # of a frame leaf's last sample
        self._ragged: set[int] = set()  # frame leaves of which two shapes were seen
        _READERS.add(self)
        weakref.finalize(self, _release_memory).atexit = False

    def _place_shards(self) -> npt.NDArray[np.uint64]:
        """The number of every shard's first sample, and at last that of all samples."""
        firsts, start = [], 0
        for records, length in zip(self.records, self.lengths, strict=True):
            firsts.append(np.minimum(records["first"], length) + np.uint64(start))
            start += length
        return np.concatenate([*firsts, np.array([start], np.uint64)]).astype(np.uint64)

    def _new_handle(self) -> Any:
        usual = pack_states(bytes(NONE if place.node.kind == "none" else PRESENT for place in self.schema.places))
        return _native.store_new(self._firsts.tobytes(), self.layout.row_size, self.layout.frames, usual)

    def __len__(self) -> int:
        return int(self._firsts[-1])

    @property
    def fields(self) -> tuple[manifests.FieldEntry, ...]:
        """What is recorded of every leaf, by the first store that has samples."""
        return next((one.fields for one in self.manifests if one.schema is not None), ())

    # ---- where a sample is ---------------------------------------------------------------------------------------

    def shard_of(self, number: int) -> tuple[Path, int]:
        """The shard that a sample is in, and the sample's number there."""
        shard = int(np.searchsorted(self._firsts, number, "right")) - 1
        return self._shard_path(shard), number - int(self._firsts[shard])

    def _shard_path(self, shard: int) -> Path:
        store = int(np.searchsorted(self._shard_starts, shard, "right")) - 1
        return self.paths[store] / shard_name(shard - int(self._shard_starts[store]))

    def where(self, number: int, leaf: Leaf | None = None) -> str:
        """A sample, or a field of it, in the words of messages."""
        path, row = self.shard_of(number)
        field = f", field {leaf.name!r}" if leaf is not None else ""
        return f"{path}: sample {number} (row {row} of the shard){field}"

    def _attach(self, found: Sequence[int]) -> None:
        shards = list(dict.fromkeys(found))
        with self._lock:
            if self._mapped and self._mapped + len(shards) > _MOST_MAPPED:
                # The older handle goes when the last call that uses it returns; the next one tells all that it needs.
                self._handle, self._mapped = self._new_handle(), 0
                return
            for shard in shards:
                self._map(shard)
                self._mapped += 1

    def _map(self, shard: int) -> None:
        store = int(np.searchsorted(self._shard_starts, shard, "right")) - 1
        local = shard - int(self._shard_starts[store])
        path, record = self._shard_path(shard), self.records[store][local]
        first = int(self._firsts[shard])
        lost = f"samples {first} to {int(self._firsts[shard + 1]) - 1} cannot be read"
        try:
            with opened(path, f"the shard, {lost}") as fd:
                ends = self._checked_ends(fd, path, record)
                failed = _native.store_attach(self._handle, shard, fd, ends.file_size, ends.rows_offset)
        except FormatError as error:
            raise FormatError(f"{error}; {lost}", error.reason) from None
        except StorageError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            raise FormatError(f"{path}: the shard is not there, {lost}: restore the file from a copy") from None
        if failed:
            raise StorageError(failed, f"{os.strerror(failed)}: the shard cannot be mapped, {lost}", str(path))

    def _checked_ends(self, fd: int, path: Path, record: Any) -> ShardEnds:
        ends = read_ends_of(fd, str(path))
        shardindex.check_record(str(path), record, ends)
        if ends.schema_hash != self.schema.hash or ends.row_size != self.layout.row_size:
            raise FormatError(
                f"{path}: a shard of another schema ({ends.schema_hash:016x}, rows of {ends.row_size} bytes) than this "
                f"store's ({self.schema.hash:016x}, {self.layout.row_size} bytes)"
            )
        return ends

    # ---- reading -------------------------------------------------------------------------------------------------

    def fetch(self, numbers: Numbers, leaves: Sequence[Leaf], *, together: bool) -> tuple[Rows, list[Arrays]]:
        """The rows of some samples and the arrays of these frame leaves, as they are stored.

        `together` asks for one tensor of all samples where their shapes are equal; else each sample's is its own.
        """
        found = self.read(np.ascontiguousarray(numbers, np.int64), leaves, (), together=together)
        return found.row_bytes.view(self.layout.dtype), found.arrays

    def read(self, numbers: Numbers, frames: Sequence[Leaf], columns: Sequence[Leaf], *, together: bool) -> "Fetched":
        """What :meth:`fetch` gives, and columns of the rows, in one native call."""
        memory = np.empty(len(numbers) * self.layout.row_size, np.uint8)
        values = [np.empty(len(numbers), self.layout.column_dtypes[leaf.column]) for leaf in columns]
        places = tuple((*self._column_places[leaf.column], out) for leaf, out in zip(columns, values, strict=True))
        for _ in range(2 * len(frames) + 2):
            outs = [self._outs(numbers, leaf, together) for leaf in frames]
            wanted = tuple(
                (leaf.frame, self._accepted[leaf.frame], out[1]) for leaf, out in zip(frames, outs, strict=True)
            )
            even, faults = self._read(numbers, memory, places, wanted)
            if not faults:
                # A bool is true or not, whatever bits say so.
                values = [found.view(np.uint8) != 0 if found.dtype == np.bool_ else found for found in values]
                return Fetched(even, memory, values, [out[0] for out in outs])
            for which, fault in faults:
                leaf = frames[which] if which >= 0 else None
                if leaf is None or fault[1] != OUT_SHAPE or leaf.node.kind not in ARRAYS:
                    raise self._error(int(numbers[fault[0]]), leaf, fault)
                self._ragged.add(leaf.frame)  # an array of another shape than the one before: ask each
        raise FormatError(f"{self.where(int(numbers[0]), None)}: shapes changed while they were read; read again")

    def _read(self, numbers: Numbers, memory: Any, columns: Any, wanted: Any) -> tuple[bool, list[tuple[int, Any]]]:
        """One native read, with the shards and plans that it turns out to need: whether all is there, and faults."""
        while True:
            plans = self._plans.handle
            answer = _native.store_read(
                self._handle, numbers, memory, columns, wanted, plans, self._threads(), physical_memory()
            )
            if answer is None:
                return True, []
            if answer[0] == "uneven":
                return False, []
            if answer[0] == "attach":
                self._attach(answer[1])
                continue
            lacking = [int(numbers[fault[0]]) for _, fault in answer[1] if fault[1] == PLAN_MISSING]
            # One that brings a new plan is enough: most samples lack the same.
            if not any(self._plans.load(plans, *self._plan_places(number)) for number in lacking):
                return False, answer[1]

    def _error(self, number: int, leaf: Leaf | None, fault: Any) -> FormatError:
        where = self.where(number, leaf)
        if fault[1] == PLAN_MISSING:
            self._plans.explain(*self._plan_places(number), where)
        return fault_error(where, fault)

    def _plan_places(self, number: int) -> tuple[Path, tuple[str, ...], Path]:
        """Where the plans of a sample's frames may be: the store, the names it tells, the shard."""
        shard = int(np.searchsorted(self._firsts, number, "right")) - 1
        store = int(np.searchsorted(self._shard_starts, shard, "right")) - 1
        return self.paths[store], self.manifests[store].plan_names, self._shard_path(shard)

    def _threads(self) -> int:
        if self.threads is not None:
            return self.threads
        # A DataLoader's workers share the cores already.
        return 1 if torch.utils.data.get_worker_info() is not None else default_threads()

    # ---- shapes and memory ---------------------------------------------------------------------------------------

    def _outs(self, numbers: Numbers, leaf: Leaf, together: bool) -> tuple[Arrays, Any]:
        """Memory for a leaf of some samples: for the caller, and as the native call takes it."""
        if leaf.node.kind not in ARRAYS:
            texts: list[bytes | None] = []
            return texts, texts
        count = len(numbers)
        carrier, dtype = self._dtypes[leaf.frame]
        if dtype is None:
            raise UsageError(f"field {leaf.name!r} holds {leaf.stored}, which this version of torch does not have")
        one_shape = self._one_shape(numbers, leaf)
        shapes = [one_shape] * count if one_shape is not None else self.shapes(numbers, leaf)
        if together and (one_shape is not None or _alike(shapes)):
            shape = (count, *(shapes[0] or ()))
            check_memory(shape, dtype.itemsize, "field %r of %d samples", leaf.name, count)
            batch = new_array(shape, carrier)
            return _tensor(batch, dtype), batch
        for shape in {shape for shape in shapes if shape is not None}:
            check_memory(shape, dtype.itemsize, "field %r", leaf.name)
        total = sum(math.prod(shape) for shape in shapes if shape is not None)
        check_memory((total,), dtype.itemsize, "field %r of %d samples", leaf.name, count)
        apart = tuple(None if shape is None else new_array(shape, carrier) for shape in shapes)
        return [None if array is None else _tensor(array, dtype) for array in apart], apart

    def _one_shape(self, numbers: Numbers, leaf: Leaf) -> tuple[int, ...] | None:
        """The shape that all samples are taken to have, until one turns out to have another."""
        if leaf.frame in self._ragged or not len(numbers):
            return None
        known = self._shapes.get(leaf.frame)
        if known is None:
            known = self.shapes(numbers[:1], leaf)[0]
            if known is None:
                return None
            self._shapes[leaf.frame] = known
        return known

    def shapes(self, numbers: Numbers, leaf: Leaf) -> list[tuple[int, ...] | None]:
        """The shape of a leaf's array in each sample, None where it has none."""
        numbers = np.ascontiguousarray(numbers, np.int64)
        while True:
            plans = self._plans.handle
            answer: Any = _native.store_shapes(self._handle, numbers, leaf.frame, plans, self._threads())
            if isinstance(answer, list):
                break
            if answer[0] == "attach":
                self._attach(answer[1])
                continue
            which, fault = answer[1][0]
            if fault[1] != PLAN_MISSING or not self._plans.load(plans, *self._plan_places(int(numbers[fault[0]]))):
                raise self._error(int(numbers[fault[0]]), leaf if which >= 0 else None, fault)
        code = DTYPES[_stored(leaf)].code
        for position, found in enumerate(answer):
            if found is not None and found[0] != code:
                raise FormatError(
                    f"{self.where(int(numbers[position]), leaf)}: the frame holds {BY_CODE[found[0]].name}, but the "
                    f"schema says {leaf.stored}"
                )
        return [None if found is None else found[1] for found in answer]


def _release_memory() -> None:
    """Without a reader nobody takes what is kept for the next batch."""
    if not _READERS:
        release()


def _renew_locks() -> None:
    """In a forked process: a thread that had a lock when it was forked does not exist in it."""
    for reader in _READERS:
        reader._lock = threading.Lock()
        reader._plans.renew_lock()


os.register_at_fork(after_in_child=_renew_locks)


def _tensor(array: npt.NDArray[Any], dtype: torch.dtype) -> torch.Tensor:
    """The tensor of an array's memory; dtypes that NumPy lacks came as unsigned integers."""
    made = torch.from_numpy(array)
    return made if made.dtype == dtype else made.view(dtype)


def _alike(shapes: Sequence[tuple[int, ...] | None]) -> bool:
    return len(shapes) > 0 and shapes[0] is not None and all(shape == shapes[0] for shape in shapes)


def _stored(leaf: Leaf) -> str:
    if leaf.stored is None:
        raise UsageError(f"field {leaf.name!r} is a column, and has no frames")
    return leaf.stored
