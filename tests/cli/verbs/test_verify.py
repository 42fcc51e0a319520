"""``cordwood verify``: what it prints, its exit codes, JSON, salvage, progress."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

import cordwood as cw
from cordwood import cli
from tests.store.support.small_stores import assert_holds, files_of, first_of, flip, frame_of, shard, write_store

Output = pytest.CaptureFixture[str]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return write_store(tmp_path / "x.cordwood", 12)


@pytest.fixture
def damaged(store: Path) -> Path:
    flip(shard(store, 1), frame_of(store, 1, 0, "image")[-2])
    return store


def run(*words: Any) -> int:
    return cli.main(["verify", *map(str, words)])


def test_a_good_store(store: Path, capsys: Output) -> None:
    assert run(store) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{store}: store, 12 samples in ")
    assert out.endswith(": all good\n")
    assert err == ""


def test_damage_is_named_and_bad_data(damaged: Path, capsys: Output) -> None:
    number = first_of(damaged, 1)
    assert run(damaged) == 3
    out = capsys.readouterr().out
    assert f"shard-00000001.cws, sample {number}, field 'image'" in out
    assert f"lost      1 of 12 samples: {number}\n" in out
    assert out.endswith(f"to keep what is good: cordwood verify {damaged} --salvage OUT\n")


def test_where_nothing_is_left_packing_again_is_advised(store: Path, tmp_path: Path, capsys: Output) -> None:
    advice = "there is nothing to salvage: restore the store from a copy, or pack its source again, into a new folder\n"
    for path in store.glob("*.cws"):
        path.unlink()
    assert run(store) == 3
    out = capsys.readouterr().out
    assert "lost      12 of 12 samples" in out
    assert out.endswith(f"\n\n{advice}")
    assert "--salvage" not in out
    assert run(store, "--salvage", tmp_path / "saved") == 3
    assert capsys.readouterr().err.endswith(f"no sample is good; {advice}")


def test_json_is_one_document(damaged: Path, capsys: Output) -> None:
    number = first_of(damaged, 1)
    assert run(damaged, "--json") == 3
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is False
    assert document["lost"] == [[number, number]]
    (damage,) = document["damages"]
    assert (damage["file"], damage["first"], damage["field"]) == ("shard-00000001.cws", number, "image")
    assert (damage["reason"], "salvaged" in document) == (15, False)


def test_json_of_a_good_store(store: Path, capsys: Output) -> None:
    assert run(store, "--json", "--threads", 1) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True


def test_salvage(damaged: Path, tmp_path: Path, capsys: Output) -> None:
    number, before = first_of(damaged, 1), files_of(damaged)
    assert run(damaged, "--salvage", tmp_path / "saved") == 3
    out = capsys.readouterr().out
    assert f"sample {number}, field 'image'" in out
    assert out.endswith(f"{tmp_path / 'saved'}: 11 of 12 samples; 1 is lost: {number}\n")
    assert_holds(tmp_path / "saved", [n for n in range(12) if n != number])
    assert files_of(damaged) == before
    assert run(tmp_path / "saved") == 0


def test_salvage_as_json(damaged: Path, tmp_path: Path, capsys: Output) -> None:
    assert run(damaged, "--salvage", tmp_path / "saved", "--json") == 3
    assert json.loads(capsys.readouterr().out)["salvaged"] == {"out": str(tmp_path / "saved"), "kept": 11, "notes": []}


def test_salvage_does_not_write_over_anything(damaged: Path, tmp_path: Path, capsys: Output) -> None:
    assert run(damaged, "--salvage", damaged) == 2
    assert "exists already" in capsys.readouterr().err


def test_much_damage_is_shortened(tmp_path: Path, capsys: Output) -> None:
    store = write_store(tmp_path / "many.cordwood", 60, shard_bytes=1)
    for number in range(0, 60, 2):
        flip(shard(store, number), -30)
    assert run(store) == 3
    assert "... 10 more" in capsys.readouterr().out
    assert run(store, "--all") == 3
    assert "shard-00000058.cws" in capsys.readouterr().out


def test_wrong_use_is_told_in_a_line(tmp_path: Path, store: Path, capsys: Output) -> None:
    assert run(tmp_path / "nothing") == 2
    assert "no such folder" in capsys.readouterr().err
    assert run(tmp_path) == 2
    assert "this is no store" in capsys.readouterr().err
    assert run(store, "--threads", 0) == 2
    assert "at least one" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        run()
    assert stop.value.code == 2


def test_names_cannot_play_with_the_terminal(tmp_path: Path, capsys: Output) -> None:
    store = tmp_path / "\x1b[2J.cordwood"
    with cw.Writer(store) as writer:
        writer.append({"\x1b[31m": "text", "n": 1})
        writer.append({"\x1b[31m": "more", "n": 2})
    flip(shard(store, 0), 40)
    assert run(store) == 3
    assert run(store, "--salvage", tmp_path / "\x1b]0;x") == 3
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err


def test_progress_is_for_terminals(store: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert run(store) == 0
    assert "verifying x.cordwood, MB  0/0" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r")  # and wiped
