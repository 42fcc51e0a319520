"""Manifests: a CSV or JSON-lines file that names images and tells about them.

    path,label,caption
    cat/1.jpg,cat,"lying, asleep"       {"image": ..., "label": 0, "path": "cat/1.jpg", "caption": "lying, asleep"}

Paths are relative to the manifest's folder and stay in it, unless absolute ones are allowed. Labels that are whole
numbers are kept, those that are text become classes in sorted order; other columns are kept as numbers or text, whose
types all rows decide (``manifest_columns``). A file may be named in several rows: the later ones are called
"cat/1.jpg#17", by their number. A row without a label, or whose path is none, is an input that fails.
"""

import hashlib
import json
import os
import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from cordwood.errors import FormatError, StorageError, UsageError
from cordwood.sources.base import Input, Source, SourceOptions
from cordwood.sources.files.image_file import FIELD, ImageReader
from cordwood.sources.files.links import NOTHING, Links
from cordwood.sources.kinds.manifest_columns import LABEL, ColumnTypes
from cordwood.sources.kinds.manifest_rows import PATH_COLUMNS, ManifestLayout, ManifestRow, check_text, layout_of, rows

_MOST_UNNAMED = 8  # columns in notes
_MARKED = 1024  # rows between two places that are remembered
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:/?/|[a-zA-Z]:[\\/]")  # a scheme, or a drive letter
PATH = "path"
_in_order = json.JSONEncoder(sort_keys=True).encode


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
        self._repeated = np.zeros(0, np.bool_)  # rows whose path stands in a row before
        with self._path.open("rb") as file:
            self._status = _status(file)
            self._read_all(file)
            self._content = hashlib.file_digest(_from_start(file), "blake2b").digest()
        self._classes = self._columns.finish(self._path.name)
        if not self._sizes:
            raise UsageError(f"{path.name} has a header and no rows: there is nothing to pack")

    @classmethod
    def recognises(cls, path: Path) -> bool:
        try:
            return path.is_file() and layout_of(path) is not None
        except FormatError:  # a manifest in another encoding, which is what to say when it is opened
            return True

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
            for name in named:
                check_text(path.name, layout.line, name, name)
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
        path, others, wrong = self._split(row)
        if wrong:
            return Input(_BadRow(wrong), self._name_of_bad(row))
        name = _name(path)
        if self._repeated[number]:
            name = f"{name}#{number}"
        size, stamp = self._sizes[number], self._stamps[number]
        facts = (size, _row_stamp(stamp, others)) if size >= 0 else (None, None)
        return Input((path, self._columns.values(others)), name, *facts)

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

    @property
    def varying(self) -> Sequence[str]:
        return self._columns.varying

    @property
    def field_types(self) -> Mapping[str, str]:
        return {FIELD: "", PATH: "str", **self._columns.types}

    @property
    def notes(self) -> Sequence[str]:
        unnamed = [number for number, name in enumerate(self._layout.columns or (), 1) if not name]
        left_out = [f"column {number} has no name in the header and is left out" for number in unnamed]
        return [*left_out[:_MOST_UNNAMED], *self._columns.notes()]

    def _rows(self, file: BufferedReader, offset: int, line: int) -> Iterator[ManifestRow]:
        return rows(file, self._path.name, self._layout, offset, line)

    def _read_all(self, file: BufferedReader) -> None:
        """Check every row, and look at the files."""
        links = Links(self._path.parent, self._options.follow_links)
        hashes = array("q")  # of paths, so that those named again are found
        bad, first = 0, ""
        for number, row in enumerate(self._rows(file, self._layout.offset, self._layout.line)):
            if number % _MARKED == 0:
                self._marks.append((row.offset, row.line))
            try:
                path, others, wrong = self._split(row)
                if wrong:
                    bad, first, name, (size, stamp) = bad + 1, first or wrong, self._name_of_bad(row), NOTHING
                else:
                    self._columns.see(others, row.line + 1)
                    name, (size, stamp) = _name(path), links.look(path)
            except FormatError as error:
                raise FormatError(f"{self._path.name}, line {row.line + 1}: {error}") from error
            self._sizes.append(size)
            self._stamps.append(stamp)
            hashes.append(hash(name))
        if first and bad == len(hashes):
            raise FormatError(first)
        order = np.argsort(np.asarray(hashes), kind="stable")
        same = np.asarray(hashes)[order]
        self._repeated = np.zeros(len(hashes), np.bool_)
        self._repeated[order[1:][same[1:] == same[:-1]]] = True

    def _split(self, row: ManifestRow) -> tuple[str, dict[str, Any], str]:
        """The path of a row, checked, its other values, and what is wrong with this row alone: it is one that fails."""
        others = dict(row.values)
        path, wrong = others.pop(self._layout.path_column, None), ""
        for taken in (FIELD, PATH):
            if taken in others:
                raise FormatError(
                    f"a column {taken!r} beside {self._layout.path_column!r}, which holds the "
                    f"paths: samples have a field {taken!r} already, give the column another name"
                )
        try:
            path = checked_path(path, absolute=self._options.absolute_paths)
        except FormatError as error:
            wrong = str(error)
        if not wrong and LABEL in others and self._columns.is_empty(others[LABEL]):
            wrong = "the label is empty"
        return path, others, wrong and f"{self._path.name}, line {row.line + 1}: {wrong}"

    def _name_of_bad(self, row: ManifestRow) -> str:
        return f"{self._path.name}:{row.line + 1}"


class _BadRow(NamedTuple):
    """The handle of a row that has no sample."""

    why: str


class _ManifestReader:
    def __init__(self, image: ImageReader) -> None:
        self._image = image

    @property
    def more_frames(self) -> bool:
        return self._image.more_frames

    def __call__(self, handle: tuple[str, dict[str, Any]] | _BadRow) -> dict[str, Any]:
        if isinstance(handle, _BadRow):
            raise FormatError(handle.why)
        path, values = handle
        sample = {FIELD: self._image(path)}
        if LABEL in values:
            sample[LABEL] = values[LABEL]
        sample[PATH] = path
        return sample | values


def checked_path(path: Any, *, absolute: bool = False) -> str:
    """A path as it is written in a manifest: refused if it is none, or leads out of the folder.

    `absolute` allows absolute paths, which lead anywhere.
    """
    if not isinstance(path, str) or not path or "\0" in path:
        raise FormatError(f"the path is {path!r:.100}, and that of a file is expected")
    root = "/" if absolute and path.startswith("/") else ""
    parts = path.split("/")
    if ":" in path and _URL.match(path):
        wrong = "is an address, and files are read from the manifest's folder: fetch it there"
    elif path.startswith("/") and not absolute:
        wrong = (
            "is no path below the manifest's folder: write paths relative to it, or allow absolute paths with "
            "absolute_paths=True (--absolute-paths)"
        )
    elif path.startswith("~/"):
        wrong = "is no path below the manifest's folder: write paths relative to it"
    elif ".." in parts:
        wrong = "leads out of a folder with '..': write paths below the manifest's folder"
    elif not _encodable(path) or all(part in ("", ".") for part in parts):
        wrong = "is the path of no file"
    elif "" in parts or "." in parts:
        return root + "/".join(part for part in parts if part not in ("", "."))
    else:
        return path
    raise FormatError(f"{path[:200]!r} {wrong}")


def _name(path: str) -> str:
    """What an input is called: names are relative, as those of exported files are."""
    return path.lstrip("/")


def _row_stamp(stamp: int, others: Mapping[str, Any]) -> int:
    """What changes with the file and with the rest of its row, so that an update notices both."""
    if not others:
        return stamp
    told = f"{stamp} {_in_order(others)}".encode()
    return int.from_bytes(hashlib.blake2b(told, digest_size=8).digest(), "little", signed=True)


def _encodable(path: str) -> bool:
    try:
        os.fsencode(path)
    except ValueError:  # half a character, which JSON can hold
        return False
    return True


def _status(file: BufferedReader) -> tuple[int, int]:
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


def _from_start(file: BufferedReader) -> BufferedReader:
    file.seek(0)
    return file
