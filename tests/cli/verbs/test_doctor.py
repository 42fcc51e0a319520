"""``cordwood doctor``: whose options are whose, what is printed where, and exit codes."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cordwood import cli, doctor
from cordwood.cli.verbs.doctor import _Judging, print_report
from cordwood.doctor.evidence.findings import CodeLine, Finding
from cordwood.doctor.report.report import Report
from tests.doctor.support.evidences import make_report
from tests.doctor.support.runs import run_preloaded

Output = pytest.CaptureFixture[str]
FINDING = Finding("hidden-sync", "message", "fix", CodeLine("t.py", 3), 20.0, 1.0, "measured")


@dataclass
class Runs:
    """Stands in for running a script: notes how it was called, and answers as told."""

    code: int = 0
    report: Report | None = None
    remove: Path | None = None  # a folder that the script removes
    look: Callable[[], object] = lambda: None  # called when the script begins
    calls: list[tuple[str, list[str], doctor.DoctorOptions, bool]] = field(default_factory=list)

    def __call__(
        self, target: str, arguments: list[str], options: doctor.DoctorOptions, *, module: bool = False
    ) -> tuple[int, Report | None]:
        self.look()
        self.calls.append((target, list(arguments), options, module))
        print("the script's own words")
        if self.remove is not None:
            self.remove.rmdir()
        return self.code, self.report


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Runs:
    made = Runs(report=make_report())
    monkeypatch.setattr(doctor, "run_script", made)
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "compare"):
        Path(name).touch()
    return made


@pytest.mark.parametrize(
    ("words", "target", "arguments", "module"),
    [
        (["train.py"], "train.py", [], False),
        (["train.py", "--epochs", "1"], "train.py", ["--epochs", "1"], False),
        (["train.py", "--steps", "3", "--json", "x"], "train.py", ["--steps", "3", "--json", "x"], False),
        (["train.py", "-m", "x", "-h", "--version"], "train.py", ["-m", "x", "-h", "--version"], False),
        (["train.py", "--s", "1", "--", "--quiet"], "train.py", ["--s", "1", "--", "--quiet"], False),
        (["-m", "pkg.train", "--json", "x"], "pkg.train", ["--json", "x"], True),
        (["--quiet", "-m", "pkg.train", "compare"], "pkg.train", ["compare"], True),
        (["-m", "compare", "a"], "compare", ["a"], True),
        (["./compare", "a", "b"], "./compare", ["a", "b"], False),
        (["--", "train.py", "-x"], "train.py", ["-x"], False),
    ],
)
def test_what_follows_the_script_is_the_scripts(
    words: list[str], target: str, arguments: list[str], module: bool, runs: Runs
) -> None:
    assert cli.main(["doctor", *words]) == 0
    ((was_target, was_arguments, options, was_module),) = runs.calls
    assert (was_target, was_arguments, was_module) == (target, arguments, module)
    assert options.steps is None


def test_what_comes_before_it_is_the_doctors(runs: Runs) -> None:
    words = ["--steps", "50", "--seconds", "3", "--pstats", "p.stats", "-m", "pkg.train", "--steps", "7"]
    assert cli.main(["doctor", *words]) == 0
    ((target, arguments, options, module),) = runs.calls
    assert (target, arguments, module) == ("pkg.train", ["--steps", "7"], True)
    assert options == doctor.DoctorOptions(steps=50, seconds=3.0, pstats=str(Path.cwd() / "p.stats"))


def test_an_option_behind_the_script_is_told_of(runs: Runs, capsys: Output) -> None:
    cli.main(["doctor", "--json", "r.json", "train.py", "--html=r.html", "--steps", "7"])
    assert "--html stands behind train.py" in (err := capsys.readouterr().err)
    assert "cordwood doctor --html FILE train.py" in err
    assert "--json stands" not in err
    cli.main(["doctor", "-m", "pkg.train", "--json", "z.json"])
    assert "cordwood doctor --json FILE -m pkg.train\n" in capsys.readouterr().err
    cli.main(["doctor", "--quiet", "-m", "pkg.train", "--json", "z.json"])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "before"), [("train()", True), ("import argparse; train()", False), ("train(get_args())", False)]
)
def test_a_script_without_options_is_warned_for_before_it_runs(
    text: str, before: bool, runs: Runs, capsys: Output
) -> None:
    Path("train.py").write_text(text)
    runs.report = None
    told: list[str] = []
    runs.look = lambda: told.append(capsys.readouterr().err)
    cli.main(["doctor", "train.py", "--html", "r.html"])
    assert ("--html stands behind train.py" in told[0]) is before
    assert ("--html stands behind train.py" in capsys.readouterr().err) is not before


@pytest.mark.parametrize("words", [["--json", "z"], ["--json"], ["--json=made.json"], ["--json", "made.json"]])
def test_an_option_of_the_scripts_own_is_not(runs: Runs, words: list[str], capsys: Output) -> None:
    Path("made.json").touch()  # by the script
    Path("train.py").write_text("import argparse")
    cli.main(["doctor", "train.py", *words])
    assert "stands behind" not in capsys.readouterr().err
    runs.code = 2  # the script does not know the option
    cli.main(["doctor", "train.py", *words])
    assert "--json stands behind train.py" in capsys.readouterr().err


def test_a_script_that_fails_is_not_called_healthy(runs: Runs, capsys: Output) -> None:
    runs.code = 7
    assert cli.main(["doctor", "--json", "r.json", "train.py"]) == 7
    told = "the script ended with exit code 7 after 65 steps"
    assert capsys.readouterr().err.startswith(f"doctor: {told}; nothing found until then\n")
    document = json.loads(Path("r.json").read_text(encoding="utf-8"))
    assert document["notes"][0] == f"{told}: what would have come later was not seen"
    runs.code, runs.report = 130, make_report()
    cli.main(["doctor", "--steps", "65", "train.py"])  # it may have done more than those
    assert capsys.readouterr().err.startswith("doctor: the script was interrupted; nothing found until then\n")


@pytest.mark.parametrize(
    ("code", "findings", "expected"),
    [(0, [], 0), (0, [FINDING], 1), (7, [FINDING], 7), (7, [], 7), (130, [FINDING], 130)],
)
def test_exit_codes(code: int, findings: list[Finding], expected: int, runs: Runs) -> None:
    runs.code, runs.report = code, make_report(findings)
    assert cli.main(["doctor", "train.py"]) == expected


def test_a_script_that_nothing_can_be_said_of_ends_with_its_own_code(runs: Runs, capsys: Output) -> None:
    runs.report, runs.code = None, 5
    assert cli.main(["doctor", "train.py"]) == 5
    assert capsys.readouterr().err == ""


def test_the_report_goes_to_stderr(runs: Runs, capsys: Output) -> None:
    cli.main(["doctor", "train.py"])
    out, err = capsys.readouterr()
    assert out == "the script's own words\n"
    assert err.startswith("doctor: nothing worth changing\n")
    assert "\x1b" not in err


def test_where_files_are_is_told(runs: Runs, capsys: Output) -> None:
    assert cli.main(["doctor", "--json", "r.json", "--html", "page.html", "train.py"]) == 0
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "cordwood: the report as JSON is in r.json",
        "cordwood: the report as a page is in page.html",
    ]


def test_quiet_prints_nothing_and_writes_files(runs: Runs, capsys: Output) -> None:
    runs.report = make_report([FINDING])
    assert cli.main(["doctor", "--quiet", "--json", "r.json", "--html", "page", "train.py"]) == 1
    assert capsys.readouterr().err == ""
    assert json.loads(Path("r.json").read_text(encoding="utf-8"))["findings"][0]["rule"] == "hidden-sync"
    assert Path("page").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_a_file_that_cannot_be_written_after_all(runs: Runs, capsys: Output) -> None:
    Path("there").mkdir()
    runs.remove = Path("there")
    assert cli.main(["doctor", "--json", "there/r.json", "--html", "r.html", "train.py"]) == 3
    err = capsys.readouterr().err
    assert err.startswith("doctor: nothing worth changing\n")
    assert f"cordwood: the report could not be written to {Path.cwd() / 'there/r.json'}" in err
    assert Path("r.html").exists()
    Path("there").mkdir()
    runs.code = 7
    assert cli.main(["doctor", "--json", "there/r.json", "train.py"]) == 7


def test_a_profile_that_was_not_written_is_told_of(runs: Runs, capsys: Output) -> None:
    assert runs.report is not None
    runs.report.document["missing"]["stacks"] = "too few steps"
    cli.main(["doctor", "--quiet", "--pstats", "p.stats", "train.py"])
    assert capsys.readouterr().err == f"cordwood: --pstats {Path.cwd() / 'p.stats'} was not written: too few steps\n"


def test_what_the_script_does_to_stderr_is_its_own_affair(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    def closed(*words: Any, **named: Any) -> tuple[int, Report | None]:
        stream = io.StringIO()
        stream.close()
        monkeypatch.setattr(sys, "stderr", stream)
        return 0, make_report()

    monkeypatch.setattr(doctor, "run_script", closed)
    assert cli.main(["doctor", "train.py"]) == 0
    assert capsys.readouterr().err.startswith("doctor: ")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "no script to run"),
        (["-m"], "no module to run"),
        (["--quiet"], "no script to run"),
        (["--json", "no/such/r.json", "train.py"], "--json no/such/r.json: there is no folder"),
        (["--html", ".", "train.py"], "--html . is a folder"),
        (["--json", "r", "--html", "./r", "train.py"], "--html r is the same file as that of --json"),
        (["--steps", "0", "train.py"], "--steps 0: at least one step"),
        (["--seconds", "-1", "train.py"], "--seconds -1.0"),
        (["--seconds", "nan", "train.py"], "--seconds nan"),
        (["--json", "q.json", "compare", "a.json", "b.json"], "--json is for examining a script"),
        (["--steps", "5", "compare", "a.json", "b.json"], "--steps is for examining a script"),
        (["--seconds", "5", "compare", "a.json", "b.json"], "--seconds is for examining a script"),
        (["--quiet", "compare", "a.json", "b.json"], "--quiet is for examining a script"),
    ],
)
def test_wrong_use_is_told_before_the_script_runs(words: list[str], told: str, runs: Runs, capsys: Output) -> None:
    assert cli.main(["doctor", *words]) == 2
    assert told in capsys.readouterr().err
    assert runs.calls == []


def test_a_folder_that_may_not_be_written(runs: Runs, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root, who may run this, may write everywhere
    assert cli.main(["doctor", "--json", "r.json", "train.py"]) == 2
    assert "--json r.json may not be written" in capsys.readouterr().err
    assert runs.calls == []


@pytest.mark.parametrize(
    "words", [["--step", "3", "train.py"], ["--unknown", "train.py"], ["--steps", "x", "train.py"], ["-mpkg"]]
)
def test_options_that_nobody_has(words: list[str], runs: Runs) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["doctor", *words])
    assert stop.value.code == 2
    assert runs.calls == []


def test_a_script_that_is_not_there(capsys: Output) -> None:
    assert cli.main(["doctor", "no_such_script.py"]) == 2
    assert "no_such_script.py" in capsys.readouterr().err


class Terminal(io.StringIO):
    """A stream that says what it is."""

    def __init__(self, encoding: str = "utf-8", tty: bool = True) -> None:
        super().__init__()
        self._encoding, self._tty = encoding, tty

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return self._tty


@pytest.mark.parametrize(
    ("environment", "tty", "coloured"),
    [({}, True, True), ({}, False, False), ({"NO_COLOR": "1"}, True, False), ({"TERM": "dumb"}, True, False)],
)
def test_colours_for_those_who_can_see_them(
    environment: dict[str, str], tty: bool, coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = Terminal(tty=tty)
    print_report(make_report([FINDING]), stream)
    assert ("\x1b[" in stream.getvalue()) is coloured


def test_the_width_of_the_terminal_is_kept_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    print_report(make_report([FINDING]), stream)
    assert max(map(len, stream.getvalue().splitlines())) <= 70


def test_a_terminal_of_another_encoding_gets_what_it_can_show() -> None:
    report = make_report([Finding("r", "größer", "fix", level="high")])
    for encoding in ("ascii", "latin-1"):
        stream = Terminal(encoding, tty=False)
        print_report(report, stream)
        stream.getvalue().encode(encoding)
        assert "█" not in stream.getvalue()


TRAINING = """
import sys
import torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for batch in torch.utils.data.DataLoader(torch.randn(40 * 4, 8), batch_size=4):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
print("trained", sys.argv[1:], __name__)
sys.exit(int(sys.argv[1]))
"""


COMMAND = ["-m", "cordwood", "doctor", "--json", "r.json", "--seconds"]


@pytest.mark.slow
def test_a_terminal_shows_what_is_tried_out(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING, encoding="utf-8")
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "cordwood", "doctor", "--seconds", "0", "train.py", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # Linux's way to say that nobody writes any more
            while more := os.read(ours, 1 << 16):
                shown += more
        os.close(ours)
    assert process.returncode == 0
    line, _, report = shown.decode().rpartition("\r" + " " * 10)
    assert "\rdoctor: replays and trials: data-starved  1/" in line
    assert "doctor: " in report
    assert "replays and trials:" not in report


def test_telling_of_trials_never_fails() -> None:
    stream = Terminal()
    judging = _Judging(stream)
    stream.close()
    judging("workers", 1, 18)
    judging.clear()


@pytest.mark.slow
@pytest.mark.parametrize("streams", ["sys.stdout", "sys.stderr", "sys.stdout, sys.stderr"])
def test_a_script_may_close_its_streams(streams: str, tmp_path: Path) -> None:
    closing = TRAINING.replace("sys.exit(int(sys.argv[1]))", f"for each in ({streams},):\n    each.close()")
    (tmp_path / "closing.py").write_text(closing, encoding="utf-8")
    done = run_preloaded([*COMMAND, "0", "closing.py"], tmp_path)
    assert (done.code, done.output) == (0, "trained [] __main__\n")
    assert done.errors.startswith("doctor: ")
    assert Report.load(tmp_path / "r.json").document["script"] == "closing.py"
    if streams == "sys.stdout":
        (tmp_path / "closing.py").write_text(f"{closing}\nraise ValueError('too late')\n", encoding="utf-8")
        done = run_preloaded([*COMMAND, "0", "closing.py"], tmp_path)
        assert done.code == 1
        assert "ValueError: too late" in done.errors
        assert "the script ended with exit code 1 after" in done.errors


@pytest.mark.slow
def test_files_are_there_though_nobody_reads_the_report(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING, encoding="utf-8")
    command = [sys.executable, *COMMAND, "0", "--html", "r.html"]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*command, "train.py", "4"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=writing)
    os.close(writing)
    assert done.returncode == 4
    assert Report.load(tmp_path / "r.json").document["steps"]["count"] == 40
    assert (tmp_path / "r.html").stat().st_size > 1000


@pytest.mark.slow
def test_what_trials_make_a_dataset_print_is_not_the_scripts(tmp_path: Path) -> None:
    printing = TRAINING.replace(
        "DataLoader(torch.randn(40 * 4, 8), batch_size=4)", "DataLoader(Told(torch.randn(40 * 4, 8)), batch_size=4)"
    ).replace(
        "model = ",
        "class Told(torch.utils.data.TensorDataset):\n"
        "    def __getitem__(self, number):\n"
        "        print('sample', number)\n"
        "        sum(range(20000))\n"
        "        return self.tensors[0][number]\n"
        "model = ",
        1,
    )
    (tmp_path / "printing.py").write_text(printing, encoding="utf-8")
    done = run_preloaded([*COMMAND, "1", "printing.py", "0"], tmp_path)
    tried = {entry["rule"]: entry["why"] for entry in Report.load(tmp_path / "r.json").document["rules"]["abstained"]}
    assert "no time" not in tried.get("workers", "")
    lines = done.output.splitlines()
    assert lines == [*(f"sample {number}" for number in range(160)), "trained ['0'] __main__"]


def test_a_real_script_from_end_to_end(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING, encoding="utf-8")
    command = [sys.executable, *COMMAND, "0", "train.py", "3", "--json", "x"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 3
    assert done.stdout == "trained ['3', '--json', 'x'] __main__\n"
    assert done.stderr.startswith("doctor: ")
    document = Report.load(tmp_path / "r.json").document
    assert document["steps"]["count"] == 40
    assert document["script"] == "train.py 3 --json x"
    assert not (tmp_path / "x").exists()
