"""Pickles an object once, and records which bytes of which storages its tensors reach.

::

    parcel = collect(obj)

The offsets, strides and storage sizes that go into the pickle depend on all views of a storage, of which more may come
later. So the pickler writes a token in their place, an integer that occurs nowhere else, and the tokens are replaced
when all views are known. A tensor that covers its storage, as most do, needs no token: nothing can be left out.
Tensors whose memory turns out to be seen under two dtypes, or through two storages, need another form of pickle; only
then the object is pickled a second time.
"""

import copyreg
import gc
import io
import pickle
import re
import secrets
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from types import BuiltinFunctionType, FunctionType, NoneType
from typing import Any

import torch
from torch.storage import TypedStorage, UntypedStorage

from cordwood.errors import UsageError
from cordwood.tensors.content.file_content import PackedStorage, Parcel
from cordwood.tensors.layout.reachable import Placed, StorageLayout, View, in_one_piece, lay_out
from cordwood.tensors.saving.arena import Arena, Arenas
from cordwood.tensors.saving.pickle_codes import integer, integers
from cordwood.tensors.unpickle.allowlist import full_name

PROTOCOL = 2  # the newest that torch.load reads with weights_only=True
_TRIES = 4
# A token is a long of 16 bytes: an index, random bytes, and a last byte that keeps it positive and no shorter.
_NONCE = secrets.token_bytes(11) + b"\x55"
_TOKEN = re.compile(rb"\x8a\x10(.{4})" + re.escape(_NONCE), re.DOTALL)
TRIPWIRE = "tripwire"
_PLAIN = frozenset((NoneType, bool, int, float, str, tuple, list, dict, OrderedDict, FunctionType, type, torch.Tensor))


class _StorageRef:
    """Stands for a storage in the arguments of one view."""

    __slots__ = ("arena", "dtype")

    def __init__(self, arena: Arena, dtype: torch.dtype) -> None:
        self.arena = arena
        self.dtype = dtype


class _Tripwire:
    """Stands for the storage of the tripwire."""


class Tokens:
    """Integers that are replaced after pickling."""

    def __init__(self) -> None:
        self.meanings: list[Any] = []

    def new(self, meaning: Any) -> int:
        """An integer that stands for `meaning`."""
        self.meanings.append(meaning)
        return int.from_bytes((len(self.meanings) - 1).to_bytes(4, "little") + _NONCE, "little")

    def replace(self, data: bytes, codes: Sequence[bytes]) -> bytes:
        """The pickle with the n-th code in place of the n-th token."""
        return _TOKEN.sub(lambda match: codes[int.from_bytes(match[1], "little")], data)


class Collector(pickle.Pickler):
    """Pickles as torch.save does, and keeps account of what is seen."""

    def __init__(self, file: io.BytesIO, arenas: Arenas, *, legacy: bool, tripwire: bool) -> None:
        super().__init__(file, PROTOCOL)
        self.arenas = arenas
        self.is_legacy = legacy
        self.tripwire = tripwire
        self.tokens = Tokens()
        self.places: list[tuple[str, int]] = []  # of each tensor: its storage's key, and its number there
        self.bare: list[Arena] = []  # storages that are saved themselves
        self.itemsizes: dict[str, int] = {}
        self.globals: list[str] = []  # the full names of classes, functions and constants that are saved by name

    def persistent_id(self, obj: Any) -> Any:
        if type(obj) in _PLAIN:  # asked for every object, so this must be fast
            return None
        if type(obj) is _StorageRef:
            arena = obj.arena
            storage_type = None if arena.is_mixed else _storage_type(obj.dtype)
            return self._identity(storage_type, arena, 1 if storage_type is None else obj.dtype.itemsize)
        if isinstance(obj, TypedStorage):
            arena = self.arenas.of(obj._untyped_storage)
            arena.whole_as += (obj.dtype,)
            self.bare.append(arena)
            storage_type = _storage_type(obj.dtype)
            if storage_type is None:
                raise UsageError(
                    f"a storage of {obj.dtype} is saved by itself, for which torch's files have no name; "
                    "save a tensor over it instead"
                )
            return self._identity(storage_type, arena, obj.dtype.itemsize)
        if isinstance(obj, UntypedStorage):
            arena = self.arenas.of(obj)
            arena.whole_as += (torch.uint8,)
            self.bare.append(arena)
            return self._identity(None, arena, 1)
        if type(obj) is _Tripwire:
            return ("storage", torch.ByteStorage, TRIPWIRE, "cpu", self.tokens.new(("size", None, 1)))
        return None

    def _identity(self, storage_type: Any, arena: Arena, itemsize: int) -> tuple[Any, ...]:
        if storage_type is None:
            # What reads files of the old format knows no storage without a dtype; bytes do as well.
            storage_type = torch.ByteStorage if self.is_legacy else UntypedStorage
        self.itemsizes.setdefault(arena.key, itemsize)
        size = arena.nbytes // itemsize if arena.is_covered else self.tokens.new(("size", arena.key, itemsize))
        identity = ("storage", storage_type, arena.key, arena.location, size)
        return (*identity, None) if self.is_legacy else identity

    def reducer_override(self, obj: Any) -> Any:
        registered = copyreg.dispatch_table.get(type(obj))
        if registered is None and isinstance(obj, type | FunctionType | BuiltinFunctionType):
            self.globals.append(full_name(obj))
            return NotImplemented
        if registered is not None or not isinstance(obj, torch.Tensor):
            reduced = obj.__reduce_ex__(PROTOCOL) if registered is None else registered(obj)
            if isinstance(reduced, str):  # a constant, such as Ellipsis, or a function, such as numpy.add
                self.globals.append(f"{pickle.whichmodule(obj, reduced)}.{reduced}")  # type: ignore[attr-defined]
            return reduced
        reduced = obj.__reduce_ex__(PROTOCOL)
        if not isinstance(reduced, tuple) or len(reduced) != 2:
            return reduced
        function, arguments = reduced
        if function is torch._tensor._rebuild_from_type_v2:
            inner, kind, inner_arguments, state = arguments
            return function, (*self._view(inner, inner_arguments, kind), state)
        return self._view(function, arguments)

    def _view(self, function: Any, arguments: tuple[Any, ...], *kind: Any) -> tuple[Any, ...]:
        """The call that rebuilds a tensor, with tokens for what is not known yet."""
        if not rebuilds_view(function):
            return (function, *kind, arguments)
        storage, offset, shape, strides, *rest = arguments
        dtype = storage.dtype if isinstance(storage, TypedStorage) else rest[2]
        storage = storage._untyped_storage if isinstance(storage, TypedStorage) else storage
        arena = self.arenas.of(storage)
        index, itemsize = len(self.places), dtype.itemsize
        start = arena.offset_of(storage)
        view = View(start + offset * itemsize, itemsize, tuple(shape), tuple([stride * itemsize for stride in strides]))
        self.places.append((arena.key, len(arena.views)))
        covers = view.offset == 0 and in_one_piece(view) == arena.nbytes
        fits = covers or _fits(view, start + storage.nbytes())
        arena.sees(view, dtype, covers=covers, fits=fits, quantized=function is _quantized)
        if function is _v2 and (arena.is_mixed or _storage_type(dtype) is None):
            requires_grad, hooks, *metadata = rest
            function, rest = _v3, [requires_grad, hooks, dtype, *metadata]
        if self.tripwire:
            self._lay_tripwire(rest[2] if function is _quantized else rest[1])
        if not covers:
            offset, strides = self.tokens.new(("offset", index)), self.tokens.new(("strides", index))
        return function, *kind, (_StorageRef(arena, dtype), offset, shape, strides, *rest)

    def _lay_tripwire(self, hooks: Any) -> None:
        """Hang a tensor on the first tensor's empty dict of hooks, as the state of that dict: see `pt_writer`."""
        if type(hooks) is OrderedDict:
            self.tripwire = False
            hooks.__dict__["tripwire"] = _TripwireTensor(self.tokens)


class _TripwireTensor:
    """Pickles as a tensor over the tripwire's storage."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens

    def __reduce__(self) -> tuple[Any, ...]:
        shape = self.tokens.new(("trip shape",))
        return torch._utils._rebuild_tensor_v2, (_Tripwire(), 0, shape, (1,), False, OrderedDict())


def _fits(view: View, limit: int) -> bool:
    if not all(view.shape):
        return True
    end = view.offset + view.itemsize + sum((n - 1) * s for n, s in zip(view.shape, view.strides, strict=True))
    return end <= limit


@cache
def _storage_type(dtype: torch.dtype) -> Any:
    """The class that stands for a typed storage in torch's files; None for dtypes newer than those classes."""
    name = torch.storage._dtype_to_storage_type_map().get(dtype)
    return None if name is None else getattr(torch, name)


def _laid_out(arena: Arena) -> StorageLayout:
    if arena.keep_whole:
        # Their sizes do not tell what they reach, or they reach beyond their storage.
        placed = tuple(Placed(view.offset, view.strides) for view in arena.views)
        return lay_out((), arena.nbytes, whole=True)._replace(placed=placed)
    try:
        return lay_out(arena.views, arena.nbytes, whole=arena.is_whole)
    except ValueError as error:  # one memory through two storages that are not a whole number of items apart
        raise UsageError(str(error)) from None


_v2: Any = torch._utils._rebuild_tensor_v2
_v3: Any = torch._utils._rebuild_tensor_v3
_quantized: Any = torch._utils._rebuild_qtensor


def rebuilds_view(function: Any) -> bool:
    """Whether a function of torch's lays a tensor over a storage, its first argument."""
    return function in (_v2, _v3, _quantized)


def collect(obj: Any, *, legacy: bool = False, tripwire: bool = False) -> "Collected":
    """Pickle `obj` and lay out what it reaches."""
    arenas = Arenas()
    for _ in range(_TRIES):
        file = io.BytesIO()
        collector = Collector(file, arenas, legacy=legacy, tripwire=tripwire)
        with no_garbage_collection():
            collector.dump(obj)
            settled, arenas_next = arenas.settle()
            if settled:
                return Collected(file.getvalue(), collector, arenas)
        arenas = arenas_next
    raise UsageError(
        "the object makes new tensors each time it is pickled, over memory that it shares with others; "
        "save what its __getstate__ or __reduce__ gives instead"
    )


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Everything that is made here stays until the end: looking through it for garbage took half of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Collected:
    """A pickle whose tokens are not replaced yet, and the storages it needs."""

    def __init__(self, data: bytes, collector: Collector, arenas: Arenas) -> None:
        self._data = data
        self._tokens = collector.tokens
        self._places = collector.places
        self._itemsizes = collector.itemsizes
        self.globals = collector.globals
        self.bare = [arena.key for arena in collector.bare]
        self.storages = [
            PackedStorage(arena.key, _laid_out(arena), arena.views, arena.dtypes, arena.read, arena.location)
            for arena in arenas
        ]
        self._by_key = {storage.key: storage for storage in self.storages}
        self.has_tripwire = any(meaning[0] == "trip shape" for meaning in self._tokens.meanings)

    @property
    def nbytes(self) -> int:
        """The bytes of all storages."""
        return sum(storage.nbytes for storage in self.storages)

    def view(self, index: int) -> tuple[PackedStorage, int, tuple[int, ...]]:
        """Storage, offset and strides, in items, of the n-th tensor."""
        key, mine = self._places[index]
        packed = self._by_key[key]
        placed, itemsize = packed.layout.placed[mine], packed.views[mine].itemsize
        return packed, placed.offset // itemsize, tuple(stride // itemsize for stride in placed.strides)

    def parcel(self, trip_bytes: int = 0) -> Parcel:
        """The finished parcel, with a tripwire of that many bytes if one was laid."""
        codes = [self._code(meaning, trip_bytes) for meaning in self._tokens.meanings]
        pickled = self._tokens.replace(self._data, codes)
        return Parcel(pickled, self.storages, self._itemsizes, TRIPWIRE if self.has_tripwire else None)

    def _code(self, meaning: tuple[Any, ...], trip_bytes: int) -> bytes:
        match meaning:
            case ("size", None, _):
                return integer(trip_bytes)
            case ("size", key, itemsize):
                return integer(self._by_key[key].nbytes // itemsize)
            case ("trip shape",):
                return integers((trip_bytes,))
            case ("offset", index):
                return integer(self.view(index)[1])
            case (_, index):
                return integers(self.view(index)[2])
        raise AssertionError(meaning)

    def snapshot(self) -> None:
        """Copy every reachable byte, so that the object may go on changing."""
        self.storages = [storage.snapshot() for storage in self.storages]
        self._by_key = {storage.key: storage for storage in self.storages}  # and let go of the originals
