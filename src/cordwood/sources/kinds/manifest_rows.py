"""Reads the rows of a manifest, CSV or JSON lines, from any place in it.

    path,label,caption                       {"path": "cat/1.jpg", "label": "cat"}
    cat/1.jpg,cat,"lying, asleep"            {"path": "dog/2.jpg", "label": "dog"}

Columns may be parted by commas, tabs or semicolons; blanks behind a comma or semicolon and a byte order mark of UTF-8
are passed over. Bytes of a path that are no UTF-8 are kept as Python keeps them in file names, so that they name the
same files again; elsewhere they are refused. UTF-16 and UTF-32 are recognised and refused.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from cordwood.common.text import counted
from cordwood.errors import FormatError
from cordwood.sources.files.sniff import first_bytes

PATH_COLUMNS: Final = ("path", "file_name", "filename", "file", "image")
_BOM = b"\xef\xbb\xbf"
_LONGEST_LINE = 1 << 20
_DELIMITERS = ",\t;"
_LOOKED_AT = 1 << 16
_NO_UTF8 = re.compile("[\udc80-\udcff]")  # as bytes that are no UTF-8 are decoded


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
    """How a file is laid out, if it is a manifest; FormatError if it is one that is not UTF-8."""
    first, size = first_bytes(path, _LOOKED_AT)
    encoding = json.detect_encoding(first)
    if encoding not in ("utf-8", "utf-8-sig"):
        _refuse_encoding(path, first, encoding)
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


def _refuse_encoding(path: Path, first: bytes, encoding: str) -> None:
    text = first.decode(encoding, "replace").lstrip("\ufeff \r\n\t")
    line = text.splitlines()[0] if text else ""
    if _of_json(line, 0, 0) is None and _of_csv(line, 0, 0) is None:
        return
    marked = encoding in ("utf-16", "utf-32")
    mark = first[: 2 if encoding == "utf-16" else 4].hex(" ").upper()
    raise FormatError(
        f"{path.name} is no manifest that can be read: it is {encoding.upper()} text "
        f"({f'it begins with the byte order mark {mark}' if marked else 'every character has NUL bytes'}), and a "
        f"manifest is UTF-8. {_conversion(path.name, encoding)}"
    )


def _conversion(name: str, encoding: str) -> str:
    path = Path(name)
    return (
        f"Save it as UTF-8, or convert it: iconv -f {encoding.upper()} -t UTF-8 {name} > {path.stem}-utf8{path.suffix}"
    )


def check_text(name: str, line: int, column: str, text: str) -> None:
    """FormatError if a text other than a path has bytes that are no UTF-8."""
    found = _NO_UTF8.search(text)
    if found is not None:
        shown = column.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        raise FormatError(
            f"{name}, line {line}: column {shown!r:.100} has the byte 0x{ord(found[0]) - 0xDC00:02X}, which is not "
            "UTF-8 there: the manifest is text in another encoding, perhaps Latin-1 or Windows-1252. "
            f"{_conversion(name, 'windows-1252')}"
        )


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
            header = next(_reader([text], delimiter))
        except (csv.Error, StopIteration):
            continue
        columns = tuple("label" if name.strip().lower() == "label" else name.strip() for name in header)
        column = _path_column(columns)
        if column is not None:
            return ManifestLayout(column, columns, delimiter, offset, line)
    return None


def _reader(lines: Iterable[str], delimiter: str) -> "Iterator[list[str]]":
    return csv.reader(lines, delimiter=delimiter, skipinitialspace=delimiter != "\t", strict=True)


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
        self.has_other_bytes = False  # some line read since this was reset is no UTF-8
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
        if b"\0" in raw:
            raise FormatError(
                f"{self._name}, line {self.line}: it has NUL bytes, as text in UTF-16 has, and a manifest is UTF-8: "
                "save all of it as UTF-8"
            )
        self.offset += len(raw)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.has_other_bytes = True
        return raw.decode("utf-8", "surrogateescape")


def rows(file: IO[bytes], name: str, layout: ManifestLayout, offset: int, line: int) -> Iterator[ManifestRow]:
    """The rows from one that begins at `offset` on; errors say the manifest's name and the line."""
    lines = _LineReader(file, name, offset, line)
    return _csv_rows(lines, name, layout) if layout.columns is not None else _json_rows(lines, name, layout)


def _csv_rows(lines: _LineReader, name: str, layout: ManifestLayout) -> Iterator[ManifestRow]:
    columns = layout.columns or ()
    reader = _reader(lines, layout.delimiter)
    while True:
        offset, line = lines.offset, lines.line
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise FormatError(f"{name}, line {line + 1}: {error}") from error
        if not values or (len(values) == 1 < len(columns) and not values[0].strip()):  # a line of blanks
            continue
        if len(values) != len(columns):
            raise FormatError(
                f"{name}, line {line + 1}: {counted(len(values), 'value')}, but the header names {len(columns)} "
                'columns: a value with a delimiter in it is put in "double quotes"'
            )
        # A column without a name is what pandas makes of its index.
        row = ManifestRow(offset, line, {key: value for key, value in zip(columns, values, strict=True) if key})
        if lines.has_other_bytes:
            _check_row(lines, name, layout, row)
        yield row


def _json_rows(lines: _LineReader, name: str, layout: ManifestLayout) -> Iterator[ManifestRow]:
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
        row = ManifestRow(offset, line, values)
        if lines.has_other_bytes:
            _check_row(lines, name, layout, row)
        yield row


def _check_row(lines: _LineReader, name: str, layout: ManifestLayout, row: ManifestRow) -> None:
    lines.has_other_bytes = False
    for column, value in row.values.items():
        if column != layout.path_column:
            text = value if layout.columns is not None else json.dumps([column, value], ensure_ascii=False)
            check_text(name, row.line + 1, column, text)
