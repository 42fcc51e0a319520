"""``cordwood export``: what it prints, its exit codes, JSON, progress."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

import cordwood as cw
from cordwood import cli
from tests.packing.support.packed_stores import named, write_packed

Output = pytest.CaptureFixture[str]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return write_packed(tmp_path / "store", named(["cats/1.jpg", "dogs/2.jpg"]))


def run(*words: Any) -> int:
    return cli.main(["export", *map(str, words)])


def test_files_that_mirror_the_source(store: Path, tmp_path: Path, capsys: Output) -> None:
    assert run(store, tmp_path / "out", "--to", "pt") == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{tmp_path / 'out'}: 2 files, ")
    assert err == ""
    assert cw.load(tmp_path / "out/cats/1.pt")["name"] == "cats/1.jpg"


def test_json_is_one_document(store: Path, tmp_path: Path, capsys: Output) -> None:
    assert run(store, tmp_path / "out", "--to", "cord", "--goal", "small", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["files"] == 2
    assert document["bytes"] == sum(path.stat().st_size for path in (tmp_path / "out").rglob("*.cord"))


def test_overwriting_is_asked_for(store: Path, tmp_path: Path, capsys: Output) -> None:
    assert run(store, tmp_path / "out") == 0
    assert run(store, tmp_path / "out") == 2
    assert "--overwrite" in capsys.readouterr().err
    assert run(store, tmp_path / "out", "--overwrite", "--compress") == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--to", "cord", "--compress"], "--compress is for .pt files"),
        (["--goal", "small"], "--goal is for .cord files"),
        (["--threads", "0"], "at least one is needed"),
    ],
)
def test_wrong_use(store: Path, tmp_path: Path, capsys: Output, words: list[str], told: str) -> None:
    assert run(store, tmp_path / "out", *words) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_bad_data(store: Path, tmp_path: Path, capsys: Output) -> None:
    (store / "inputs" / "00000000.jsonl").write_bytes(b"{}\n")
    assert run(store, tmp_path / "out") == 3
    assert "00000000.jsonl" in capsys.readouterr().err


def test_progress_on_a_terminal(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert run(store, tmp_path / "out") == 0
    assert "samples  2/2" in terminal.getvalue()
