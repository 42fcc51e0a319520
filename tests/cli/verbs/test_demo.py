"""``cordwood demo``, once from end to end on one batch of images, and what it refuses."""

import importlib.util
import io
import re
import shlex
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from PIL import Image

from cordwood import cli, demo
from cordwood.common.numbers import milliseconds
from cordwood.demo import DemoReport, format_page, format_report
from cordwood.demo.acts import doctor
from cordwood.demo.run import MARKER, claim_folder
from cordwood.doctor.report.report import Report as DoctorsReport
from cordwood.packing import pack
from tests.demo.finding import finding_in

IMAGES = 16


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[DemoReport]:
    """What the command's demos have found; few images need no workers to be packed, and nobody looks at the times."""
    found: list[DemoReport] = []
    really = demo.run_demo

    def run_demo(*words: object, **options: object) -> DemoReport:
        found.append(really(*words, **options))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(demo, "run_demo", run_demo)
    monkeypatch.setattr(
        "cordwood.demo.acts.pack.pack", lambda *words, **options: pack(*words, **options | {"workers": 0})
    )
    monkeypatch.setattr("cordwood.demo.acts.pack.TURNS", 2)
    monkeypatch.setattr("cordwood.demo.acts.kept.TIMED_SAMPLES", 3)
    return found


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """The finding that the doctor has in any case: what trials find is a matter of time, on a busy machine."""
    found: list[dict[str, object]] = []
    really = doctor.examine

    def examine(where: Path, name: str, seconds: float) -> tuple[str, DoctorsReport]:
        command, report = really(where, name, 0)  # no trials
        if name == "before":
            monkeypatch.chdir(where)
            found.append(finding_in(where))
            report.findings.insert(0, found[0])
            report.save(where / "before.json")
        return command, report

    monkeypatch.setattr(doctor, "examine", examine)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # of the commands: others are being tested at the same time
    return found


@pytest.mark.slow
def test_the_demo_from_end_to_end(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    reports: list[DemoReport],
    told: list[dict[str, object]],
) -> None:
    folder = tmp_path / "made"
    assert cli.main(["demo", "--output", str(folder), "--images", str(IMAGES)]) == 0
    out, err = capsys.readouterr()
    (report,) = reports
    assert out == format_report(report) + "\n\n"
    check_width(out, err, folder)
    assert "reading back" in err
    assert (folder / "index.html").read_text(encoding="utf-8") == format_page(report)
    assert (report.images.images, report.packing.packed.samples) == (IMAGES, IMAGES)
    check_sizes(report)
    check_training(report)
    check_what_is_named(report, out, capsys)
    check_the_loop(report, told[0], folder / "doctor")


def check_width(out: str, err: str, folder: Path) -> None:
    """Everything fits a window as it opens; but for what somebody copies, which is broken for no window."""
    copied = ("  $ ", "  + ", "  - ", "  next: ", "  cordwood ", "      --")
    wide = [line for line in [*out.splitlines(), *err.splitlines()] if len(line) > 80]
    assert [line for line in wide if not line.startswith(copied) and str(folder) not in line] == []


def check_sizes(report: DemoReport) -> None:
    rows = {row.title: row for row in report.compared.rows}
    assert [title for title, row in rows.items() if not row.is_exact] == ["JPEG, quality 92"]
    assert all(row.read_seconds > 0 for row in rows.values())
    shares = {title: report.compared.share(row) for title, row in rows.items()}
    assert shares["torch.save(batch[i])"] > IMAGES - 1  # a slice carries its whole batch
    assert shares["torch.save(batch[i].clone())"] == 1
    assert shares['cw.save(batch[i], "x.cord")'] < shares["PNG, level 3"] < shares["the clones, zipped"] < 0.5
    small, balanced, fast = (shares[f'codecs.encode(x, "{goal}")'] for goal in ("small", "balanced", "fast"))
    assert small <= balanced <= fast
    # Of so few images, what a store has besides its samples still shows.
    assert shares["cw.pack, a store (balanced)"] < 1.3 * balanced
    assert sum(row.is_ours for row in rows.values()) == 5
    assert [batch.is_exact for batch in report.compared.batches] == [True] * 6
    assert [batch.is_ours for batch in report.compared.batches] == [False] * 3 + [True] * 3
    assert [row.title for row in report.views.rows if not row.is_shared] == ["torch.save(clones of views)"]


def check_training(report: DemoReport) -> None:
    rows = report.training.rows
    assert [row.is_same for row in rows] == [True] * 3
    assert len({tuple(step.loss for step in row.steps) for row in rows}) == 1
    assert [row.is_ours for row in rows] == [False, False, True]


def check_the_loop(report: DemoReport, finding: dict[str, object], folder: Path) -> None:
    """The advice is followed to the letter: what was run and written is what was printed."""
    result = report.doctored
    assert result.has_advice
    command, _, where, *lines = str(finding["fix"]).splitlines()
    assert result.packing == command == "cordwood pack train:Photographs train.cordwood"
    assert where == f"# {result.where}:" == f"# in train.py, in place of line {finding['line']}:"
    assert list(result.lines) == lines
    assert result.finding.startswith(f"{doctor.RULE} at train.py:{finding['line']} saves 10.0 ± 0.5 ms/step")
    before, after = ((folder / name).read_text().splitlines() for name in (doctor.UNCHANGED, doctor.NAME))
    place = before.index(f"    {finding['source']}")
    assert after == [*before[:place], *[f"    {line}" for line in lines], *before[place + 1 :]]
    assert list(result.removed) == [finding["source"]]
    # Both ran to their ends, and were compared.
    documents = [DoctorsReport.load(folder / name).document for name in ("before.json", "after.json")]
    assert [document["steps"]["count"] for document in documents] == [200, 200]
    assert result.before_phases["wait"] == documents[0]["phases"]["wait"]["mean_ms"]
    assert result.after_phases["wait"] == documents[1]["phases"]["wait"]["mean_ms"]
    assert re.match(r"predicted [\d.,]+ ms/step, got ", result.compared[1])
    # The first line ends with it if there is a difference beyond the noise.
    assert result.times_as_fast is not None
    assert result.before_ms is not None
    assert result.compared[0].count(milliseconds(result.before_ms)) == 1  # the page's picture has the same figure
    fast = re.search(r"([\d.,]+) times as fast", result.compared[0])
    assert result.is_clear == (fast is not None)
    assert fast is None or float(fast[1].replace(",", "")) == pytest.approx(result.times_as_fast, rel=0.01)
    # The batches are the same, and that is looked at.
    assert result.is_same
    images = sorted((report.folder / "images").glob("*/*.jpg"))
    Image.new("RGB", (300, 260), "teal").save(images[11])
    assert not doctor.same_batches(folder / doctor.UNCHANGED, folder / "train.cordwood")
    images[-1].unlink()
    assert not doctor.same_batches(folder / doctor.UNCHANGED, folder / "train.cordwood")


def check_what_is_named(report: DemoReport, out: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Files that are there, and commands that work."""
    assert [made.path.relative_to(report.folder).as_posix() for made in report.made] == [
        "index.html",
        "images",
        "photographs.cordwood",
        "kept",
        "views",
        "doctor/train.py",
        "doctor/before.html",
        "doctor/after.html",
    ]
    for made in report.made:
        assert f"\n  {made.path.relative_to(report.folder).as_posix()}  " in out
        assert made.path.is_file() or any(made.path.iterdir())
    # Of what every other way has made, one sample is left.
    ways = [[file.name for file in sorted(way.iterdir())] for way in (report.folder / "kept").iterdir()]
    assert len(ways) == 11
    assert {tuple(Path(name).stem for name in names) for names in ways} == {("00000",), ("00000", "plan")}
    left = sum(file.stat().st_size for file in report.folder.rglob("*") if file.is_file())
    assert report.nbytes == left - (report.folder / "index.html").stat().st_size < 30_000_000
    assert cli.main([*shlex.split(report.packing.command)[1:], "--workers", "0"]) == 0
    assert "it was complete already" in capsys.readouterr().out
    commands = re.findall(r"^  cordwood (.+)$", out, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["inspect", "verify", "inspect", "trim"]
    for command, expected in zip(commands, ["16 samples", "16 samples", "4.0 MB wasted", "4.0 MB"], strict=True):
        assert cli.main(shlex.split(command)) == 0
        assert expected in capsys.readouterr().out


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_on_a_terminal_the_line_of_progress_makes_room_for_an_act(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    seen: list[str] = []

    def run_demo(
        folder: Path,
        *,
        images: int,
        progress: Callable[[str, int, int], None],
        show: Callable[[str], None],
        bar: bool,
    ) -> None:
        assert (folder, images, bar) == (Path("there"), 20, True)
        progress("making", 1, 2)
        show("1. An act")
        seen.append(terminal.getvalue())
        progress("more", 1, 2)

    monkeypatch.setattr(demo, "run_demo", run_demo)
    assert cli.main(["demo", "--output", "there", "--images", "20"]) == 0
    wiped = "\rmaking  1/2\r" + " " * 11 + "\r"
    assert seen == [wiped]
    assert terminal.getvalue() == wiped + "\rmore  1/2\r" + " " * 9 + "\r"
    assert capsys.readouterr().out == "1. An act\n\n"


def test_a_folder_of_an_earlier_demo_is_emptied(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    claim_folder(folder)
    (folder / "images").mkdir()
    (folder / "images" / "1.jpg").write_bytes(b"")
    claim_folder(folder)
    assert [path.name for path in folder.iterdir()] == [MARKER]


def test_a_folder_that_no_demo_made_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    precious = tmp_path / "thesis.txt"
    precious.write_text("chapter one")
    assert cli.main(["demo", "--output", str(tmp_path)]) == 2
    assert "exists and no demo made it" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert cli.main(["demo", "--output", str(tmp_path / "file" / "below")]) == 3
    assert "could not write below" in capsys.readouterr().err


def test_too_few_images_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "--output", str(tmp_path / "made"), "--images", "15"]) == 2
    assert "at least 16" in capsys.readouterr().err
    assert not (tmp_path / "made").exists()


def test_a_missing_extra_is_named_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def find_spec(name: str) -> ModuleSpec | None:
        return None if name in ("cv2", "skimage") else importlib.util.find_spec(name)

    monkeypatch.setattr("cordwood.demo.acts.photographs.find_spec", find_spec)
    assert cli.main(["demo", "--output", str(tmp_path / "made")]) == 2
    err = capsys.readouterr().err
    assert "opencv-python-headless, scikit-image" in err
    assert "pip install 'cordwood[demo]'" in err
