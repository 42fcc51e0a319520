"""What one process recorded about its fetches, as a file for the process that makes the report.

    figures = Figures(process=os.getpid(), worker=0, workers=2, dataset=0)
    write(figures, folder / "figures-1.json")       # appears whole or not at all
    figures = read(path)                            # FormatError if it is anything else

Workers write; a file may be cut, old, or somebody else's, so everything that is read is checked.
"""

import json
import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from cordwood.doctor.evidence.fetch_stages import STAGES, Function
from cordwood.errors import FormatError

_LARGEST_FILE = 4 << 20
_LARGEST_NUMBER = 1 << 62
_LONGEST_TEXT = 4096
MOST_FUNCTIONS = 200  # that are written, by own time
MOST_LINES = 200
MOST_FILES = 20

Line = tuple[str, int, str]  # file, line, function
_Key = TypeVar("_Key")


@dataclass
class Figures:
    """Sums over the fetches of one dataset by one process. A fetch is what makes one batch."""

    process: int
    worker: int = -1  # -1: the process of the training loop itself
    workers: int = 0  # that the loader has
    dataset: int = 0  # id() in the process of the training loop; 0 where that cannot be told
    batches: int = 0
    get_ns: int = 0  # getting the samples, over all fetches that were not profiled
    collate_ns: int = 0
    span_ns: int = 0  # from the start of the first fetch to the end of the last one, profiled or not
    profiled: int = 0  # fetches; they are not among `batches`
    profiled_get_ns: int = 0
    profiled_collate_ns: int = 0
    functions: dict[Function, int] = field(default_factory=dict)  # own time in profiled fetches
    lines: dict[Line, int] = field(default_factory=dict)  # the user's innermost line, in sampled fetches
    sampled: int = 0  # fetches; they are among `batches`
    sampled_ns: int = 0  # of all samples, also of those with no line of the user's
    watched: int = 0  # fetches during which reads were counted and files noted
    read_chars: int = 0  # bytes that system calls returned
    read_disk: int = 0  # bytes that came from a device
    files: list[str] = field(default_factory=list)
    sent: int = 0  # batches, by a worker
    sent_ns: int = 0  # making bytes of them
    sent_bytes: int = 0  # through the pipe; tensors go by shared memory
    received: int = 0  # batches, by the process of the training loop
    received_ns: int = 0  # reading the pipe and building them again
    note: str = ""  # why something is missing


_COUNTS = [each.name for each in fields(Figures) if each.type is int and each.name != "worker"]


def write(figures: Figures, path: Path) -> None:
    """Write figures so that a reader sees all of them or none."""
    document: dict[str, Any] = {name: getattr(figures, name) for name in ("worker", "note", *_COUNTS)}
    document["files"] = figures.files[:MOST_FILES]
    document["functions"] = [[*key, own] for key, own in _most(figures.functions, MOST_FUNCTIONS)]
    document["lines"] = [[*key, own] for key, own in _most(figures.lines, MOST_LINES)]
    aside = path.with_suffix(f".{os.getpid()}.tmp")
    aside.write_text(json.dumps(document), encoding="utf-8")
    aside.replace(path)


def _most(times: dict[_Key, int], count: int) -> list[tuple[_Key, int]]:
    return sorted(times.items(), key=lambda item: item[1], reverse=True)[:count]


def read(path: Path) -> Figures:
    """Figures that another process has written; `FormatError` if they are not what is expected."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise FormatError(f"{path}: cannot be read: {error}") from error
    if len(data) > _LARGEST_FILE:
        raise FormatError(f"{path}: more than {_LARGEST_FILE} bytes, where figures of a loader's worker are expected")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: not the figures of a loader's worker: {error}") from error
    if not isinstance(document, dict):
        raise FormatError(f"{path}: {type(document).__name__} where an object is expected")
    return _CheckedDocument(document, path).figures()


class _CheckedDocument:
    """The fields of a document from outside, each checked when it is taken."""

    def __init__(self, document: dict[str, Any], path: Path) -> None:
        self._document = document
        self._path = path

    def figures(self) -> Figures:
        figures = Figures(
            worker=self._number(self._take("worker"), -1),
            note=self._text(self._take("note")),
            files=[self._text(name) for name in self._rows("files", MOST_FILES)],
            process=self._number(self._take("process"), 0),
        )
        for name in _COUNTS:
            setattr(figures, name, self._number(self._take(name), 0))
        for name, file, line, stage, own in self._tuples("functions", MOST_FUNCTIONS, 5):
            if stage not in STAGES:
                raise self._error(f"stage {stage!r} of a function is none of {', '.join(STAGES)}")
            function = Function(self._text(name), self._text(file), self._number(line, 0), stage)
            figures.functions[function] = self._number(own, 0)
        for file, line, name, own in self._tuples("lines", MOST_LINES, 4):
            figures.lines[self._text(file), self._number(line, 0), self._text(name)] = self._number(own, 0)
        return figures

    def _error(self, what: str) -> FormatError:
        return FormatError(f"{self._path}: not the figures of a loader's worker: {what}")

    def _take(self, name: str) -> Any:
        try:
            return self._document[name]
        except KeyError:
            raise self._error(f"there is no {name!r}") from None

    def _number(self, value: Any, least: int) -> int:
        if type(value) is not int or not least <= value <= _LARGEST_NUMBER:
            raise self._error(f"{str(value)[:50]} where an integer from {least} on is expected")
        return value

    def _text(self, value: Any) -> str:
        if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
            raise self._error(f"{type(value).__name__} where a short text is expected")
        return value

    def _rows(self, name: str, most: int) -> list[Any]:
        rows = self._take(name)
        if not isinstance(rows, list) or len(rows) > most:
            raise self._error(f"{name!r} is not a list of at most {most}")
        return rows

    def _tuples(self, name: str, most: int, length: int) -> list[list[Any]]:
        rows = self._rows(name, most)
        if not all(isinstance(row, list) and len(row) == length for row in rows):
            raise self._error(f"a row of {name!r} does not have {length} columns")
        return rows
