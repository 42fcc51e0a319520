"""Folders of tensor files, one sample each: .pt, .pth, .npy, .npz, .cord, .safetensors, and .pt files zipped again.

    features/a/1.pt  features/a/2.pt  features/b/3.npz

What a file holds is the sample, as `cordwood.load` gives it, without running code of the file. A lone tensor becomes
``{"tensor": tensor, "path": "a/1.pt"}``. Formats are told by content.
"""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Self

import torch

from cordwood.errors import FormatError, StorageError, UsageError
from cordwood.sources.base import Input, Source, SourceOptions
from cordwood.sources.files.links import Links, shown_path
from cordwood.sources.files.listing import Listing, list_folder
from cordwood.sources.files.numpy_file import is_numpy, load_numpy
from cordwood.sources.files.sniff import TENSORS, first_bytes, kind_of, survey
from cordwood.tensors import load

ENDINGS: Final = frozenset(b"pt pth npy npz cord safetensors".split())
FIELD = "tensor"


class TensorFolder(Source):
    """A folder of tensor files."""

    kind = TENSORS

    def __init__(self, listing: Listing, options: SourceOptions) -> None:
        self._listing = listing
        self._options = options

    @classmethod
    def recognises(cls, path: Path) -> bool:
        return path.is_dir() and bool(survey(path).kinds[TENSORS])

    @classmethod
    def open(cls, path: Path, options: SourceOptions) -> Self:
        listing = list_folder(path, _wanted, lambda file: kind_of(file) == TENSORS, follow_links=options.follow_links)
        if not len(listing):
            raise UsageError(f"{str(path)!r:.200} holds no tensor files: found {survey(path)}")
        return cls(listing, options)

    @property
    def count(self) -> int:
        return len(self._listing)

    def inputs(self, start: int = 0) -> Iterator[Input]:
        for file in self._listing.files(start):
            folder = self._listing.folders[file.folder]
            path = os.fsdecode(folder + b"/" + file.name if folder else file.name)
            yield Input(path, path, *file.facts)

    def reader(self) -> Callable[[Any], Any]:
        return _FileReader(self._listing.root.absolute(), self._options.follow_links)

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind, "path": os.fspath(self._listing.root.resolve())}

    def fingerprint(self) -> str:
        return self._listing.fingerprint()

    @property
    def notes(self) -> Sequence[str]:
        return self._listing.notes()


class _FileReader:
    def __init__(self, root: Path, follow_links: bool) -> None:
        self._root = root
        self._links = Links(root, follow_links)

    def __call__(self, path: str) -> Any:
        if wrong := self._links.wrong(path):
            raise FormatError(f"{shown_path(path)}: {wrong}")
        found = load_tensors(self._root / path, shown_path(path))
        return {FIELD: found, "path": path} if isinstance(found, torch.Tensor) else found


def load_tensors(path: Path, name: str, *, mmap: bool | None = False) -> Any:
    """What a tensor file of any format holds; errors say `name`."""
    try:
        if not path.is_file():  # a pipe would wait for ever
            raise StorageError(errno.ENOENT, "there is no such file")
        first, _ = first_bytes(path)
        return (
            load_numpy(path)
            if is_numpy(first, path.suffix)
            else load(path, map_location="cpu", weights_only=True, mmap=mmap)
        )
    except FormatError as error:
        raise FormatError(_named(error, path, name), error.reason) from error
    except UsageError as error:
        raise UsageError(_named(error, path, name)) from error
    except OSError as error:
        raise StorageError(error.errno, _named(error, path, name)) from error


def _named(error: Exception, path: Path, name: str) -> str:
    """The message with the name that the source knows the file by, in place of where it happens to lie."""
    told = getattr(error, "strerror", None) or str(error)
    return f"{name}: {told.removeprefix(f'{os.fspath(path)}: ')}"


def _wanted(name: bytes) -> bool | None:
    ending = name[name.rfind(b".") + 1 :].lower()
    return True if ending in ENDINGS else None
