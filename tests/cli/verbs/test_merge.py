"""``cordwood merge``: what it prints, its exit codes, JSON, progress."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cordwood import cli
from tests.packing.support.packed_stores import JOB, assert_samples, named, write_packed

Output = pytest.CaptureFixture[str]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def stores(tmp_path: Path) -> list[Path]:
    return [write_packed(tmp_path / name, named([f"{name}1", f"{name}2"])) for name in "ab"]


def run(*words: Any) -> int:
    return cli.main(["merge", *map(str, words)])


def test_two_stores(stores: list[Path], tmp_path: Path, capsys: Output) -> None:
    assert run(*stores, "-o", tmp_path / "all") == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{tmp_path / 'all'}: 4 samples of 2 stores in ")
    assert err == ""
    assert_samples(tmp_path / "all", named(["a1", "a2", "b1", "b2"]))


def test_json_is_one_document(stores: list[Path], tmp_path: Path, capsys: Output) -> None:
    assert run(*stores, "--output", tmp_path / "all", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["samples"], document["copied"]) == (4, 0)
    assert document["linked"] == document["shards"]
    assert document["stores"] == [str(path) for path in stores]


def test_wrong_use_and_bad_data(stores: list[Path], tmp_path: Path, capsys: Output) -> None:
    assert run(*stores, "-o", stores[0]) == 2
    assert "exists already" in capsys.readouterr().err
    (stores[1] / "store.json").write_text("{}")
    assert run(*stores, "-o", tmp_path / "all") == 3
    assert "store.json" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run(*stores)


def test_parts_that_are_missing(tmp_path: Path, capsys: Output) -> None:
    path = write_packed(tmp_path / "p", named(["x"]), packed=replace(JOB, part=(2, 3)))
    assert run(path, "-o", tmp_path / "all") == 2
    assert "missing: 1, 3" in capsys.readouterr().err


def test_parts_in_the_order_of_a_listing(tmp_path: Path) -> None:
    """As `part-*` gives them: 1, 10, 11, 2, ..."""
    names = [f"p{number}" for number in range(1, 13)]
    paths = [
        write_packed(tmp_path / name, named([name]), start=place, packed=replace(JOB, part=(place + 1, 12)))
        for place, name in enumerate(names)
    ]
    assert run(*sorted(paths), "-o", tmp_path / "all") == 0
    assert_samples(tmp_path / "all", named(names))


def test_progress_on_a_terminal(stores: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert run(*stores, "-o", tmp_path / "all") == 0
    assert "\rshards  1/" in terminal.getvalue()
