"""Figures go from workers to the report through files that nobody trusts."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.doctor.evidence.fetch_figures import MOST_FUNCTIONS, Figures, read, write
from cordwood.doctor.evidence.fetch_stages import Function
from cordwood.errors import FormatError

FIGURES = Figures(
    process=12,
    worker=1,
    workers=2,
    dataset=0xABC,
    batches=30,
    get_ns=5_000_000,
    functions={Function("f", "a.py", 3, "decode"): 17, Function("zlib.decompress", "", 0, "decode"): 4},
    lines={("a.py", 5, "f"): 9},
    files=["a.jpg"],
    note="the script profiles itself",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "fetches-1.json"


def test_what_is_written_is_read(path: Path) -> None:
    write(FIGURES, path)
    assert read(path) == FIGURES
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_only_the_functions_with_most_time_are_written(path: Path) -> None:
    many = Figures(1, functions={Function(str(own), "", 0, "read"): own for own in range(MOST_FUNCTIONS + 50)})
    write(many, path)
    assert sorted(read(path).functions.values()) == list(range(50, MOST_FUNCTIONS + 50))


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=20,
)


@given(field=st.sampled_from(sorted(vars(FIGURES))), value=ANY_JSON)
def test_a_field_of_any_kind_gives_figures_or_a_format_error(
    tmp_path_factory: pytest.TempPathFactory, field: str, value: Any
) -> None:
    path = tmp_path_factory.getbasetemp() / "fetches-any.json"
    write(FIGURES, path)
    document = json.loads(path.read_text())
    document[field] = value
    path.write_text(json.dumps(document))
    try:
        figures = read(path)
    except FormatError:
        return
    write(figures, path)
    assert read(path) == figures


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batches": -1}, "-1 where an integer from 0 on"),
        ({"batches": True}, "True where an integer"),
        ({"worker": -2}, "-2 where an integer from -1 on"),
        ({"get_ns": 1 << 70}, "where an integer"),
        ({"note": 3}, "int where a short text"),
        ({"note": "x" * 5000}, "short text"),
        ({"files": ["a"] * 21}, "'files' is not a list of at most 20"),
        ({"functions": [["f", "a.py", 3, "cook", 4]]}, "stage 'cook'"),
        ({"functions": [["f", "a.py", 3]]}, "does not have 5 columns"),
        ({"lines": [["a.py", "5", "f", 9]]}, "5 where an integer"),
    ],
)
def test_what_is_wrong_is_said(path: Path, change: dict[str, Any], message: str) -> None:
    write(FIGURES, path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(FormatError, match=message):
        read(path)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", b"{}", b"[" * 100_000, b" " * (4 << 20) + b"{}"])
def test_other_files_are_refused(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with pytest.raises(FormatError):
        read(path)


def test_a_missing_file_is_refused(path: Path) -> None:
    with pytest.raises(FormatError, match="cannot be read"):
        read(path)
