"""``cw.peek``: lists the tensors of a file, and reads those that are asked for."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Protocol, Self

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.storage import TypedStorage, UntypedStorage

from cordwood.common.html import MAX_ROWS, sentence, table, title, together
from cordwood.common.text import counted
from cordwood.errors import FormatError, Reason, UsageError
from cordwood.tensors.formats.detect import PickledFile
from cordwood.tensors.formats.safetensors_reader import SafetensorsFile, TensorEntry
from cordwood.tensors.formats.truncated import CutSafetensorsFile, open_what_is_left
from cordwood.tensors.io.memory_budget import Allotment
from cordwood.tensors.io.source import open_source
from cordwood.tensors.loading.select import Selection, no_such_tensor
from cordwood.tensors.loading.storages import (
    Storages,
    default_mmap,
    is_fake,
    is_meta,
    map_whole,
    restorer,
    without_data,
)
from cordwood.tensors.unpickle.allowlist import Allowed
from cordwood.tensors.unpickle.tensor_info import TensorInfo, tensor_info


def peek(path_or_file: Any, *, map_location: Any = None, mmap: bool | None = None, limit: int | None = None) -> "Peek":
    """Look into a tensor file without reading its tensors, and read single ones.

    ::

        with cw.peek("model.pt") as f:
            for name in f:
                print(f.info(name).shape)
            weight = f["layer1.weight"]

    Works for every format that `load` reads, from paths and file objects, and runs no code of the file. A file whose
    end is missing is shown as far as it goes. What shares memory in the file shares it here, as long as one of the
    tensors is alive; the memory of tensors that are gone is given back, so a loop over a file needs room for one of
    them at a time.
    `map_location`, `mmap` and `limit` are those of `load`.
    """
    return Peek(path_or_file, map_location=map_location, mmap=mmap, limit=limit)


class _TensorReader(Protocol):
    """What a `Peek` needs of a format."""

    @property
    def names(self) -> Iterable[str]:
        """In the order of the file."""

    def info(self, name: str) -> TensorInfo:
        """What is told of a tensor that there is."""

    def tensor(self, name: str) -> torch.Tensor:
        """The tensor itself."""


class Peek:
    """An open file; made by `peek`.

    ::

        with cw.peek("x.pt") as f:
            weight = f["model.weight"]
    """

    def __init__(
        self, path_or_file: Any, *, map_location: Any = None, mmap: bool | None = None, limit: int | None = None
    ) -> None:
        allotment = Allotment(limit)
        self._source = open_source(path_or_file)
        self._is_closed = False
        try:
            file = open_what_is_left(self._source, allotment).file
            self._reader: _TensorReader
            if isinstance(file, SafetensorsFile):
                self._reader = _Rows(file, map_location, mmap, allotment)
            else:
                self._reader = _PickleTensors(file, _PassingStorages(file, map_location, mmap, allotment))
            self._names = dict.fromkeys(self._reader.names)
        except BaseException:
            self._source.close()
            raise

    def names(self) -> list[str]:
        """The names of all tensors: the path of keys to each, joined by dots."""
        return list(self._names)

    def info(self, name: str) -> TensorInfo:
        """Shape, dtype and more of one tensor."""
        self._check(name)
        return self._reader.info(name)

    def __getitem__(self, name: str) -> torch.Tensor:
        self._check(name)
        if self._is_closed:
            raise UsageError(f"{self._source.name} is closed: read its tensors inside the with block")
        return self._reader.tensor(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def close(self) -> None:
        """Close the file; tensors that were read stay good."""
        self._is_closed = True
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Peek into {self._source.name!r}, {len(self)} tensors>"

    def _repr_html_(self) -> str:
        shown = (self._reader.info(name) for name in islice(self._names, MAX_ROWS))
        cells = [(info.name, _shape(info), str(info.dtype or "?").removeprefix("torch."), "") for info in shown]
        parts = [title(self._source.name, counted(len(self), "tensor")), table(("name", "shape", "dtype", ""), cells)]
        if len(self) > MAX_ROWS:
            parts.append(sentence(f"... {len(self) - MAX_ROWS} more (all: names())"))
        return together(parts)

    def _check(self, name: str) -> None:
        if name not in self._names:
            raise no_such_tensor(self._source.name, str(name), self._names)


def _shape(info: TensorInfo) -> str:
    if info.shape is None:
        return "?"
    return "[" + ", ".join("?" if count is None else str(count) for count in info.shape) + "]"


class _PickleTensors(Selection):
    """The tensors of a pickle, none of which is kept."""

    @property
    def names(self) -> Iterable[str]:
        return self.named

    def info(self, name: str) -> TensorInfo:
        return tensor_info(self.named[name])

    def tensor(self, name: str) -> torch.Tensor:
        room = self.storages.allotment.left
        self._hooks = Allowed(self.storages.typed, self.file.source.name, size=len(self.file.pickle), room=room)
        try:
            return super().tensor(name)
        finally:
            self._made.clear()
            del self._hooks  # it remembers the storages it has seen


class _PassingStorages(Storages):
    """Storages that live as long as somebody has a tensor over them."""

    def __init__(self, file: PickledFile, map_location: Any, mmap: bool | None, allotment: Allotment) -> None:
        super().__init__(file, map_location, mmap, allotment)
        self._typed = _Alive(allotment)


class _Alive(dict[str, TypedStorage]):
    """Storages by key, which it does not keep alive; what is gone gives its bytes back to the allotment."""

    def __init__(self, allotment: Allotment) -> None:
        super().__init__()
        self._allotment = allotment
        self._taken = allotment.taken
        self._refs: dict[str, tuple[StorageWeakRef, torch.dtype, int]] = {}

    def get(self, key: str, default: Any = None) -> Any:
        self._give_back()
        known = self._refs.get(key)
        if known is None:
            return default
        storage = UntypedStorage._new_with_weak_ptr(known[0].cdata)
        return default if storage is None else TypedStorage(wrap_storage=storage, dtype=known[1], _internal=True)

    def __setitem__(self, key: str, storage: TypedStorage) -> None:
        # What was taken from the allotment since the last one: nothing, if the storage is mapped.
        cost = self._allotment.taken - self._taken
        self._refs[key] = StorageWeakRef(storage._untyped_storage), storage.dtype, cost
        self._taken = self._allotment.taken

    def _give_back(self) -> None:
        for key, (ref, _, cost) in list(self._refs.items()):
            if ref.expired():
                del self._refs[key]
                self._allotment.taken -= cost
        self._taken = self._allotment.taken


class _Rows:
    """The tensors of a `.safetensors` file."""

    def __init__(self, file: SafetensorsFile, map_location: Any, mmap: bool | None, allotment: Allotment) -> None:
        self._file = file
        self._limit = allotment.left
        self._map_location = map_location
        self._meta = is_fake() or is_meta(map_location)
        self._restore = restorer(map_location)
        mapped = default_mmap(file.kind, file.source) if mmap is None else mmap
        self._whole = map_whole(file.source) if mapped and not self._meta else None
        self._outlines = file.outlines if isinstance(file, CutSafetensorsFile) else {}

    @property
    def names(self) -> Iterable[str]:
        return (*self._file.rows, *self._outlines)

    def info(self, name: str) -> TensorInfo:
        if name in self._outlines:
            dtype, shape = self._outlines[name]
            return TensorInfo(name, shape, dtype)
        return row_info(self._file.rows[name])

    def tensor(self, name: str) -> torch.Tensor:
        if isinstance(self._file, CutSafetensorsFile) and name in self._file.lost:
            raise FormatError(self._file.lost[name], Reason.TRUNCATED)
        row = self._file.rows[name]
        if self._meta:
            return without_data(row, self._map_location)
        storage = self._restore(self._file.read([name], Allotment(self._limit), self._whole)[name], "cpu")
        made = torch.empty(0, dtype=row.dtype, device=storage.device)
        return made.set_(storage, 0, row.shape, contiguous_strides(row.shape))


def row_info(row: TensorEntry) -> TensorInfo:
    """What a `.safetensors` header says of a tensor."""
    strides = contiguous_strides(row.shape)
    return TensorInfo(row.name, row.shape, row.dtype, strides, 0, nbytes=row.nbytes, storages=(row.name,))


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Those that torch gives a new tensor."""
    strides: list[int] = []
    step = 1
    for count in reversed(shape):
        strides.append(step)
        step *= max(count, 1)
    return tuple(reversed(strides))
