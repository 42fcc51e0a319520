"""``find``: returns the source for a path, a name or an object.

    find("photos/")                        # told by content: a folder of images
    find("list.csv", kind="manifest")
    find("mypkg.data:train_set")           # imported, and called if it is a function
    find(my_dataset)

Paths are told by their content (`registry`), objects by what they can do.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

from cordwood.common.suggest import did_you_mean_path
from cordwood.errors import StorageError, UsageError
from cordwood.sources.base import Source, SourceOptions
from cordwood.sources.importing import is_name, made, needed_arguments
from cordwood.sources.kinds.dataset import DatasetSource, IterableSource, SamplesInMemory, type_name
from cordwood.sources.registry import Kinds


def find(source: Any, kind: str | None = None, options: SourceOptions | None = None) -> Source:
    """The source that is meant. `kind` says what a path holds, where its content is not to be asked.

    ::

        source = find("photos/")
        source.kind, source.count  # "images", 1281167
    """
    options = options or SourceOptions()
    if isinstance(source, Source):
        return source
    if isinstance(source, str | bytes | os.PathLike):
        return _named(os.fsdecode(source), kind, options)
    return _of_object(source, kind)


def _named(text: str, kind: str | None, options: SourceOptions) -> Source:
    path = Path(text)
    exists = text != "" and _exists(path)
    if exists and kind not in (DatasetSource.kind, IterableSource.kind):
        return Kinds().open(path, kind, options)
    if is_name(text):
        return _by_name(text, kind)
    if exists:
        raise UsageError(f"kind {kind!r} is for Python objects, and {text!r:.200} is a path: leave the kind out")
    raise UsageError(
        f"there is no {text!r:.200}: a source is the path of a folder or file, or the module:name of a dataset or of a "
        f"function that makes one{did_you_mean_path(text)}"
    )


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # the last for a NUL in the path
        return False
    except OSError as error:
        raise StorageError(error.errno, f"{str(path)!r:.200} cannot be looked at: {error.strerror}") from error
    return True


def _by_name(text: str, kind: str | None) -> Source:
    found = made(text, "source")
    if isinstance(found, Iterator):
        return _of_object(_MadeAnew(text, found), kind, text)
    return _of_object(found, kind, text)


class _MadeAnew:
    """Makes an iterator each time it is gone through. The first tells what it is, and is not gone through."""

    def __init__(self, text: str, first: Iterator[Any]) -> None:
        self._text = text
        self._first = first

    def __call__(self) -> Any:
        return made(self._text, "source")


def _of_object(found: Any, kind: str | None, name: str | None = None) -> Source:
    if isinstance(found, Source):
        return found
    title = name or type_name(found)
    if isinstance(found, str | bytes | os.PathLike):
        raise UsageError(f"{title} gave {os.fsdecode(found)!r:.200}: give that path itself as the source")
    if isinstance(found, DataLoader):
        raise UsageError(
            "a DataLoader gives batches, and a store holds samples: pack its dataset (loader.dataset); batches are "
            "made when the store is read, and batched=True hands the transform whole batches"
        )
    if kind not in (None, DatasetSource.kind, IterableSource.kind):
        raise UsageError(f"kind {kind!r} is for paths, and {title} is an object: leave the kind out")
    if kind == IterableSource.kind and _iterable(found):
        return IterableSource(found, name)
    if isinstance(found, list | Mapping | torch.Tensor | np.ndarray) or _are_columns(found):
        return SamplesInMemory(found, name)
    if _by_number(found):
        return DatasetSource(found, name)
    if kind == DatasetSource.kind:
        raise UsageError(f"{title} is no dataset: that has __len__ and __getitem__ and takes numbers from 0 on")
    if _iterable(found):
        return IterableSource(found, name)
    raise UsageError(
        f"{title} cannot be packed: a source is a path, module:name, a dataset (__len__ and __getitem__), an iterable, "
        "or a function without arguments that returns an iterable"
    )


def _by_number(found: Any) -> bool:
    # torch's IterableDataset inherits a __getitem__ that only raises.
    if isinstance(found, IterableDataset | type):
        return False
    return hasattr(type(found), "__getitem__") and hasattr(type(found), "__len__")


def _are_columns(found: Any) -> bool:
    # (images, labels) are two columns, not two samples.
    return (
        isinstance(found, tuple)
        and bool(found)
        and all(isinstance(column, torch.Tensor | np.ndarray) for column in found)
    )


def _iterable(found: Any) -> bool:
    if isinstance(found, Iterable):
        return True
    return callable(found) and not needed_arguments(found)
