"""Identifies a transform by name and hash, so that a later run can see whether it is still the same.

>>> identity_of(prepare, version="2")
{"name": "mypkg.prep:prepare", "hash": "6b1e...", "version": "2"}

The hash covers the source of the function without its comments, what it is bound to (defaults, closures, arguments of
a partial, the state of an object), and the functions, classes and values of the user's own modules that it uses by
name, and theirs in turn. What comes from installed packages counts by its name alone. Nothing in it depends on
addresses, on Python's random hashes, on the process, or on whether a script runs or is imported; and what is not code
or a value (a lock, an open file) counts by its type.
"""

import functools
import hashlib
import inspect
import os
import random
import struct
import sys
from collections.abc import Iterable, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt
import torch

from cordwood.packing.transform.function_source import Used, closure_values, source_of, used_globals, without_comments
from cordwood.sources import MAIN, is_own_file, module_name

_DEEPEST = 60
_MOST_OF_DATA = 1 << 20  # bytes of an array
_BLOCK = 4096
_MOST_ITEMS = 256
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))


class TransformIdentity(TypedDict):
    """What a job records of its transform."""

    name: str | None
    hash: str
    version: str | None


def identity_of(transform: Any, version: str | None = None) -> TransformIdentity:
    """Name and hash of a callable, of a mapping of field names to callables, or of None, which changes nothing."""
    return {
        "name": None if transform is None else _name_of(transform),
        "hash": _Digester(_own_packages(transform)).digest(transform),
        "version": version,
    }


class Contents(NamedTuple):
    """Hashes of an object: of its code and state, and of the text of its functions alone."""

    everything: str
    code: str


def contents_of(origin: Any) -> Contents:
    """Hashes of the object that samples come from: of its code and state as for a transform, of large data a part.

    ::

        contents_of(dataset).everything     # another one for the same class with other arguments
        contents_of(dataset).code           # the same one: no value counts, so a dataset may grow
    """
    digester = _Digester(frozenset(), most=_MOST_OF_DATA)
    everything = digester.digest(origin)
    code = "\0".join(sorted(digester.code)).encode("utf-8", "surrogatepass")
    return Contents(everything, hashlib.blake2b(code, digest_size=16).hexdigest())


def difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """In words, how a transform differs from the one of before; None if it is the same."""
    if before.get("name") != now.get("name"):
        return f"the transform was {before.get('name') or 'none'} and is {now.get('name') or 'none'} now"
    if before.get("version") != now.get("version"):
        return f"the transform's version was {before.get('version')!r} and is {now.get('version')!r} now"
    if before.get("hash") != now.get("hash"):
        return f"the source of the transform {now.get('name')}, or a function or value that it uses, has changed"
    return None


# ---- names -----------------------------------------------------------------------------------------------------------


def _name_of(transform: Any) -> str:
    """A name for people: ``module:qualified.name``, that of the type for an object."""
    if isinstance(transform, Mapping):
        return ", ".join(f"{key}={_name_of(value)}" for key, value in transform.items())
    if isinstance(transform, functools.partial):
        return f"functools.partial({_name_of(transform.func)})"
    if isinstance(transform, MethodType):
        return f"{_name_of(transform.__self__)}.{transform.__name__}"
    if not hasattr(transform, "__qualname__"):
        transform = type(transform)
    return _full_name(transform)


def _full_name(named: Any) -> str:
    return f"{module_name(named)}:{named.__qualname__}"


def _own_packages(transform: Any) -> frozenset[str]:
    """Packages that count as the user's even if they are installed: those that the transform itself is from."""
    found = set()
    for one in transform.values() if isinstance(transform, Mapping) else [transform]:
        inner = inspect.unwrap(one) if callable(one) else one
        while isinstance(inner, functools.partial | MethodType):
            inner = inner.func if isinstance(inner, functools.partial) else inner.__func__
        if isinstance(inner, FunctionType):
            found.add((inner.__module__ or "").partition(".")[0])
    return frozenset(found)


# ---- the walk --------------------------------------------------------------------------------------------------------


class _Digester:
    """Makes a digest of everything that a transform is made of.

    Every part has a digest of its own, so it does not matter whether two equal parts are one object: what the compiler
    shares differs between a fresh module and one from its cache.
    """

    def __init__(self, own: frozenset[str], most: int | None = None) -> None:
        """`own` are packages that count as the user's; of larger data about `most` items or bytes are looked at."""
        self._hash = hashlib.blake2b(digest_size=16)
        self._own = own
        self._most = most
        self._digests: dict[int, bytes] = {}
        self._kept: list[Any] = []  # so that no two things have one id
        self.code: set[str] = set()  # names and texts of the user's functions that were found

    def digest(self, value: Any) -> str:
        self._feed(value, 0)
        return self._hash.hexdigest()

    def _put(self, tag: str, data: bytes | str = b"") -> None:
        raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        self._hash.update(struct.pack("<16sQ", tag.encode(), len(raw)))
        self._hash.update(raw)

    def _feed(self, value: Any, depth: int) -> None:
        if type(value) in _PLAIN:
            self._put(type(value).__name__, repr(value))
        else:
            self._put("part", self._digest(value, depth))

    def _digest(self, value: Any, depth: int) -> bytes:
        known = self._digests.get(id(value))
        if known is not None:
            return known
        self._digests[id(value)] = b"around"  # what holds itself, or a function that calls itself
        self._kept.append(value)
        outer, self._hash = self._hash, hashlib.blake2b(digest_size=16)
        if depth >= _DEEPEST:
            self._put("deep", _full_name(type(value)))
        elif not self._feed_code(value, depth) and not self._feed_data(value, depth):
            self._feed_object(value, depth)
        found = self._digests[id(value)] = self._hash.digest()
        self._hash = outer
        return found

    def _feed_all(self, tag: str, values: Any, depth: int) -> None:
        values = list(values)
        self._put(tag, str(len(values)))
        for place in self._places(len(values), _MOST_ITEMS):
            self._feed(values[place], depth + 1)

    def _places(self, count: int, most: int) -> Iterable[int]:
        """All, or if that is too much the first, the last, and some between them."""
        if self._most is None or count <= most:
            return range(count)
        return (place * (count - 1) // (most - 1) for place in range(most))

    # ---- code

    def _feed_code(self, value: Any, depth: int) -> bool:
        if isinstance(value, FunctionType):
            self._function(value, depth)
        elif isinstance(value, CodeType):
            self._code(value, depth)
        elif isinstance(value, MethodType):
            self._feed_all("method", (value.__func__, value.__self__), depth)
        elif isinstance(value, functools.partial):
            self._feed_all("partial", (value.func, value.args, value.keywords), depth)
        elif isinstance(value, ModuleType):
            self._put("module", value.__name__)
        elif isinstance(value, type):
            self._class(value, depth)
        elif isinstance(value, staticmethod | classmethod):
            self._feed_all(type(value).__name__, (value.__func__,), depth)
        elif isinstance(value, property):
            self._feed_all("property", (value.fget, value.fset, value.fdel), depth)
        elif isinstance(value, BuiltinFunctionType):
            owner = value.__self__
            bound = () if owner is None or isinstance(owner, ModuleType) else (owner,)
            self._put("builtin", _full_name(value))
            self._feed_all("bound", bound, depth)
        elif isinstance(getattr(value, "__wrapped__", None), FunctionType):  # functools.lru_cache, and others in C
            self._feed_all("wrapper", (type(value), value.__wrapped__), depth)
        else:
            return False
        return True

    def _function(self, function: FunctionType, depth: int) -> None:
        self._put("function", _full_name(function))
        if depth and not self._is_own(function.__module__):
            return
        code = function.__code__
        text = source_of(function)
        if text is None:
            self._code(code, depth)
        else:
            text = without_comments(text)
            self._put("source", text)
        self.code.add(f"{_full_name(function)} {code.co_code.hex() if text is None else text}")
        self._feed_all("defaults", (function.__defaults__, function.__kwdefaults__), depth)
        self._feed_all("closure", closure_values(function), depth)
        for used in used_globals(code, function.__globals__):
            self._put("uses", used.name)
            if self._counts(used):
                self._feed(used.value, depth + 1)
        wrapped = getattr(function, "__wrapped__", None)
        if isinstance(wrapped, FunctionType):
            self._feed_all("wrapped", (wrapped,), depth)

    def _code(self, code: CodeType, depth: int) -> None:
        """The compiled form, where the source cannot be had: what was typed into an interpreter, say."""
        self._put("code", code.co_code)
        self._feed_all("names", (code.co_names, code.co_varnames, code.co_freevars, code.co_argcount), depth)
        self._feed_all("constants", code.co_consts, depth)

    def _class(self, kind: type, depth: int) -> None:
        self._put("class", _full_name(kind))
        for each in kind.__mro__:
            if not self._is_own(each.__module__):
                continue
            self._put("base", _full_name(each))
            for name, value in list(vars(each).items()):  # a look at one may add others
                code = isinstance(value, FunctionType | staticmethod | classmethod | property)
                if code or (not name.startswith("__") and _is_plain(value)):
                    self._put("attribute", name)
                    self._feed(value, depth + 1)

    def _counts(self, used: Used) -> bool:
        """Whether what is used counts by its content: it is no module, and not what an installed package has made."""
        if isinstance(used.value, FunctionType | type):
            return self._is_own(used.value.__module__)
        return not isinstance(used.value, ModuleType) and (used.module is None or self._is_own(used.module))

    def _is_own(self, module_name: str | None) -> bool:
        if module_name is None:
            return False
        if module_name.partition(".")[0] == "cordwood":
            return False  # also in a checkout: a new version of it does not change what a transform is
        if module_name in MAIN or module_name.partition(".")[0] in self._own:
            return True
        module = sys.modules.get(module_name)
        file = getattr(module, "__file__", None)
        if file is None:
            # Neither file nor specification: made by exec or the like, and so the user's. Otherwise it is built in.
            return module is None or getattr(module, "__spec__", None) is None
        return is_own_file(file)

    # ---- data

    def _feed_data(self, value: Any, depth: int) -> bool:
        if type(value) in (tuple, list):
            self._feed_all(type(value).__name__, value, depth)
        elif type(value) in (set, frozenset):
            self._put(type(value).__name__, b"".join(sorted(self._digest(item, depth + 1) for item in value)))
        elif type(value) is dict:
            self._feed_all("dict", (part for item in value.items() for part in item), depth)
        elif isinstance(value, torch.Tensor):
            self._tensor(value)
        elif isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
            array = np.ascontiguousarray(value)
            self._put("array", f"{array.dtype.str} {np.shape(value)}")
            self._bytes(array.reshape(-1).view(np.uint8))
        elif isinstance(value, torch.nn.Module):
            self._module(value, depth)
        elif inspect.isgenerator(value):
            self._code(value.gi_code, depth)
            self._feed_all("locals", [] if value.gi_frame is None else [dict(value.gi_frame.f_locals)], depth)
        elif isinstance(value, _STATES):
            self._put("state", _full_name(type(value)))
        else:
            return False
        return True

    def _tensor(self, tensor: torch.Tensor) -> None:
        self._put("tensor", f"{tensor.dtype} {tuple(tensor.shape)} {tensor.layout}")
        if tensor.layout is torch.strided and tensor.device.type != "meta" and not tensor.is_quantized:
            plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
            self._bytes(plain.reshape(-1).view(torch.uint8).numpy())

    def _bytes(self, data: npt.NDArray[np.uint8]) -> None:
        if self._most is not None and len(data) > self._most:
            places = self._places(len(data) - _BLOCK + 1, self._most // _BLOCK)
            blocks = (data[place : place + _BLOCK] for place in places)
            self._put("some bytes", b"".join(block.tobytes() for block in blocks))
        else:
            self._put("bytes", data.tobytes())

    def _module(self, module: torch.nn.Module, depth: int) -> None:
        """Without what torch itself keeps in a module, which differs between its versions."""
        self._put("nn.Module")
        self._feed(type(module), depth + 1)
        inside = vars(module)
        state = {name: value for name, value in inside.items() if not name.startswith("_")}
        self._feed_all("state", (state, *(dict(inside[name]) for name in _MODULE_PARTS)), depth)

    def _feed_object(self, value: Any, depth: int) -> None:
        """An object is its class and what pickling would take down of it."""
        self._put("object")
        self._feed(type(value), depth + 1)
        try:
            reduced = value.__reduce_ex__(4)
        except Exception:  # whatever the object's own method raises: a lock or a file is told by its type
            return
        if isinstance(reduced, str):
            self._put("global", reduced)
            return
        parts = [list(part) if number >= 3 and part is not None else part for number, part in enumerate(reduced[:5])]
        self._feed_all("reduced", parts, depth)


_MODULE_PARTS = ("_parameters", "_buffers", "_modules")
# What is another one in every process, and no part of what the transform is.
_STATES = (
    random.Random,
    np.random.Generator,
    np.random.RandomState,
    np.random.BitGenerator,
    torch.Generator,
    type(os.environ),
)


def _is_plain(value: Any, depth: int = 4) -> bool:
    if isinstance(value, _PLAIN):
        return True
    if not depth or not isinstance(value, tuple | list | dict | set | frozenset):
        return False
    items = (*value, *value.values()) if isinstance(value, dict) else value
    return all(_is_plain(item, depth - 1) for item in items)
