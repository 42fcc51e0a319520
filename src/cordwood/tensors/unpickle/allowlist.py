"""What a pickle may do when it is loaded safely: rebuild tensors, and hold them in plain containers.

The names are torch's own list for ``weights_only=True``, and what the user added to it with
``torch.serialization.add_safe_globals``. But no function of that list is called as it is: sizes and strides, offsets
and indices come from the file, so each is checked here before memory is taken or touched.
"""

import functools
from collections import Counter, OrderedDict
from collections.abc import Callable
from types import BuiltinFunctionType, BuiltinMethodType, FunctionType, MethodType
from typing import Any, Final, NoReturn

import torch
from torch.storage import TypedStorage

from cordwood.common.resources import physical_memory
from cordwood.common.text import RefusedPickle, brief, reason_of
from cordwood.errors import CordwoodError, FormatError, UnsafePickleError
from cordwood.tensors.content.dtypes import storage_dtypes
from cordwood.tensors.unpickle.rebuild import MEASURED, REBUILD
from cordwood.tensors.unpickle.renamed import moved
from cordwood.tensors.unpickle.work_budget import Effort


class StorageKind:
    """A storage class, as it stands in a persistent id."""

    __slots__ = ("dtype", "name")

    def __init__(self, name: str, dtype: torch.dtype) -> None:
        self.name = name
        self.dtype = dtype


class Handled:
    """A function of the list, by a handler of ours; if it `is_measured`, it takes an `Effort` first."""

    __slots__ = ("handler", "is_measured", "name")

    def __init__(self, name: str, handler: Callable[..., Any], *, measured: bool = False) -> None:
        self.name = name
        self.handler = handler
        self.is_measured = measured


def _encode(effort: Effort, value: Any, encoding: Any) -> bytes:
    # How protocol 2 writes bytes.
    if type(value) is not str or type(encoding) is not str or encoding not in ("latin1", "latin-1"):
        raise RefusedPickle(f"_codecs.encode with {brief(encoding)}, where only latin1 is used for bytes")
    effort.copy(len(value), "bytes")
    return value.encode("latin1")


def _bytearray(effort: Effort, *arguments: Any) -> bytearray:
    match arguments:
        case ():
            return bytearray()
        case (bytes() as raw,):
            effort.copy(len(raw), "a bytearray")
            return bytearray(raw)
        case (str() as text, "latin-1" | "latin1"):
            effort.copy(2 * len(text), "a bytearray")
            return bytearray(text, "latin1")
    raise RefusedPickle("a bytearray that is not made of bytes")


_AN_ITEM = 128  # bytes that an item takes in a dict


def _container(kind: Callable[..., Any], *, pairs: bool = False) -> Callable[..., Any]:
    def make(effort: Effort, *arguments: Any) -> Any:
        if not arguments:
            return kind()
        (items,) = arguments
        if type(items) not in (list, tuple, dict, set):
            raise RefusedPickle(f"a {kind.__name__} of a {type(items).__name__}")
        effort.copy(_AN_ITEM * len(items), f"a {kind.__name__} of {len(items)} items")
        if pairs and type(items) is not dict:
            if any(type(pair) not in (list, tuple) or len(pair) != 2 for pair in items):
                raise RefusedPickle(f"a {kind.__name__} of other things than pairs")
            effort.keys.check(key for key, _ in items)
        else:
            effort.keys.check(items)
        return kind(items)

    return make


def _complex(*parts: Any) -> complex:
    if len(parts) > 2 or any(type(part) not in (int, float, complex) for part in parts):
        raise RefusedPickle("a complex number that is not made of numbers")
    return complex(*parts)


def _size(effort: Effort, numbers: Any = ()) -> torch.Size:
    if type(numbers) not in (list, tuple, torch.Size) or any(type(number) is not int for number in numbers):
        raise RefusedPickle("a torch.Size that is not made of integers")
    effort.copy(_AN_ITEM * len(numbers), "a torch.Size")
    return torch.Size(numbers)


def _device(*arguments: Any) -> torch.device:
    if not 1 <= len(arguments) <= 2 or any(type(argument) not in (int, str) for argument in arguments):
        raise RefusedPickle("a torch.device that is not made of a name and an index")
    return torch.device(*arguments)


_LAYOUTS: Final = {
    str(layout): layout
    for layout in (
        torch.strided,
        torch.sparse_coo,
        torch.sparse_csr,
        torch.sparse_csc,
        torch.sparse_bsr,
        torch.sparse_bsc,
        torch.jagged,
        torch._mkldnn,  # type: ignore[attr-defined]
    )
}


def _layout(name: Any) -> torch.layout:
    if type(name) is not str or name not in _LAYOUTS:
        raise RefusedPickle(f"the layout {brief(name)}")
    return _LAYOUTS[name]


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **REBUILD,
    "_codecs.encode": _encode,
    "builtins.bytearray": _bytearray,
    "builtins.complex": _complex,
    "builtins.set": _container(set),
    "collections.Counter": _container(Counter),
    "collections.OrderedDict": _container(OrderedDict, pairs=True),
    "torch.Size": _size,
    "torch.device": _device,
    "torch.serialization._get_layout": _layout,
}
_CONTAINERS = [_FUNCTIONS[name] for name in ("collections.OrderedDict", "collections.Counter", "builtins.set")]
_MEASURED = {_encode, _bytearray, _size, *_CONTAINERS, *MEASURED}
_TYPES: Final[dict[str, Any]] = {
    "torch.Tensor": torch.Tensor,
    "torch._tensor.Tensor": torch.Tensor,
    "torch.nn.parameter.Parameter": torch.nn.Parameter,
}


def _values() -> dict[str, Any]:
    found = dict(_TYPES)
    for name in dir(torch):
        value = getattr(torch, name, None)
        if isinstance(value, torch.dtype | torch.qscheme):
            found[str(value)] = value
    for name, dtype in storage_dtypes().items():
        for module in ("torch", "torch.storage", "torch.cuda"):
            found[f"{module}.{name}"] = StorageKind(name, dtype)
    for name, handler in _FUNCTIONS.items():
        found[name] = Handled(name, handler, measured=handler in _MEASURED)
    return found


_BLOCKED = ("nt", "os", "posix", "sys")  # torch refuses these modules, too, even where the user allows a name
_KNOWN: dict[str, Any] = {}


def known() -> dict[str, Any]:
    """Everything on the list, by full name."""
    if not _KNOWN:
        _KNOWN.update(_values())
    return _KNOWN


def user_allowed() -> dict[str, Any]:
    """What the user trusts, by full name."""
    listed: list[Any] = getattr(torch.serialization, "get_safe_globals", list)()
    found = {}
    for entry in listed:
        value, name = entry if isinstance(entry, tuple) else (entry, None)
        found[name or full_name(value)] = value
    return found


def full_name(value: Any) -> str:
    """The name by which a class or a function is imported; a built-in method has no module but its class's."""
    module = value.__module__
    if module is None and hasattr(value, "__self__"):
        owner = value.__self__
        module = (owner if isinstance(owner, type) else type(owner)).__module__
    return f"{module}.{value.__qualname__}"


class Allowed:
    """Hooks that rebuild tensors, and do nothing else.

    `size` is that of the pickle, and `room` how many bytes may be reserved beside the storages.
    """

    otherwise = ", or load with weights_only=False, which runs code from the file"

    def __init__(
        self,
        storage: Callable[[tuple[Any, ...]], TypedStorage],
        where: str,
        *,
        size: int = 0,
        room: int | None = None,
    ) -> None:
        self.storage = storage
        self.where = where
        self.effort = Effort(size, physical_memory() if room is None else room)
        self._known = known()

    @functools.cached_property
    def _trusted(self) -> dict[str, Any]:
        return user_allowed()

    def refuse(self, what: str) -> NoReturn:
        """Say what was found, and how to allow it."""
        raise UnsafePickleError(
            f"{self.where}: the file asks for {what}, which is not on the list of what may be loaded safely. If you "
            f"trust the file, allow it with torch.serialization.add_safe_globals([...]){self.otherwise}"
        )

    def find_global(self, module: str, name: str) -> Any:
        module, name = moved(module, name)
        full = f"{module}.{name}"
        found = self._known.get(full)
        if found is None:
            if module in _BLOCKED:
                advice = self.otherwise.replace(", or load", ". If you trust the file, load it")
                raise UnsafePickleError(
                    f"{self.where}: the file asks for the global {full}, which is not on the list of what may be "
                    f"loaded safely; add_safe_globals cannot allow names of the module {module}{advice}"
                )
            if full not in self._trusted:
                self.refuse(f"the global {full}")
            found = self._trusted[full]
        return found

    def trusts(self, value: Any) -> bool:
        """Whether the user named this very object, or this method: each access makes a new method object."""
        if isinstance(value, MethodType | BuiltinMethodType):
            return any(value == trusted for trusted in self._trusted.values())
        return any(value is trusted for trusted in self._trusted.values())

    def call(self, function: Any, arguments: Any) -> Any:
        if type(function) is Handled:
            try:
                effort = (self.effort,) if function.is_measured else ()
                return function.handler(*effort, *arguments)
            except CordwoodError:
                raise
            except RefusedPickle as error:
                raise FormatError(f"{self.where}: {function.name}: {error}") from None
            except Exception as error:  # whatever torch says to numbers that make no sense
                raise FormatError(f"{self.where}: {function.name}: {reason_of(error)}") from error
        if self.trusts(function):
            return function(*arguments)
        return self.refuse(f"a call of {_named(function)}")

    def make(self, cls: Any, arguments: Any, keywords: Any) -> Any:
        if self.trusts(cls):
            return cls.__new__(cls, *arguments, **keywords)
        if type(cls) is Handled and cls.handler in _CONTAINERS and not arguments and not keywords:
            return cls.handler(self.effort)
        if cls is torch.nn.Parameter and len(arguments) in (1, 2) and isinstance(arguments[0], torch.Tensor):
            return torch.nn.Parameter(*arguments)
        return self.refuse(f"a new {_named(cls)}")

    def build(self, instance: Any, state: Any) -> Any:
        kind = type(instance)
        if kind in (OrderedDict, Counter) and type(state) is dict and all(type(key) is str for key in state):
            instance.__dict__.update(state)
        elif self.trusts(kind):
            _set_state(instance, state)
        else:
            self.refuse(f"the state of a {kind.__module__}.{kind.__qualname__}")
        return instance

    def persistent(self, identity: Any) -> TypedStorage:
        storage = self.storage(identity)
        if isinstance(storage, TypedStorage):
            self.effort.earn(storage, storage._untyped_storage.nbytes())
        return storage

    def extend(self, target: Any, items: list[Any]) -> None:
        if not self.trusts(type(target)):
            self.refuse(f"items added to a {type(target).__name__}")
        add = getattr(target, "append", None) or target.add
        for item in items:
            add(item)

    def update(self, target: Any, items: list[Any]) -> None:
        if type(target) not in (OrderedDict, Counter) and not self.trusts(type(target)):
            self.refuse(f"keys set in a {type(target).__name__}")
        for index in range(0, len(items), 2):
            target[items[index]] = items[index + 1]


def _named(value: Any) -> str:
    """What a pickle wants to call, in a few words."""
    if type(value) in (Handled, StorageKind):
        return str(value.name)
    is_named = isinstance(value, type | FunctionType | BuiltinFunctionType | MethodType)
    return full_name(value) if is_named else brief(value)


def _set_state(instance: Any, state: Any) -> None:
    """As pickle does for a class that the user trusts."""
    setstate = getattr(instance, "__setstate__", None)
    if setstate is not None:
        setstate(state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        instance.__dict__.update(state)
    for name, value in (slots or {}).items():
        setattr(instance, name, value)


def storage_identity(identity: Any, where: str) -> tuple[StorageKind, str, str, int, Any]:
    """(kind, key, location, numel, view) of a storage's persistent id, checked."""
    if not isinstance(identity, tuple) or len(identity) not in (5, 6) or _word(identity[0]) != "storage":
        raise FormatError(f"{where}: a persistent id that is not a storage's: {brief(identity)}")
    _, kind, key, location, numel = identity[:5]
    key, location = _word(key), _word(location)
    if type(key) is int and 0 <= key < 1 << 64:
        key = str(key)
    if type(kind) is not StorageKind or type(key) is not str or type(location) is not str or type(numel) is not int:
        raise FormatError(f"{where}: a storage's persistent id of other types than torch writes")
    if not 0 <= numel <= (1 << 62):
        raise FormatError(f"{where}: storage {brief(key)} of {brief(numel)} items")
    return kind, key, location, numel, identity[5] if len(identity) == 6 else None


def _word(value: Any) -> Any:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else value
