"""``cordwood inspect`` of stores, beside files: tables, JSON, exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from cordwood import cli
from tests.store.support.small_stores import flip, frame_of, shard, write_store

Output = pytest.CaptureFixture[str]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return write_store(tmp_path / "x.cordwood", 12)


def run(*words: Any) -> int:
    return cli.main(["inspect", *map(str, words)])


def test_a_store_is_its_table(store: Path, capsys: Output) -> None:
    assert run(store) == 0
    out, err = capsys.readouterr()
    assert out == f"{cw.inspect(store)}\n"
    assert err == ""


def test_stores_beside_files(store: Path, tmp_path: Path, capsys: Output) -> None:
    torch.save({"w": torch.ones(3)}, tmp_path / "x.pt")
    assert run(tmp_path / "x.pt", store) == 0
    assert capsys.readouterr().out == f"{cw.inspect(store)}\n\n{cw.inspect(tmp_path / 'x.pt')}\n"


def test_a_folder_of_files_is_no_store(store: Path, tmp_path: Path, capsys: Output) -> None:
    torch.save({"w": torch.ones(3)}, tmp_path / "x.pt")
    assert run(tmp_path) == 0
    assert capsys.readouterr().out.startswith(str(tmp_path / "x.pt"))


def test_json_has_both(store: Path, tmp_path: Path, capsys: Output) -> None:
    torch.save({"w": torch.ones(3)}, tmp_path / "x.pt")
    assert run(store, tmp_path / "x.pt", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["stores"] == [cw.inspect(store).to_dict()]
    assert [file["format"] for file in document["files"]] == ["pt"]
    assert document["total"]["files"] == 1


def test_all_shows_every_field(tmp_path: Path, capsys: Output) -> None:
    with cw.Writer(tmp_path / "x") as writer:
        writer.append({f"f{number}": number for number in range(70)})
    run(tmp_path / "x")
    assert "... 10 more fields" in capsys.readouterr().out
    run(tmp_path / "x", "--all")
    out = capsys.readouterr().out
    assert "more fields" not in out
    assert "\nf69 " in out


def test_damage_is_a_finding(store: Path, capsys: Output) -> None:
    flip(shard(store, 1), frame_of(store, 1, 0, "image")[-2])
    assert run(store) == 1
    assert "damaged   shard-00000001.cws: sample" in capsys.readouterr().out


def test_a_store_that_cannot_be_opened_is_bad_data(store: Path, capsys: Output) -> None:
    (store / "store.json").unlink()
    assert run(store) == 3
    assert "not readable" in capsys.readouterr().out
    assert run(store, "--json") == 3
    (told,) = json.loads(capsys.readouterr().out)["unreadable"]
    assert told["path"] == str(store)


def test_a_folder_of_stores_says_how_to_look_at_one(store: Path, tmp_path: Path, capsys: Output) -> None:
    assert run(tmp_path) == 2
    err = capsys.readouterr().err
    assert "has no tensor files in it" in err
    assert err.endswith(f"stores are named one by one: cordwood inspect {store}\n")
