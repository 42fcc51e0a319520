"""Manifests: a CSV or JSON-lines file that names images and tells about them.

    path,label,caption
    cat/1.jpg,cat,"lying, asleep"       {"image": ..., "label": 0, "path": "cat/1.jpg", "caption": "lying, asleep"}

Paths are relative to the manifest's folder and stay in it. Labels that are whole numbers are kept, those that are text
become classes in sorted order; other columns are kept as numbers or text. A file may be named in several rows: the
later ones are called "cat/1.jpg#17", by their number.
"""

import hashlib
import os
import re
import stat
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any, Self

import numpy as np

from cordwood.errors import FormatError, StorageError, UsageError
from cordwood.sources.base import Input, Source, SourceOptions
from cordwood.sources.files.image_file import FIELD, ImageReader, shown_path
from cordwood.sources.kinds.manifest_columns import LABEL, ColumnTypes
from cordwood.sources.kinds.manifest_rows import PATH_COLUMNS, ManifestLayout, ManifestRow, layout_of, rows

_MARKED = 1024  # rows between two places that are remembered
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:/?/|[a-zA-Z]:[\\/]")  # a scheme, or a drive letter
_MOST_FOLDERS = 1 << 17  # whose real place is remembered
PATH = "path"


class ManifestSource(Source):
    """A manifest of images. Its rows are read again whenever they are needed; only sizes and dates are kept."""

    kind = "manifest"

    def __init__(self, path: Path, layout: ManifestLayout, options: SourceOptions) -> None:
        self._path = path.absolute()
        self._layout = layout
        self._options = options
        self._columns = ColumnTypes(written=layout.columns is not None)
        self._marks: list[tuple[int, int]] = []  # the place of every so many rows
        self._sizes, self._stamps = array("q"), array("q")
        self._repeated: set[int] = set()
        with self._path.open("rb") as file:
            self._status = _status(file)
            self._read_all(file)
            self._content = hashlib.file_digest(_from_start(file), "blake2b").digest()
        self._classes = self._columns.finish(self._path.name)
        if not self._sizes:
            raise UsageError(f"{path.name} has a header and no rows: there is nothing to pack")

    @classmethod
    def recognises(cls, path: Path) -> bool:
        return path.is_file() and layout_of(path) is not None

    @classmethod
    def open(cls, path: Path, options: SourceOptions) -> Self:
        if not path.is_file():
            raise UsageError(f"{str(path)!r:.200} is no file, and a manifest is one")
        layout = layout_of(path)
        if layout is None:
            raise FormatError(
                f"{path.name} is no manifest: its first line is neither a CSV header with a column named "
                f"{' or '.join(PATH_COLUMNS)} nor a JSON object with such a key"
            )
        if layout.columns is not None:
            named = [name for name in layout.columns if name]
            if len(set(named)) < len(named):
                raise FormatError(f"{path.name}: two columns have the same name: {', '.join(named)[:200]}")
        return cls(path, layout, options)

    @property
    def count(self) -> int:
        return len(self._sizes)

    def inputs(self, start: int = 0) -> Iterator[Input]:
        if start >= self.count:
            return
        mark = start // _MARKED
        with self._path.open("rb") as file:
            if _status(file) != self._status:
                raise StorageError(f"{self._path.name} was changed while it was in use: start again")
            for number, row in enumerate(self._rows(file, *self._marks[mark]), mark * _MARKED):
                if number >= start:
                    yield self._input(number, row)

    def _input(self, number: int, row: ManifestRow) -> Input:
        path, others = self._split(row)
        values = {name: self._columns.value(name, value) for name, value in others.items()}
        name = f"{path}#{number}" if number in self._repeated else path
        size = self._sizes[number]
        return Input((path, values), name, *((size, self._stamps[number]) if size >= 0 else (None, None)))

    def reader(self) -> Callable[[Any], Any]:
        return _ManifestReader(ImageReader(self._path.parent, self._options))

    def describe(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "path": os.fspath(self._path.resolve()),
            **ImageReader(self._path.parent, self._options).describe(),
        }

    def fingerprint(self) -> str:
        content = (self._content, self._sizes.tobytes(), self._stamps.tobytes())
        return hashlib.blake2b(b"".join(content), digest_size=16).hexdigest()

    @property
    def classes(self) -> Mapping[str, Sequence[str]]:
        return {LABEL: self._classes} if self._classes else {}

    def _rows(self, file: BufferedReader, offset: int, line: int) -> Iterator[ManifestRow]:
        return rows(file, self._path.name, self._layout, offset, line)

    def _read_all(self, file: BufferedReader) -> None:
        """Check every row, and look at the files."""
        folder = _Folder(self._path.parent, self._options.follow_links)
        hashes = array("q")  # of paths, so that those named again are found
        for number, row in enumerate(self._rows(file, self._layout.offset, self._layout.line)):
            if number % _MARKED == 0:
                self._marks.append((row.offset, row.line))
            try:
                path, others = self._split(row)
                self._columns.see(others)
                size, stamp = folder.look(path)
            except FormatError as error:
                raise FormatError(f"{self._path.name}, line {row.line + 1}: {error}") from error
            self._sizes.append(size)
            self._stamps.append(stamp)
            hashes.append(hash(path))
        order = np.argsort(np.asarray(hashes), kind="stable")
        same = np.asarray(hashes)[order]
        self._repeated = set(order[1:][same[1:] == same[:-1]].tolist())

    def _split(self, row: ManifestRow) -> tuple[str, dict[str, Any]]:
        """The path of a row, checked, and its other values."""
        others = dict(row.values)
        path = relative_path(others.pop(self._layout.path_column, None))
        for taken in (FIELD, PATH):
            if taken in others:
                raise FormatError(
                    f"a column {taken!r} beside {self._layout.path_column!r}, which holds the "
                    f"paths: samples have a field {taken!r} already, give the column another name"
                )
        return path, others


class _ManifestReader:
    def __init__(self, image: ImageReader) -> None:
        self._image = image

    def __call__(self, handle: tuple[str, dict[str, Any]]) -> dict[str, Any]:
        path, values = handle
        sample = {FIELD: self._image(path)}
        if LABEL in values:
            sample[LABEL] = values[LABEL]
        sample[PATH] = path
        return sample | values


def relative_path(path: Any) -> str:
    """A path below a folder, as it is written in a manifest: refused if it is none, or leads out of the folder."""
    if not isinstance(path, str) or not path or "\0" in path:
        raise FormatError(f"the path is {path!r:.100}, and that of a file is expected")
    parts = path.split("/")
    if ":" in path and _URL.match(path):
        wrong = "is an address, and files are read from the manifest's folder: fetch it there"
    elif path.startswith(("/", "~/")):
        wrong = "is no path below the manifest's folder: write paths relative to it"
    elif ".." in parts:
        wrong = "leads out of a folder with '..': write paths below the manifest's folder"
    elif not _encodable(path) or all(part in ("", ".") for part in parts):
        wrong = "is the path of no file"
    else:
        return "/".join(part for part in parts if part not in ("", ".")) if "" in parts or "." in parts else path
    raise FormatError(f"{path[:200]!r} {wrong}")


def _encodable(path: str) -> bool:
    try:
        os.fsencode(path)
    except ValueError:  # half a character, which JSON can hold
        return False
    return True


class _Folder:
    """Files below a folder: their sizes and dates, and that they are really there."""

    def __init__(self, root: Path, follow_links: bool) -> None:
        self._root = os.fspath(root)
        self._follow_links = follow_links
        self._home = os.path.realpath(root).rstrip("/") + "/"
        self._inside: set[str] = set()

    def look(self, path: str) -> tuple[int, int]:
        """Size and date of a file, -1 if there is none: what is missing is told of when it is to be read."""
        folder = path.rpartition("/")[0]
        if folder not in self._inside:
            self._check(folder)
            if len(self._inside) >= _MOST_FOLDERS:
                self._inside.clear()
            self._inside.add(folder)
        place = f"{self._root}/{path}"
        try:
            status = os.lstat(place)
            if stat.S_ISLNK(status.st_mode):
                self._check(path)
                status = os.stat(place)  # noqa: PTH116 - a Path for each of millions of files costs more than all else
        except OSError:
            return -1, -1
        return (status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else (-1, -1)

    def _check(self, path: str) -> None:
        target = os.path.realpath(f"{self._root}/{path}")
        if not self._follow_links and not f"{target}/".startswith(self._home):
            raise FormatError(
                f"{shown_path(path)[:200]} is a link to {shown_path(target)[:200]}, which is outside of the "
                "manifest's folder: if that is meant, allow it with follow_links=True (--follow-links)"
            )


def _status(file: BufferedReader) -> tuple[int, int]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


def _from_start(file: BufferedReader) -> BufferedReader:
    file.seek(0)
    return file
