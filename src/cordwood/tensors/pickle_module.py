"""A pickle module for callers of ``torch.save``: tensors go through the codecs, inside the pickle.

::

    torch.save(obj, "x.pt", pickle_module=cw.pickle_module)
    obj = torch.load("x.pt", pickle_module=cw.pickle_module, weights_only=False)

Only reachable bytes are written, each once, and what shares memory still does after loading. Torch lets another pickle
module load only with ``weights_only=False``; so the Unpickler of this one keeps to torch's list of safe names by
itself, and to what the user added with ``torch.serialization.add_safe_globals``. Reading needs Cordwood; use
``cw.save`` for files that everybody can read. ``dump``, ``dumps``, ``load`` and ``loads`` work without torch.save,
too.
"""

import copyreg
import io
import pickle
from collections import deque
from collections.abc import Callable, Iterator
from pickle import DEFAULT_PROTOCOL, HIGHEST_PROTOCOL, PickleError, PicklingError, UnpicklingError
from typing import Any, Final

import torch
from torch.storage import TypedStorage, UntypedStorage

from cordwood import codecs
from cordwood.codecs import DTYPES
from cordwood.native import _native
from cordwood.tensors.content.file_content import PackedStorage, Scratch
from cordwood.tensors.content.storage_memory import bytes_of, new_storage
from cordwood.tensors.formats.cord_records import encoded_records
from cordwood.tensors.io.memory_budget import Allotment
from cordwood.tensors.loading.storages import restorer
from cordwood.tensors.saving.collect import Collected, collect, rebuilds_view
from cordwood.tensors.unpickle.allowlist import Allowed, Handled
from cordwood.tensors.unpickle.machine import Machine
from cordwood.tensors.unpickle.rebuild import RefusedPickle
from cordwood.tensors.unpickle.work_budget import Effort

__all__ = [
    "DEFAULT_PROTOCOL",
    "HIGHEST_PROTOCOL",
    "PickleError",
    "Pickler",
    "PicklingError",
    "Unpickler",
    "UnpicklingError",
    "dump",
    "dumps",
    "load",
    "loads",
]

_OLDEST_PROTOCOL = 5  # the first that writes any buffer as bytes
_GOAL: Final = "balanced"
_ASKED_AHEAD = 2  # items of a list that the pickler may have, and not have written
_Restore = Callable[[UntypedStorage, str], UntypedStorage]


class Pickler(pickle.Pickler):
    """Python's pickler, for which a tensor is its reachable bytes, encoded."""

    def __init__(self, file: Any, protocol: int | None = None, **options: Any) -> None:
        super().__init__(file, max(protocol or _OLDEST_PROTOCOL, _OLDEST_PROTOCOL), **options)
        self._collected: Collected | None = None
        self._blobs: dict[str, _Blob] = {}
        self._views = 0
        self._written: deque[pickle.PickleBuffer] = deque()
        self._bare: Iterator[str] = iter(())
        self._bare_keys: dict[int, str] = {}  # of storages that are saved by themselves, by their id

    def __init_subclass__(cls) -> None:
        # torch.save subclasses this to take storages out of the pickle, whole. They are ours: one that is saved by
        # itself must stay the memory of the tensors over it.
        outside = cls.__dict__.get("persistent_id")
        if outside is not None:
            cls.persistent_id = (  # type: ignore[method-assign]
                lambda self, obj: Pickler.persistent_id(self, obj) if _is_storage(obj) else outside(self, obj)
            )

    def persistent_id(self, obj: Any) -> Any:
        """None: nothing is kept outside the pickle. Asked for whatever is met, as often as it is met."""
        if _is_storage(obj) and self._collected is not None:
            self._bare_keys[id(obj)] = next(self._bare)
        return None

    def dump(self, obj: Any) -> None:
        """Write an object; it is pickled twice, first to learn what its tensors reach."""
        self._collected = collect(obj)
        self._blobs = {}
        self._views = 0
        self._bare, self._bare_keys = iter(self._collected.bare), {}
        self.clear_memo()  # each object stands for itself, and can be loaded without those before it
        try:
            super().dump(obj)
        finally:
            self._collected = None
            self._blobs = {}
            self._written.clear()

    def reducer_override(self, obj: Any) -> Any:
        if _is_storage(obj):
            return self._reduce_storage(obj)
        if not isinstance(obj, torch.Tensor) or type(obj) in copyreg.dispatch_table:
            return NotImplemented
        reduced = obj.__reduce_ex__(2)
        if not isinstance(reduced, tuple) or len(reduced) != 2:
            return reduced
        function, arguments = reduced
        if function is torch._tensor._rebuild_from_type_v2:
            inner, kind, inner_arguments, state = arguments
            return function, (inner, kind, self._view(inner, inner_arguments), state)
        return function, self._view(function, arguments)

    def _view(self, function: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        if self._collected is None or not rebuilds_view(function):
            return arguments
        storage, _, shape, _, *rest = arguments
        packed, offset, strides = self._collected.view(self._views)
        self._views += 1
        dtype = storage.dtype if isinstance(storage, TypedStorage) else torch.uint8
        return (_Typed(self._blob(packed), dtype), offset, shape, strides, *rest)

    def _reduce_storage(self, storage: Any) -> Any:
        if self._collected is None:
            return NotImplemented
        key = self._bare_keys[id(storage)]
        packed = next(packed for packed in self._collected.storages if packed.key == key)
        if isinstance(storage, TypedStorage):
            return rebuild_typed, (self._blob(packed), storage.dtype)
        return self._blob(packed).__reduce__()

    def _blob(self, packed: PackedStorage) -> "_Blob":
        return self._blobs.setdefault(packed.key, _Blob(packed, self._written))


class _Blob:
    """A storage, pickled once however many tensors lie over it."""

    def __init__(self, packed: PackedStorage, written: "deque[pickle.PickleBuffer]") -> None:
        self._packed = packed
        self._written = written

    def __reduce__(self) -> tuple[Any, ...]:
        packed = self._packed
        return rebuild_storage, (packed.location, packed.nbytes, _Records(packed, self._written))


class _Records:
    """The records of a storage, pickled as a list; each is made when it is written, and forgotten soon after.

    The pickler keeps whatever it wrote until it is done, so it gets buffers that can be emptied. It asks for one item
    more than it has written, and when another storage's turn comes, all of this one are written.
    """

    def __init__(self, packed: PackedStorage, written: "deque[pickle.PickleBuffer]") -> None:
        self._packed = packed
        self._written = written

    def __reduce__(self) -> tuple[Any, ...]:
        return new_records, (), None, self._each()

    def _each(self) -> Iterator[tuple[Any, ...]]:
        self._release(0)
        for record in encoded_records(self._packed, _GOAL, Scratch()):
            self._release(_ASKED_AHEAD)
            # A frame is its own; raw bytes may lie in memory that the next record is gathered into.
            data = pickle.PickleBuffer(record.data if record.coding == "frame" else bytes(record.data))
            self._written.append(data)
            yield record.offset, record.nbytes, record.coding, data, record.crc32c

    def _release(self, keep: int) -> None:
        while len(self._written) > keep:
            self._written.popleft().release()


class _Typed:
    """A storage under a dtype."""

    def __init__(self, blob: _Blob, dtype: torch.dtype) -> None:
        self._blob = blob
        self._dtype = dtype

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild_typed, (self._blob, self._dtype)


def new_records() -> list[Any]:
    """What the records of a storage are added to when they are read."""
    return []


def _is_storage(obj: Any) -> bool:
    return isinstance(obj, TypedStorage | UntypedStorage)


def rebuild_storage(
    location: Any, nbytes: Any, records: Any, *, allotment: Allotment | None = None, restore: _Restore | None = None
) -> UntypedStorage:
    """A storage out of its records; every size is checked before memory is taken."""
    if type(nbytes) is not int or nbytes < 0 or type(location) is not str or type(records) is not list:
        raise RefusedPickle("a storage of other parts than a location, a size and records")
    (allotment or Allotment(None)).take(nbytes, "a storage")
    end = 0
    for record in records:
        if (
            not isinstance(record, tuple)
            or len(record) != 5
            or type(record[0]) is not int
            or type(record[1]) is not int
        ):
            raise RefusedPickle("a record of other parts than an offset, a size and bytes")
        if not 0 <= record[0] - end < 16 or record[1] <= 0 or record[0] + record[1] > nbytes:
            raise RefusedPickle(f"a record of {record[1]} bytes at {record[0]} of a storage of {nbytes}")
        end = record[0] + record[1]
    if nbytes - end > (15 if records else 0):
        raise RefusedPickle(f"a storage of {nbytes} bytes, of which records tell {end}")
    storage = new_storage(nbytes)
    memory = bytes_of(storage)
    end = 0
    for offset, size, coding, data, crc in records:
        memory[end:offset] = 0
        end = offset + size
        _read(memory[offset:end], coding, data, crc)
    memory[end:] = 0
    if restore is None:
        restore = restorer(getattr(getattr(torch.serialization, "_serialization_tls", None), "map_location", None))
    return restore(storage, location)


def _read(out: Any, coding: Any, data: Any, crc: Any) -> None:
    if type(data) is not bytes:
        raise RefusedPickle("a record without bytes")
    if coding == "raw":
        if len(data) != len(out) or _native.crc32c(data) != crc:
            raise RefusedPickle("a raw record whose size or checksum is wrong; the file is damaged")
        memoryview(out)[:] = data
        return
    info = codecs.frame_info(data)
    if coding != "frame" or info.nbytes != len(out) or out.ctypes.data % DTYPES[info.dtype].itemsize:
        raise RefusedPickle(f"a record of coding {coding!r:.20} and {info.nbytes} bytes, in place of {len(out)}")
    codecs.decode(data, out=out.view(DTYPES[info.dtype].numpy).reshape(info.shape), threads=None)  # type: ignore[arg-type]


def rebuild_typed(storage: Any, dtype: Any) -> TypedStorage:
    """A storage under a dtype, as torch's rebuild functions take it."""
    if not isinstance(storage, UntypedStorage) or not isinstance(dtype, torch.dtype):
        raise RefusedPickle("a typed storage that is not made of a storage and a dtype")
    return TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)


class Unpickler:
    """Reads what is on the list of safe names, and refuses the rest."""

    def __init__(self, file: Any, *, encoding: str = "utf-8", **_: Any) -> None:
        self._file = file
        self._encoding = encoding
        self._hooks = Allowed(self._persistent, str(getattr(file, "name", "the pickle")))
        self._hooks.otherwise = "; this pickle module keeps to the list also with weights_only=False"
        self._allotment = Allotment(None)  # one for all storages
        self._ours = {
            f"{__name__}.rebuild_storage": Handled("rebuild_storage", self._rebuild_storage, measured=True),
            f"{__name__}.rebuild_typed": Handled("rebuild_typed", rebuild_typed),
            f"{__name__}.new_records": Handled("new_records", new_records),
        }

    def find_class(self, module: str, name: str) -> Any:
        """What a name stands for, if it is on the list; torch.load overrides this, and asks it for the rest."""
        return self._ours.get(f"{module}.{name}") or self._hooks.find_global(module, name)

    def persistent_load(self, identity: Any) -> Any:
        """torch.load puts its own in place of this."""
        raise UnpicklingError(f"a persistent id, {type(identity).__name__}, outside of a file of torch's")

    def _rebuild_storage(self, effort: Effort, location: Any, nbytes: Any, records: Any) -> UntypedStorage:
        restore = _told_to(self.persistent_load)
        storage = rebuild_storage(location, nbytes, records, allotment=self._allotment, restore=restore)
        effort.earn(storage, storage.nbytes())
        return storage

    def _persistent(self, identity: Any) -> Any:
        return self.persistent_load(identity)

    def load(self) -> Any:
        """One object; the file is left behind its end."""
        seekable = getattr(self._file, "seekable", None)
        start = self._file.tell() if seekable is not None and seekable() else None
        data = self._file.read()
        if not data:
            raise EOFError("Ran out of input")  # as pickle does: programs read objects until they see it
        self._hooks.effort = Effort(len(data), self._allotment.left)
        machine = Machine(data, _Finding(self._hooks, self), self._hooks.where, encoding=self._encoding)
        value = machine.run()
        if start is not None:
            self._file.seek(start + machine.position)
        return value


def _told_to(persistent_load: Any) -> _Restore | None:
    """What torch.load does with a storage's location: in files of the old format, only its own function knows."""
    known = getattr(getattr(persistent_load, "__code__", None), "co_freevars", ())
    if "restore_location" not in known:
        return None
    restore: _Restore = persistent_load.__closure__[known.index("restore_location")].cell_contents
    return restore


class _Finding:
    """The hooks of the list, with names looked up where torch can have its say."""

    def __init__(self, hooks: Allowed, unpickler: Unpickler) -> None:
        self.find_global = unpickler.find_class
        self.call = hooks.call
        self.make = hooks.make
        self.build = hooks.build
        self.persistent = hooks.persistent
        self.extend = hooks.extend
        self.update = hooks.update


def dump(obj: Any, file: Any, protocol: int | None = None, **options: Any) -> None:
    """Write an object to a file."""
    Pickler(file, protocol, **options).dump(obj)


def dumps(obj: Any, protocol: int | None = None, **options: Any) -> bytes:
    """An object as bytes."""
    file = io.BytesIO()
    dump(obj, file, protocol, **options)
    return file.getvalue()


def load(file: Any, **options: Any) -> Any:
    """Read an object from a file."""
    return Unpickler(file, **options).load()


def loads(data: Any, **options: Any) -> Any:
    """Read an object from bytes."""
    return load(io.BytesIO(data), **options)
