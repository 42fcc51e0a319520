"""The readers of stores behind one face: the plain one of the docs, its values made into torch's, and the package."""

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import cordwood
from cordwood.errors import FormatError
from cordwood.native import _native
from tests.format.support.readers import ROOT, load_reader, reader

PAGE = ROOT / "docs" / "format" / "store.md"
MOST = 100


plain = load_reader("store_reader")


@contextmanager
def native_checksums() -> Iterator[None]:
    """The plain reader with the native crc32c, for tests that read thousands of stores."""
    slow = reader.crc32c
    reader.crc32c = _native.crc32c  # type: ignore[attr-defined]
    try:
        yield
    finally:
        reader.crc32c = slow  # type: ignore[attr-defined]


def as_torch(value: Any) -> Any:
    """A value of the plain reader with torch's tensors in place of arrays."""
    if isinstance(value, plain.Tensor):
        array = value.array
        bits = array if array.itemsize > 8 or not array.ndim else array.view(f"u{array.itemsize}")
        made = torch.from_numpy(bits.copy().reshape(-1))
        return made.view(getattr(torch, value.dtype)).reshape(array.shape)
    if type(value) in (dict, OrderedDict):
        return type(value)((key, as_torch(item)) for key, item in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(as_torch, value))
    if type(value) in (list, tuple):
        return type(value)(map(as_torch, value))
    return value


def some_of(count: int) -> list[int]:
    """The numbers of all samples; of the first and the last if a damaged store tells of a great many."""
    return list(range(count)) if count <= MOST else [*range(MOST // 2), *range(count - MOST // 2, count)]


def read_plain(path: Path) -> list[Any]:
    """The samples, by the reader of the docs."""
    store = plain.Store(path)
    return [as_torch(store[number]) for number in some_of(len(store))]


def read_cordwood(path: Path) -> list[Any]:
    """The samples, by the package, one by one."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*/shards\.bin: ")  # damage is what these readers are for
        dataset = cordwood.open(path)
    return [dataset[number] for number in some_of(len(dataset))]


READERS: dict[str, Callable[[Path], list[Any]]] = {"plain": read_plain, "cordwood": read_cordwood}
REFUSALS: dict[str, Any] = {"plain": plain.BadStore, "cordwood": FormatError}
