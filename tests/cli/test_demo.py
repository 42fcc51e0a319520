"""``cordwood demo`` on one batch: the files, the tables, and what it refuses."""

import importlib.util
import re
import shlex
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from cordwood import cli

ROW = re.compile(r"^(?P<title>.+?) +(?P<bytes>[\d,]+) +(?P<share>[\d.]+)% +(?P<ms>[\d.]+) ms +(?P<exact>yes|no)$")
VIEWS = re.compile(
    r"^(?P<title>.+?) +(?P<one>[\d,]+) +(?P<two>[\d,]+) +(?P<exact>yes|no) +(?P<shared>yes|no)$", re.MULTILINE
)
BATCHES = re.compile(r"^(?P<title>.+?) +(?:-|[\d.]+ ms) +[\d.]+ ms +[\d,]+ +(?P<exact>yes|no)$", re.MULTILINE)
TRAINING = re.compile(r"^(?P<title>.+?) +[\d,]+ +[\d.]+% +[\d.]+ ms +(?P<loss>[\d.]+) +(?P<same>yes|no)$", re.MULTILINE)
DOCTORED = re.compile(
    r"^  predicted [\d.,]+ ms/step, got -?[\d.,]+.*\n\n.*\n  same batches before and after, bit for bit: yes$",
    re.MULTILINE,
)
LOSSY = {"JPEG, quality 92"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "made"


def rows_of(text: str) -> dict[str, re.Match[str]]:
    return {found["title"]: found for line in text.splitlines() if (found := ROW.match(line))}


@pytest.mark.parametrize("time", ["first", "second"])
def test_the_table_and_the_files(
    time: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The second time there is no trial, so no advice.
    monkeypatch.setattr("cordwood.demo.doctored.SECONDS", 3.0 if time == "first" else 0.0)
    assert cli.main(["demo", "--folder", str(folder), "--images", "20"]) == 0
    out, err = capsys.readouterr()
    rows = rows_of(out)
    assert len(rows) == 15
    assert {title for title, row in rows.items() if row["exact"] == "no"} == LOSSY
    sizes = {title: int(row["bytes"].replace(",", "")) for title, row in rows.items()}
    # A slice of a batch of 16 carries the whole batch.
    assert sizes["torch.save(batch[i])"] > 15 * sizes["torch.save(batch[i].clone())"]
    assert sizes['cw.save(batch[i], "x.pt")'] < 1.01 * sizes["torch.save(batch[i].clone())"]
    assert sizes['cw.save(batch[i], "x.cord")'] < sizes["the clones, zipped"]
    # Of 20 images alone, what a store has besides its samples still shows.
    assert sizes["cw.pack, a store (balanced)"] < 1.2 * sizes["cordwood, balanced"]
    assert sizes["cordwood, small"] <= sizes["cordwood, balanced"] <= sizes["cordwood, raw"]
    views = {found["title"]: found for found in VIEWS.finditer(out)}
    assert [title for title, row in views.items() if row["shared"] == "no"] == [
        "torch.save([v.clone() for v in views])"
    ]
    assert len(views) == 5
    batches = {found["title"]: found for found in BATCHES.finditer(out)}
    assert len(batches) == 6
    assert {row["exact"] for row in batches.values()} == {"yes"}
    training = {found["title"]: found for found in TRAINING.finditer(out)}
    assert len(training) == 3
    assert {row["same"] for row in training.values()} == {"yes"}
    assert len({row["loss"] for row in training.values()}) == 1
    silent = "no advice, so there was nothing to follow" in out
    assert bool(DOCTORED.search(out)) is not silent  # what the doctor says is a matter of time, on a busy machine, too
    if time == "second":
        assert silent
        assert "cacheable-preprocessing abstained: there is no time for a trial" in out
    assert "reading back" in err
    for named in re.findall(r"^  (/.+)$", out, re.MULTILINE):
        assert any(Path(named).iterdir())
    assert len(list((folder / "views").iterdir())) == 10
    assert len(list((folder / "images").rglob("*.jpg"))) == 20
    assert len(list((folder / "cordwood-small").glob("*.frame"))) == 20
    for advice in re.findall(r"^  cordwood (.+)$", out, re.MULTILINE):
        assert cli.main(shlex.split(advice)) == 0
        told = capsys.readouterr().out
        assert "it was complete already" in told if advice.startswith("pack ") else "20 samples" in told


def test_a_folder_that_no_demo_made_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    precious = tmp_path / "thesis.txt"
    precious.write_text("chapter one")
    assert cli.main(["demo", "--folder", str(tmp_path)]) == 2
    assert "exists and no demo made it" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert cli.main(["demo", "--folder", str(tmp_path / "file" / "below")]) == 3
    assert "could not write below" in capsys.readouterr().err


def test_too_few_images_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "--folder", str(tmp_path / "made"), "--images", "15"]) == 2
    assert "at least 16" in capsys.readouterr().err
    assert not (tmp_path / "made").exists()


def test_a_missing_extra_is_named_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def find_spec(name: str) -> ModuleSpec | None:
        return None if name in ("cv2", "skimage") else importlib.util.find_spec(name)

    monkeypatch.setattr("cordwood.demo.photographs.find_spec", find_spec)
    assert cli.main(["demo", "--folder", str(tmp_path / "made")]) == 2
    err = capsys.readouterr().err
    assert "opencv-python-headless, scikit-image" in err
    assert "pip install 'cordwood[demo]'" in err
