"""One file that holds all samples: .pt, .pth, .npy, .npz, .cord or .safetensors.

    train.pt: [{"x": ..., "y": 1}, ...]                     each item is a sample
    train.npz: x float32 [60000, 28, 28], y int64 [60000]   {"x": x[i], "y": y[i]}

It is loaded once in every process, and mapped into memory where its bytes lie in it uncompressed, so that workers share
them.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from cordwood.errors import FormatError, UsageError
from cordwood.sources.base import Input, Source, SourceOptions
from cordwood.sources.files.sniff import TENSORS, kind_of
from cordwood.sources.kinds.columns import Rows, rows_of
from cordwood.sources.kinds.tensor_folder import load_tensors


class SampleFile(Source):
    """A file with a list of samples, or tensors whose rows are samples."""

    kind = "file"

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._reader = _SampleReader(self._path)
        status = self._path.stat()
        self._size, self._stamp = status.st_size, status.st_mtime_ns
        self._count = len(self._reader.rows)
        if not self._count:
            raise UsageError(f"{path.name} holds tensors without rows: there is nothing to pack")

    @classmethod
    def recognises(cls, path: Path) -> bool:
        return path.is_file() and kind_of(path) == TENSORS

    @classmethod
    def open(cls, path: Path, options: SourceOptions) -> Self:
        return cls(path)

    @property
    def count(self) -> int:
        return self._count

    def inputs(self, start: int = 0) -> Iterator[Input]:
        before = start * self._size // self._count
        for number in range(start, self._count):
            # A row has its share of the file's bytes, so that together they count as the file.
            until = (number + 1) * self._size // self._count
            yield Input(number, None, until - before)
            before = until

    def reader(self) -> Callable[[Any], Any]:
        return self._reader

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind, "path": os.fspath(self._path.resolve())}

    def fingerprint(self) -> str:
        told = f"{self._size} bytes of {self._stamp}, {self._count} samples"
        return hashlib.blake2b(told.encode(), digest_size=16).hexdigest()


class _SampleReader:
    """Loads the file when the first row is asked for; pickled without what it loaded."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: Rows | None = None

    @property
    def rows(self) -> Rows:
        if self._rows is None:
            self._rows = rows_of(_load(self._path), self._path.name)
        return self._rows

    def __call__(self, number: int) -> Any:
        return self.rows[number]

    def __reduce__(self) -> tuple[Any, ...]:
        return _SampleReader, (self._path,)


def _load(path: Path) -> Any:
    try:
        return load_tensors(path, path.name, mmap=True)
    except (UsageError, FormatError, OSError):
        return load_tensors(path, path.name)  # compressed bytes cannot be mapped; what else is wrong is told here
