"""What verbs print on narrow terminals: lines end between words, and tables leave columns out."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import cordwood as cw
from cordwood import cli
from cordwood.common.tables import terminal_width
from tests.doctor.support.evidences import make_report
from tests.packing.support.packed_stores import named, write_packed
from tests.store.support.small_stores import write_store

Output = pytest.CaptureFixture[str]


def shared(number: int) -> dict[str, torch.Tensor]:
    base = torch.zeros(5000)
    return {f"encoder.layers.{number}.attention.weight": torch.ones(30, 7).t(), "a.view": base[:10], "b.view": base[5:]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("files").mkdir()
    for number in range(6):
        torch.save(shared(number), Path("files") / f"{number}.pt")
    write_store(Path("s"))
    for name in "ab":
        write_packed(Path(name), named([f"{name}1", f"{name}2"]))
    make_report().save("report.json")
    return tmp_path


VERBS = {
    "inspect-file": "inspect files/0.pt",
    "inspect-files": "inspect files",
    "inspect-store": "inspect s",
    "verify": "verify s",
    "salvage": "verify s --salvage saved",
    "trim": "trim files --dry-run",
    "merge": "merge a b -o all",
    "export": "export a out",
    "dry-run": "pack files p --limit 3 --workers 0",
    "pack": "pack files p --workers 0 --quiet",
    "compare": "doctor compare report.json report.json",
}


@pytest.mark.parametrize("columns", [40, 60, 80])
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.usefixtures("folder")
def test_lines_end_between_words(verb: str, columns: int, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    words = VERBS[verb].replace(" --quiet", "").split()
    assert cli.main(words) == 0
    out = capsys.readouterr().out
    # Commands to copy stay whole, and so do words.
    long = [line for line in out.splitlines() if len(line) > columns and "next: " not in line]
    assert [line for line in long if len(line.split()) > 1 and "cordwood " not in line] == []


def test_files_and_pipes_get_whole_lines(folder: Path, capsys: Output) -> None:
    deep = folder / ("a-name-of-many-letters" * 6)
    deep.mkdir(parents=True)
    torch.save(shared(1), deep / "x.pt")
    assert cli.main(["trim", str(deep / "x.pt"), "--dry-run"]) == 0
    assert len(capsys.readouterr().out.splitlines()[0]) > 130


SHOWN: dict[str, Callable[[], object]] = {
    "report": make_report,
    "inspection": lambda: cw.inspect("files/0.pt"),
    "store": lambda: cw.inspect("s"),
    "dataset": lambda: cw.open("s"),
    "verification": lambda: cw.verify("s"),
    "packed": lambda: cw.pack([{"x": number} for number in range(3)], "list", workers=0, progress=False),
}


@pytest.mark.parametrize("columns", [40, 60])
@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.usefixtures("folder")
def test_results_that_are_printed_fit(name: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert terminal_width() == columns
    lines = str(SHOWN[name]()).splitlines()
    assert [line for line in lines if len(line) > columns and len(line.split()) > 1 and "next: " not in line] == []
