"""``cordwood trim``: files and folders, to another place or in place, or only asked for."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from cordwood import cli
from tests.store.support.small_stores import write_store
from tests.tensors.inspecting.test_inspect_damaged import flip

Output = pytest.CaptureFixture[str]
BASE = torch.arange(10_000.0).reshape(100, 100)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files with waste, one of them below, one without, and one that there is nothing to trim in."""
    inside = tmp_path / "in"
    (inside / "below").mkdir(parents=True)
    torch.save({"a": BASE[3:5], "b": BASE[4:6]}, inside / "x.pt")
    torch.save(BASE[7], inside / "below" / "y.pth", _use_new_zipfile_serialization=False)
    cw.save({"w": torch.ones(3)}, inside / "tight.pt")
    cw.save({"w": torch.ones(3)}, inside / "z.cord")
    return inside


def run(*words: Any) -> int:
    return cli.main(["trim", *map(str, words)])


def check_x(path: Path) -> None:
    loaded = torch.load(path)
    assert torch.equal(loaded["a"], BASE[3:5])
    assert torch.equal(loaded["b"], BASE[4:6])
    loaded["a"][1, 0] = -1
    assert loaded["b"][0, 0] == -1
    assert cw.inspect(path).wasted == 0


def test_one_file_to_another(folder: Path, tmp_path: Path, capsys: Output) -> None:
    before = (folder / "x.pt").read_bytes()
    assert run(folder / "x.pt", "-o", tmp_path / "small.pt") == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{tmp_path / 'small.pt'}: 41.")
    assert "% smaller)" in out
    assert err == ""
    check_x(tmp_path / "small.pt")
    assert (folder / "x.pt").read_bytes() == before
    assert cw.inspect(tmp_path / "small.pt").in_memory == cw.inspect(folder / "x.pt").reachable


def test_in_place(folder: Path) -> None:
    before = (folder / "x.pt").stat().st_size
    assert run(folder / "x.pt", "--in-place") == 0
    assert (folder / "x.pt").stat().st_size < before / 10
    check_x(folder / "x.pt")


def test_into_a_folder_and_through_the_codecs(folder: Path, tmp_path: Path) -> None:
    assert run(folder / "x.pt", "-o", f"{tmp_path}/new/") == 0
    check_x(tmp_path / "new" / "x.pt")
    assert run(folder / "x.pt", "-o", tmp_path / "x.cord") == 0
    assert cw.inspect(tmp_path / "x.cord").format == "cord"
    assert torch.equal(cw.load(tmp_path / "x.cord")["a"], BASE[3:5])


def test_compressed(tmp_path: Path) -> None:
    torch.save(torch.zeros(100, 1000)[:50], tmp_path / "x.pt")
    assert run(tmp_path / "x.pt", "-o", tmp_path / "small.pt", "--compress") == 0
    assert (tmp_path / "small.pt").stat().st_size < 20_000
    assert cw.inspect(tmp_path / "small.pt").format == "pt compressed"
    assert torch.equal(torch.load(tmp_path / "small.pt"), torch.zeros(50, 1000))


def test_a_dry_run_writes_nothing_and_tells_the_size(folder: Path, tmp_path: Path, capsys: Output) -> None:
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert run(folder / "x.pt", "--dry-run", "--json") == 0
    (told,) = json.loads(capsys.readouterr().out)["files"]
    assert run(folder, "--dry-run") == 0
    assert "nothing was written" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == files
    assert run(folder / "x.pt", "--in-place") == 0
    assert (folder / "x.pt").stat().st_size == told["after"]
    assert told["saved"] == told["before"] - told["after"] > 0


def test_a_folder_into_another(folder: Path, tmp_path: Path, capsys: Output) -> None:
    assert run(folder, "-o", tmp_path / "out") == 0
    out, err = capsys.readouterr()
    written = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.*"))
    assert written == ["below/y.pth", "tight.pt", "x.pt"]
    check_x(tmp_path / "out" / "x.pt")
    assert torch.equal(torch.load(tmp_path / "out" / "below" / "y.pth"), BASE[7])
    assert f"skipped: {folder / 'z.cord'} is a .cord file" in out
    assert "\n3 files: " in out
    assert err == "trimming files  4\n"


def test_results_inside_the_folder_are_not_trimmed_again(folder: Path, capsys: Output) -> None:
    for _ in range(2):
        assert run(folder, "-o", folder / "out", "--json") == 0
        assert len(json.loads(capsys.readouterr().out)["files"]) == 3
    assert not (folder / "out" / "out").exists()


def test_a_folder_in_place(folder: Path) -> None:
    untouched = (folder / "z.cord").read_bytes()
    assert run(folder, "--in-place") == 0
    check_x(folder / "x.pt")
    assert torch.equal(torch.load(folder / "below" / "y.pth"), BASE[7])
    assert (folder / "z.cord").read_bytes() == untouched


def test_json_tells_everything(folder: Path, tmp_path: Path, capsys: Output) -> None:
    (folder / "broken.pt").write_bytes((folder / "x.pt").read_bytes()[:5000])
    assert run(folder, "-o", tmp_path / "out", "--json") == 3
    document = json.loads(capsys.readouterr().out)
    assert [Path(file["source"]).name for file in document["files"]] == ["tight.pt", "x.pt", "y.pth"]
    assert [Path(each["path"]).name for each in document["skipped"]] == ["z.cord"]
    assert [Path(each["path"]).name for each in document["failed"]] == ["broken.pt"]
    assert document["total"]["saved"] == sum(file["saved"] for file in document["files"])
    assert document["dry_run"] is False
    check_x(tmp_path / "out" / "x.pt")


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_program_among_others_is_left_alone(folder: Path, capsys: Output) -> None:
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), folder / "program.pt")
    before = (folder / "program.pt").read_bytes()
    assert run(folder, "--in-place") == 0
    assert "program.pt is a TorchScript archive" in capsys.readouterr().out
    assert (folder / "program.pt").read_bytes() == before


def test_damage_is_a_finding(tmp_path: Path, capsys: Output) -> None:
    torch.save({"w": torch.arange(1000.0), "v": torch.zeros(1000)[:10]}, tmp_path / "x.pt")
    flip(tmp_path / "x.pt", "x/data/0", 99)
    assert run(tmp_path / "x.pt", "-o", tmp_path / "small.pt") == 1
    assert "damaged: x/data/0" in capsys.readouterr().out


def test_bad_data(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "x.pt").write_bytes(b"PK\x03\x04 and no more")
    assert run(tmp_path / "x.pt", "-o", tmp_path / "small.pt") == 3
    assert not (tmp_path / "small.pt").exists()
    assert capsys.readouterr().err.startswith("cordwood: ")


def test_wrong_use(folder: Path, tmp_path: Path, capsys: Output) -> None:
    shutil.copy(folder / "x.pt", folder / "below" / "x.pt")
    for words, told in [
        ((folder / "x.pt",), "say where to"),
        ((folder / "z.cord", "--in-place"), "is a .cord file"),
        ((tmp_path / "nothing.pt", "--in-place"), "no such file or folder"),
        ((folder, "-o", folder / "x.pt"), "is a file"),
        ((folder / "x.pt", folder / "below" / "x.pt", "-o", tmp_path / "out"), "two of the files would become"),
        ((folder / "x.pt", "-o", folder / "x.pt"), "--in-place"),
    ]:
        assert run(*words) == 2
        assert told in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        run(folder / "x.pt", "-o", tmp_path / "y.pt", "--in-place")
    assert stop.value.code == 2


def test_a_place_that_cannot_be_written(folder: Path, capsys: Output) -> None:
    assert run(folder, "-o", folder / "x.pt" / "out") == 3
    assert "nothing was written" in capsys.readouterr().err


def test_a_store_is_not_trimmed(tmp_path: Path, capsys: Output) -> None:
    store = write_store(tmp_path / "x.cordwood", 3)
    assert run(store, "--in-place") == 2
    assert capsys.readouterr().err == (
        f"cordwood: {store} is a store, and has no tensor files in it: cordwood inspect {store} shows what it holds\n"
    )


def test_a_file_is_not_written_over_itself(folder: Path, capsys: Output) -> None:
    before = (folder / "x.pt").read_bytes()
    for words in ((folder / "x.pt", "-o", folder / "x.pt"), (folder, "-o", folder)):
        assert run(*words) == 2
        assert "would be written over itself; say --in-place in place of -o" in capsys.readouterr().err
    assert (folder / "x.pt").read_bytes() == before
