"""Reads a report from a file, and checks every field, because the file may come from anywhere.

    document = read(Path("before.json"))

Fields that this version does not know are left alone; one that is missing or of another kind raises `FormatError`,
which names it.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from cordwood.common.suggest import did_you_mean_path
from cordwood.doctor.evidence.evidence import PHASES
from cordwood.doctor.evidence.findings import LEVELS
from cordwood.doctor.report.anatomy import LATER_STEP_FIGURES, MOST_FIRST_WAITS, MOST_POINTS, STEP_FIGURES
from cordwood.errors import FormatError, StorageError, UsageError

SCHEMA_VERSION = 1
STATUSES = ("passed", "abstained", "failed", "silenced")  # of rules that did not speak
_MOST_BYTES = 32 << 20
_MOST_TEXT = 100_000
_MOST_ENTRIES = 10_000
_MOST_NUMBER = 1e15  # milliseconds, or whatever: beyond it figures make no sense, and their squares no numbers
_SHOWN = 60

Check = Callable[[Any, str], None]  # a value, and the name it has in the document


def read(path: Path) -> dict[str, Any]:
    """The document in a file."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError as error:
        raise UsageError(
            f"there is no report {path}: cordwood doctor --json {path} train.py writes one{did_you_mean_path(path)}"
        ) from error
    except OSError as error:
        raise StorageError(error.errno, f"{error.strerror or error}: the report cannot be read", str(path)) from error
    if len(data) > _MOST_BYTES:
        raise FormatError(f"{path} is no report: it has more than {_MOST_BYTES >> 20} MiB")
    try:
        document = json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:  # bad UTF-8 and numbers with too many digits are ValueErrors, too
        raise FormatError(
            f"{path} is no report: JSON is expected, as `cordwood doctor --json` writes it ({error})"
        ) from error
    try:
        check(document)
    except FormatError as error:
        raise FormatError(f"{path} is no report that can be read: {error}") from None
    found: dict[str, Any] = document
    return found


def check(document: Any) -> None:
    """Raise `FormatError` unless this is a report's document."""
    version = document.get("schema_version") if isinstance(document, dict) else None
    if isinstance(version, int) and not isinstance(version, bool) and version > SCHEMA_VERSION:
        raise FormatError(
            f"its schema version is {version}, and this version of cordwood knows {SCHEMA_VERSION}: get a newer one"
        )
    _DOCUMENT(document, "")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _wrong(value: Any, name: str, expected: str) -> NoReturn:
    found = json.dumps(value, default=str)[: _SHOWN + 1] if not isinstance(value, dict | list) else type(value).__name__
    shown = found if len(found) <= _SHOWN else f"{found[:_SHOWN]}..."
    raise FormatError(f"{name or 'the document'} is {shown}, but {expected} is expected")


def _text(value: Any, name: str) -> None:
    if not isinstance(value, str) or len(value) > _MOST_TEXT:
        _wrong(value, name, f"a text of at most {_MOST_TEXT:,} characters")


def _number(value: Any, name: str) -> None:
    """A figure, or null where it is not known."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _MOST_NUMBER:
        _wrong(value, name, "a number or null")


def _count(value: Any, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST_NUMBER:
        _wrong(value, name, "a count")


def _share(value: Any, name: str) -> None:
    _number(value, name)
    if value is not None and not 0 <= value <= 1:
        _wrong(value, name, "a part of 1")


def _nothing_or(inner: Check) -> Check:
    return lambda value, name: None if value is None else inner(value, name)


def _one_of(*choices: Any) -> Check:
    def check_choice(value: Any, name: str) -> None:
        if isinstance(value, dict | list) or value not in choices:
            _wrong(value, name, f"one of {', '.join(map(str, choices))}")

    return check_choice


def _list(inner: Check, most: int = _MOST_ENTRIES) -> Check:
    def check_list(value: Any, name: str) -> None:
        if not isinstance(value, list) or len(value) > most:
            _wrong(value, name, f"a list of at most {most:,}")
        for index, each in enumerate(value):
            inner(each, f"{name}[{index}]")

    return check_list


def _record(fields: dict[str, Check], later: dict[str, Check] | None = None) -> Check:
    """An object with these fields; those that came `later` may be missing: earlier versions did not write them."""

    def check_record(value: Any, name: str) -> None:
        if not isinstance(value, dict):
            _wrong(value, name, "an object")
        for key, inner in fields.items():
            path = f"{name}.{key}" if name else key
            if key not in value:
                raise FormatError(f"{path} is missing")
            inner(value[key], path)
        for key, inner in (later or {}).items():
            if key in value:
                inner(value[key], f"{name}.{key}" if name else key)

    return check_record


def _mapping(inner: Check) -> Check:
    def check_mapping(value: Any, name: str) -> None:
        if not isinstance(value, dict) or len(value) > _MOST_ENTRIES:
            _wrong(value, name, "an object")
        for key, each in value.items():
            _text(key, f"a name in {name}")
            inner(each, f"{name}.{key[:_SHOWN]}")

    return check_mapping


def _scalar(value: Any, name: str) -> None:
    if isinstance(value, str):
        _text(value, name)
    elif not isinstance(value, bool):
        _number(value, name)


def _fact(value: Any, name: str) -> None:
    """A figure or a text about the machine, or a list or an object of them."""
    if isinstance(value, dict):
        _mapping(_scalar)(value, name)
    elif isinstance(value, list):
        _list(_scalar)(value, name)
    else:
        _scalar(value, name)


def _detail(value: Any, name: str) -> None:
    _record({"title": _text, "heads": _list(_text, 20), "rows": _list(_list(_text, 20))})(value, name)
    columns = len(value["heads"])
    if not columns or any(len(row) != columns for row in value["rows"]):
        raise FormatError(f"the rows of {name} and their heads differ in length")


def _series(value: Any, name: str) -> None:
    values = _list(_number, MOST_POINTS)
    _record(
        {
            "numbers": _list(_count, MOST_POINTS),
            "steps_a_point": _count,
            "phases": _record(dict.fromkeys(PHASES, values)),
            "slowest_ms": values,
        }
    )(value, name)
    columns = [value["numbers"], value["slowest_ms"], *(value["phases"][phase] for phase in PHASES)]
    if len({len(column) for column in columns}) != 1 or not columns[0]:
        raise FormatError(f"the columns of {name} are empty or differ in length")


def _waits(value: Any, name: str) -> None:
    _record(
        {
            "edges_ms": _list(_number, 1000),
            "counts": _list(_count, 1000),
            "slowest_ms": _number,
            "first_ms": _list(_number, MOST_FIRST_WAITS),
        }
    )(value, name)
    if len(value["edges_ms"]) != len(value["counts"]) + 1:
        raise FormatError(f"{name} has {len(value['counts'])} counts between {len(value['edges_ms'])} edges")


_FINDING = _record(
    {
        "rule": _text,
        "title": _text,
        "level": _one_of(*LEVELS),
        "file": _nothing_or(_text),
        "line": _nothing_or(_count),
        "function": _text,
        "source": _text,
        "saves_ms_per_step": _number,
        "spread_ms": _number,
        "share": _share,
        "verified": _one_of(True, False),
        "proof": _text,
        "message": _text,
        "fix": _text,
        "details": _list(_detail, 100),
    }
)
_STEPS = _record(
    {"count": _count, "measured": _count, "left_out": _mapping(_count), "batches_per_step": _number}
    | dict.fromkeys(STEP_FIGURES, _number),
    later=dict.fromkeys(LATER_STEP_FIGURES, _number),
)
_PHASE = _record({"mean_ms": _number, "p50_ms": _number, "p95_ms": _number, "spread_ms": _number, "share": _share})
_LAYER = _record(
    {"module": _text, "ops": _count, "ms": _number, "share": _share}
    | {f"{phase}_ms": _number for phase in ("forward", "backward", "optimizer", "other")},
    later={"class": _text},
)
_FUNCTIONS = _list(_record({"name": _text, "file": _text, "line": _count, "own_ms": _number}), 100)
_RULES = _list(_record({"rule": _text, "title": _text, "why": _text}))
_DOCUMENT = _record(
    {
        "schema_version": _one_of(SCHEMA_VERSION),
        "cordwood": _text,
        "script": _text,
        "folder": _text,
        "verdict": _text,
        "findings": _list(_FINDING, 1000),
        "steps": _nothing_or(_STEPS),
        "phases": _nothing_or(_record(dict.fromkeys(PHASES, _PHASE))),
        "typical_step": _nothing_or(_record(dict.fromkeys(PHASES, _number))),
        "series": _nothing_or(_series),
        "waits": _nothing_or(_waits),
        "rules": _record(dict.fromkeys(STATUSES, _RULES)),
        "cost_of_doctor": _mapping(_number),
        "environment": _mapping(_fact),
        "layers": _list(_LAYER, 1000),
        "functions": _record({"training": _FUNCTIONS, "loading": _FUNCTIONS}),
        "validation": _nothing_or(_record({"batches": _count, "milliseconds": _number, "places": _list(_text)})),
        "missing": _mapping(_text),
        "notes": _list(_text),
    }
)
