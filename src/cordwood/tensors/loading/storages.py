"""The storages of a file as torch objects: read or mapped, and moved to their device."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.storage import TypedStorage, UntypedStorage

from cordwood.common.text import brief, reason_of
from cordwood.errors import FormatError, UsageError
from cordwood.tensors.formats.detect import PickledFile
from cordwood.tensors.formats.pt_reader import PtFile
from cordwood.tensors.formats.safetensors_reader import TensorEntry
from cordwood.tensors.io.memory_budget import Allotment
from cordwood.tensors.io.source import ByteSource
from cordwood.tensors.unpickle.allowlist import StorageKind, storage_identity

_WIDEST = 16  # bytes of the largest item
_SMALL = 1 << 20  # such a file was read whole when it was opened; mapping it would cost more than a copy


def default_mmap(kind: str, source: ByteSource) -> bool:
    """Whether a file is mapped when the caller does not say."""
    if source.path is None or source.size <= _SMALL:
        return False
    if kind in ("cord", "safetensors"):
        return True
    config = getattr(getattr(torch.utils, "serialization", None), "config", None)
    return kind == "pt" and bool(config is not None and config.load.mmap)


def map_whole(source: ByteSource) -> UntypedStorage:
    """The file as one storage: private, so writing to a tensor changes memory and never the file."""
    if source.path is None:
        raise UsageError(f"{source.name} cannot be mapped: mmap=True needs the path of a plain file")
    # A part of a file is mapped with what stands before it; the operating system reads only what is looked at.
    return torch.frombuffer(source.map_private(), dtype=torch.uint8).untyped_storage()


class Storages:
    """Makes the storage that a persistent id names."""

    def __init__(self, file: PickledFile, map_location: Any, mmap: bool | None, allotment: Allotment) -> None:
        self.file = file
        self.allotment = allotment
        self.restore = restorer(map_location)
        self.is_fake = is_fake()
        self.to_meta = self.is_fake or is_meta(map_location)
        self.whole: UntypedStorage | None = None
        if (default_mmap(file.kind, file.source) if mmap is None else mmap) and not self.to_meta:
            self.whole = map_whole(file.source)
        self._read: dict[str, UntypedStorage] = {}
        self._typed: dict[str, TypedStorage] = {}

    def prefetch(self, keys: Iterable[str]) -> None:
        """Read what will be asked for, together."""
        if not self.to_meta:
            self._read.update(self.file.read([key for key in keys if not self._maps(key)], self.allotment))

    def _maps(self, key: str) -> bool:
        if self.whole is None:
            return False
        return self.file.kind != "cord" or self.file.can_map(key)  # type: ignore[union-attr]

    def _offset(self, key: str) -> int | None:
        """Where the bytes of a storage are in a `.pt` file that holds them as they are."""
        is_plain = isinstance(self.file, PtFile) and self.file.coding(key) == "stored"
        return self.file.source.base + self.file.place(key)[0] if is_plain else None  # type: ignore[union-attr]

    def typed(self, identity: Any) -> TypedStorage:
        """For a persistent id whose class is one of ours."""
        kind, key, location, numel, view = storage_identity(identity, self.file.where)
        storage = self._typed.get(key)
        if storage is None:
            storage = self._typed[key] = self._make(kind, key, location, numel)
        elif storage._untyped_storage.nbytes() != numel * kind.dtype.itemsize:
            raise FormatError(f"{self.file.where}: storage {key[:40]} has two sizes")
        elif storage.dtype != kind.dtype:
            storage = TypedStorage(wrap_storage=storage._untyped_storage, dtype=kind.dtype, _internal=True)
        return storage if view is None else self._window(storage, view)

    def _make(self, kind: StorageKind, key: str, location: str, numel: int) -> TypedStorage:
        nbytes = numel * kind.dtype.itemsize
        if self.file.nbytes(key) != nbytes:
            raise FormatError(
                f"{self.file.source.name}: storage {key[:40]} has {self.file.nbytes(key)} bytes, and the pickle says "
                f"{numel} items of {kind.dtype} ({nbytes} bytes); the file is damaged"
            )
        if self.to_meta:
            storage = torch.UntypedStorage(nbytes, device="meta")
            # Torch reads parts of files later by this offset; and fake tensors claim the device of the file.
            storage._checkpoint_offset = self._offset(key)
            if self.is_fake:
                storage._fake_device = torch.device(location)
            return TypedStorage(wrap_storage=storage, dtype=kind.dtype, _internal=True)
        if self._maps(key):
            assert self.whole is not None  # noqa: S101 - what _maps says
            storage = self.file.mapped(key, self.whole)
            if storage.data_ptr() % (_WIDEST if kind.name == "UntypedStorage" else kind.dtype.itemsize):
                # Items that do not start at multiples of their size: a copy is safer.
                self.allotment.take(nbytes, f"{self.file.source.name}: storage {key[:40]}")
                storage = storage.clone()
        else:
            found = self._read.pop(key, None)
            storage = self.file.read([key], self.allotment)[key] if found is None else found
        if self.file.byteorder == "big" and kind.dtype.itemsize > 1:
            storage.byteswap(kind.dtype)
        return TypedStorage(wrap_storage=self.restore(storage, location), dtype=kind.dtype, _internal=True)

    def _window(self, storage: TypedStorage, view: Any) -> TypedStorage:
        """Very old files: a storage that lies over a part of another."""
        if not isinstance(view, tuple) or len(view) != 3 or any(type(part) is not int or part < 0 for part in view[1:]):
            raise FormatError(f"{self.file.where}: a storage's view is {brief(view)}")
        itemsize = storage.dtype.itemsize
        start, length = view[1] * itemsize, view[2] * itemsize
        if start + length > storage._untyped_storage.nbytes():
            raise FormatError(
                f"{self.file.where}: a view of {brief(length)} bytes at {brief(start)} of a storage of "
                f"{storage._untyped_storage.nbytes()}"
            )
        window = storage._untyped_storage[start : start + length]
        return TypedStorage(wrap_storage=window, dtype=storage.dtype, _internal=True)


def restorer(map_location: Any) -> Callable[[UntypedStorage, str], UntypedStorage]:
    """Sends a storage to the device that its location and `map_location` say, as torch.load does."""
    restore: Callable[[UntypedStorage, str], UntypedStorage] = torch.serialization._get_restore_location(map_location)

    def checked(storage: UntypedStorage, location: str) -> UntypedStorage:
        if location == "cpu" and map_location is None:
            return storage
        try:
            return restore(storage, location)
        except Exception as error:
            if callable(map_location):
                raise  # the caller's own
            if map_location is not None:
                raise UsageError(f"map_location={map_location!r}: {reason_of(error)[:300]}") from error
            raise UsageError(
                f"a storage was saved on {brief(location)}, which this machine does not have "
                f"({reason_of(error)[:160]}); load with map_location='cpu'"
            ) from error

    return checked


@contextmanager
def located(map_location: Any) -> Iterator[None]:
    """Tells torch's functions that rebuild tensors without a storage where to put them, as torch.load does."""
    local = getattr(torch.serialization, "_serialization_tls", None)
    if local is None:
        yield
        return
    before, local.map_location = local.map_location, map_location
    try:
        yield
    finally:
        local.map_location = before


def is_fake() -> bool:
    """Whether a ``FakeTensorMode`` is active."""
    return torch._guards.detect_fake_mode(None) is not None


def without_data(row: TensorEntry, map_location: Any) -> torch.Tensor:
    """A tensor of a `.safetensors` file on the meta device, or a fake one."""
    return torch.empty(row.shape, dtype=row.dtype, device="cpu" if map_location is None else map_location)


def is_meta(map_location: Any) -> bool:
    """Whether tensors are to have no memory at all."""
    if isinstance(map_location, torch.device):
        return map_location.type == "meta"
    return isinstance(map_location, str) and map_location.split(":")[0] == "meta"
