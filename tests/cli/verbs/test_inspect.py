"""``cordwood inspect``: tables, lines and JSON, for files and folders, and exit codes."""

import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from cordwood import cli
from tests.tensors.inspecting.test_inspect_damaged import flip

Output = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Six tensor files, two of them below, and files of other kinds."""
    (tmp_path / "below").mkdir()
    torch.save(torch.zeros(100, 100)[3], tmp_path / "waste.pt")
    torch.save({"w": torch.ones(3)}, tmp_path / "fine.PTH")
    torch.save({"model": {"w": torch.ones(3)}, "epoch": 3}, tmp_path / "run.ckpt")
    torch.save({"w": torch.ones(3)}, tmp_path / "weights.bin", _use_new_zipfile_serialization=False)
    cw.save({"w": torch.ones(3)}, tmp_path / "below" / "x.cord")
    cw.save({"w": torch.ones(3)}, tmp_path / "below" / "x.pt.zip")
    (tmp_path / "other.bin").write_bytes(b"machine code")
    (tmp_path / "notes.txt").write_text("text")
    return tmp_path


def run(*words: Any) -> int:
    return cli.main(["inspect", *map(str, words)])


def test_one_file_is_its_table(folder: Path, capsys: Output) -> None:
    assert run(folder / "waste.pt") == 0
    out, err = capsys.readouterr()
    assert out == f"{cw.inspect(folder / 'waste.pt')}\n"
    assert "39.6 kB of 40.0 kB is unreachable: cordwood trim" in " ".join(out.split())
    assert err == ""


def test_few_files_are_a_table_each_and_a_total(folder: Path, capsys: Output) -> None:
    assert run(folder / "waste.pt", folder / "fine.PTH") == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{cw.inspect(folder / 'waste.pt')}\n\n{cw.inspect(folder / 'fine.PTH')}\n")
    assert out.endswith("40.0 kB in memory, 412 B reachable, 39.6 kB wasted (99.0%)\n")
    assert err == "inspecting files  2\n"


def test_a_folder_is_a_line_for_each_tensor_file_and_a_total(folder: Path, capsys: Output) -> None:
    assert run(folder) == 0
    lines = capsys.readouterr().out.splitlines()
    names = ["fine.PTH", "run.ckpt", "waste.pt", "weights.bin", "x.cord", "x.pt.zip"]
    assert [line.split()[0].rpartition("/")[2] for line in lines[2:8]] == names
    assert all(len(line) <= 100 for line in lines)
    assert "training checkpoint" in lines[3]
    assert "39.6 kB" in lines[4]
    assert lines[-1].startswith("6 files, ")


@pytest.mark.parametrize("one_more", [0, 1])
def test_how_many_files_are_few_is_what_the_help_says(one_more: int, tmp_path: Path, capsys: Output) -> None:
    with pytest.raises(SystemExit):
        cli.main(["inspect", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    (told,) = re.findall(r"up to (\d+) files: a table each; more: one line a file; and a total", said)
    for number in range(int(told) + one_more):
        torch.save(torch.ones(3), tmp_path / f"{number}.pt")
    assert run(tmp_path) == 0
    out = capsys.readouterr().out
    assert out.count("(the tensor itself)") == (0 if one_more else int(told))
    assert out.splitlines()[-1].startswith(f"{int(told) + one_more} files, ")


def test_all_shows_every_row(tmp_path: Path, capsys: Output) -> None:
    torch.save([torch.ones(1) for _ in range(100)], tmp_path / "x.pt")
    run(tmp_path / "x.pt")
    assert "... 40 more rows" in capsys.readouterr().out
    run(tmp_path / "x.pt", "--all")
    out = capsys.readouterr().out
    assert "more rows" not in out
    assert len(out.splitlines()) > 100


def test_json_is_one_document(folder: Path, capsys: Output) -> None:
    assert run(folder, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["files"]) == document["total"]["files"] == 6
    assert document["unreadable"] == []
    wasteful = [file for file in document["files"] if file["wasted"]]
    assert [Path(file["path"]).name for file in wasteful] == ["waste.pt"]
    assert document["total"]["wasted"] == wasteful[0]["wasted"] == 39_600
    assert wasteful[0]["tensors"][0]["shape"] == [100]
    assert run(folder / "fine.PTH", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["files"]) == 1


def test_damage_is_a_finding(folder: Path, capsys: Output) -> None:
    flip(folder / "waste.pt", "waste/data/0", 5)
    assert run(folder / "waste.pt") == 1
    assert "1 of 7 records damaged" in capsys.readouterr().out
    assert run(folder) == 1
    assert "1 damaged" in capsys.readouterr().out
    assert run(folder / "waste.pt", "--no-check") == 0
    assert "not checked" in capsys.readouterr().out


def test_what_cannot_be_read_at_all_is_bad_data(folder: Path, capsys: Output) -> None:
    (folder / "empty.pt").write_bytes(b"")
    assert run(folder / "empty.pt") == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "not readable"
    assert "the file is empty" in lines[1]
    assert run(folder) == 3
    out = capsys.readouterr().out
    assert "not readable" in out
    assert "6 files, " in out
    assert run(folder / "empty.pt", "--json") == 3
    (told,) = json.loads(capsys.readouterr().out)["unreadable"]
    assert told["path"].endswith("empty.pt")
    assert "the file is empty" in told["error"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(folder: Path, capsys: Output) -> None:
    (folder / "waste.pt").chmod(0)
    assert run(folder / "waste.pt") == 3
    assert "Permission denied" in capsys.readouterr().out


def test_wrong_use_is_told_in_a_line(tmp_path: Path, capsys: Output) -> None:
    assert run(tmp_path / "nothing.pt") == 2
    assert "no such file or folder" in capsys.readouterr().err
    assert run(tmp_path) == 2
    assert "has no tensor files in it" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        run()
    assert stop.value.code == 2


def test_a_name_cannot_play_with_the_terminal(tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "\x1b[2J.pt"
    torch.save({"\x1b[31m": torch.ones(2)}, path)
    (tmp_path / "\x1b]0;x.pt").write_bytes(b"")
    assert run(tmp_path) == 3
    assert "\x1b" not in capsys.readouterr().out


def test_progress_within_a_file_is_for_terminals(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert run(folder / "waste.pt") == 0
    assert "checking waste.pt, MB" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r")  # and wiped
    assert capsys.readouterr().out.startswith(str(folder))


def test_tables_shorten_names_for_a_narrow_terminal(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "long.pt"
    torch.save({f"encoder.layers.{number}.attention.output.dense.weight": torch.ones(30) for number in range(3)}, file)
    assert run(file) == 0
    assert "encoder.layers.2.attention.output.dense.weight" in capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "60")
    assert run(file) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.startswith(str(file))
    assert max(map(len, lines)) == 60
    monkeypatch.setenv("COLUMNS", "300")
    assert run(file) == 0
    assert capsys.readouterr().out == f"{cw.inspect(file)}\n"


def test_lines_of_many_files_shorten_names_for_a_narrow_terminal(
    folder: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(folder) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines[:8])) <= 80
    assert [line.split()[0].endswith(".pt") for line in lines[2:8]] == [False, False, True, False, False, False]
