"""Reports from files: what was saved comes back, and whatever else is there raises FormatError and nothing else."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.doctor.evidence.findings import CodeLine, Detail, Finding
from cordwood.doctor.report.html import format_html
from cordwood.doctor.report.report import Report
from cordwood.doctor.report.report_file import check
from cordwood.doctor.report.terminal import format_text
from cordwood.errors import FormatError, StorageError, UsageError
from tests.doctor.support.evidences import make_evidence, make_report

DETAIL = Detail("title", ("a", "b"), (("c", "1"), ("d", "2")))
DOCUMENT = make_report(
    [Finding("r", "m", "f", CodeLine("t.py", 3), 10.0, 1.0, "replay", details=(DETAIL,)), Finding("s", "m", "f")],
    make_evidence(steps=12, first_waits=(9.0, 5.0, 5.0)),
).document
DOCUMENT["layers"] = [
    {"module": "net.0", "class": "Linear", "ops": 3, "ms": 2.0, "share": 0.5}
    | {f"{phase}_ms": 0.5 for phase in ("forward", "backward", "optimizer", "other")}
]
DOCUMENT["functions"]["training"] = [{"name": "f", "file": "t.py", "line": 3, "own_ms": 1.5}]
DOCUMENT["validation"] = {"batches": 3, "milliseconds": 4.0, "places": ["t.py:4"]}
ODD: list[Any] = [None, True, -1, 1.5, 10**400, "text", [], [None], {}, {"a": 1}, "\x1b[2J", 1e308, [[]], [{}]]


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where everything in a document is."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value[:2]))
    return [path, *(each for key, child in inner for each in paths(child, (*path, key)))]


PATHS = [path for path in paths(DOCUMENT) if path]


def changed(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    document = copy.deepcopy(DOCUMENT)
    inner: Any = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return document


def removed(path: tuple[Any, ...]) -> dict[str, Any]:
    document = changed(path, None)
    inner: Any = document
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return document


def shown(document: dict[str, Any]) -> None:
    """Whatever passes the check can be shown."""
    format_text(document)
    format_html(document)


def test_a_whole_report_passes() -> None:
    check(DOCUMENT)
    check(json.loads(json.dumps(DOCUMENT)))


@given(st.sampled_from(PATHS), st.sampled_from(ODD))
def test_a_damaged_report_is_refused_or_can_be_shown(path: tuple[Any, ...], value: Any) -> None:
    document = changed(path, value)
    try:
        check(document)
    except FormatError:
        return
    shown(document)


@given(st.sampled_from(PATHS))
def test_a_report_with_something_missing_is_refused_or_can_be_shown(path: tuple[Any, ...]) -> None:
    document = removed(path)
    try:
        check(document)
    except FormatError:
        return
    shown(document)


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("findings", 0, "level"), "dire", 'findings[0].level is "dire", but one of high, medium, info is expected'),
        (("findings", 0, "share"), 1.5, "findings[0].share is 1.5, but a part of 1"),
        (("findings", 0, "details", 0, "rows"), [["a"]], "differ in length"),
        (("steps", "count"), -1, "steps.count is -1, but a count is expected"),
        (("steps", "mean_ms"), True, "steps.mean_ms is true, but a number"),
        (("phases", "wait"), None, "phases.wait is null, but an object"),
        (("series", "phases", "wait"), [1.0], "differ in length"),
        (("waits", "counts"), [1], "1 counts between"),
        (("schema_version",), 2, "its schema version is 2"),
        (("schema_version",), "1", 'schema_version is "1"'),
        (("environment",), {"a": {"b": {}}}, "environment.a.b is dict"),
    ],
)
def test_what_is_wrong_is_named(path: tuple[Any, ...], value: Any, told: str) -> None:
    with pytest.raises(FormatError) as caught:
        check(changed(path, value))
    assert told in str(caught.value)


def test_a_figure_of_later_versions_may_be_missing_but_not_wrong() -> None:
    document = copy.deepcopy(make_report().document)
    document["steps"]["typical_error_ms"] = "much"
    with pytest.raises(FormatError, match=r"^steps\.typical_error_ms is"):
        check(document)
    del document["steps"]["typical_error_ms"]
    check(document)


def test_a_missing_field_is_named() -> None:
    with pytest.raises(FormatError, match=r"^phases\.wait\.share is missing$"):
        check(removed(("phases", "wait", "share")))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe\x00",
        b"[" * 200_000,
        b"[]",
        b"null",
        b"1" * 5000,
        b'{"schema_version": NaN}',
        b'{"schema_version": 1}',
        b'{"schema_version": {"a": 1}}',
    ],
)
def test_files_that_are_no_reports(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_bytes(data)
    with pytest.raises(FormatError, match="is no report"):
        Report.load(file)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    with file.open("wb") as opened:
        opened.truncate(64 << 20)
    with pytest.raises(FormatError, match="more than 32 MiB"):
        Report.load(file)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no report .*gone\.json"):
        Report.load(tmp_path / "gone.json")
    with pytest.raises(StorageError, match="the report cannot be read"):
        Report.load(tmp_path)
