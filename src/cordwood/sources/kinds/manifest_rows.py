"""Reads the rows of a manifest, CSV or JSON lines, from any place in it.

    path,label,caption                       {"path": "cat/1.jpg", "label": "cat"}
    cat/1.jpg,cat,"lying, asleep"            {"path": "dog/2.jpg", "label": "dog"}

Columns may be parted by commas, tabs or semicolons; a byte order mark is passed over. Bytes that are no UTF-8 are kept
as Python keeps them in file names, so that they name the same files again.
"""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from cordwood.errors import FormatError
from cordwood.sources.files.sniff import first_bytes

PATH_COLUMNS: Final = ("path", "file_name", "filename", "file", "image")
_BOM = b"\xef\xbb\xbf"
_LONGEST_LINE = 1 << 20
_DELIMITERS = ",\t;"
_LOOKED_AT = 1 << 16


class ManifestRow(NamedTuple):
    """One row, with where it begins: a byte of the file, and the number of the line before it."""

    offset: int
    line: int
    values: dict[str, Any]


@dataclass(frozen=True)
class ManifestLayout:
    """How a manifest is written; `columns` is None for JSON lines, where every row names its own."""

    path_column: str
    columns: tuple[str, ...] | None
    delimiter: str
    offset: int  # where rows begin
    line: int


def layout_of(path: Path) -> ManifestLayout | None:
    """How a file is laid out, if it is a manifest."""
    first, size = first_bytes(path, _LOOKED_AT)
    start = len(_BOM) if first.startswith(_BOM) else 0
    lines = first[start:].splitlines(keepends=True)
    offset, number = start, 0
    for line in lines:
        text = line.decode("utf-8", "surrogateescape")
        if text.strip():
            if offset + len(line) == len(first) < size:
                return None  # a first line so long is no header
            return _of_json(text, offset, number) or _of_csv(text, offset + len(line), number + 1)
        offset, number = offset + len(line), number + 1
    return None


def _of_json(text: str, offset: int, line: int) -> ManifestLayout | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    column = _path_column(list(found)) if isinstance(found, dict) else None
    return ManifestLayout(column, None, "", offset, line) if column is not None else None


def _of_csv(text: str, offset: int, line: int) -> ManifestLayout | None:
    if "\0" in text:
        return None
    for delimiter in _DELIMITERS:
        try:
            header = next(csv.reader([text], delimiter=delimiter, strict=True))
        except (csv.Error, StopIteration):
            continue
        columns = tuple("label" if name.strip().lower() == "label" else name.strip() for name in header)
        column = _path_column(columns)
        if column is not None:
            return ManifestLayout(column, columns, delimiter, offset, line)
    return None


def _path_column(columns: tuple[str, ...] | list[str]) -> str | None:
    by_name = {name.lower(): name for name in reversed(columns)}
    return next((by_name[name] for name in PATH_COLUMNS if name in by_name), None)


class _LineReader:
    """Lines as text, with the place of the next one."""

    def __init__(self, file: IO[bytes], name: str, offset: int, line: int) -> None:
        self._file = file
        self._name = name
        self.offset = offset
        self.line = line
        file.seek(offset)

    def __iter__(self) -> "_LineReader":
        return self

    def __next__(self) -> str:
        raw = self._file.readline(_LONGEST_LINE + 1)
        if not raw:
            raise StopIteration
        self.line += 1
        if len(raw) > _LONGEST_LINE:
            raise FormatError(f"{self._name}, line {self.line}: it has more than {_LONGEST_LINE:,} bytes")
        self.offset += len(raw)
        return raw.decode("utf-8", "surrogateescape")


def rows(file: IO[bytes], name: str, layout: ManifestLayout, offset: int, line: int) -> Iterator[ManifestRow]:
    """The rows from one that begins at `offset` on; errors say the manifest's name and the line."""
    lines = _LineReader(file, name, offset, line)
    return _csv_rows(lines, name, layout) if layout.columns is not None else _json_rows(lines, name)


def _csv_rows(lines: _LineReader, name: str, layout: ManifestLayout) -> Iterator[ManifestRow]:
    columns = layout.columns or ()
    reader = csv.reader(lines, delimiter=layout.delimiter, strict=True)
    while True:
        offset, line = lines.offset, lines.line
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise FormatError(f"{name}, line {line + 1}: {error}") from error
        if not values:
            continue
        if len(values) != len(columns):
            raise FormatError(
                f"{name}, line {line + 1}: {len(values)} values, but the header names {len(columns)} columns: a value "
                'with a delimiter in it is put in "double quotes"'
            )
        # A column without a name is what pandas makes of its index.
        yield ManifestRow(offset, line, {key: value for key, value in zip(columns, values, strict=True) if key})


def _json_rows(lines: _LineReader, name: str) -> Iterator[ManifestRow]:
    while True:
        offset, line = lines.offset, lines.line
        text = next(lines, None)
        if text is None:
            return
        if not text.strip():
            continue
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{name}, line {line + 1}: no JSON: {error}") from error
        if not isinstance(values, dict):
            raise FormatError(f"{name}, line {line + 1}: a JSON object is expected, with a path and a label")
        yield ManifestRow(offset, line, values)
