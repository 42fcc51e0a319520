"""Logging: the library is silent until it is configured, the command shows warnings, and more when it is asked."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

LIBRARY = """
import logging, cordwood
logging.getLogger("cordwood.feed").warning("sample 3 is left out")
"""
# A verb that logs at every level, run by the command as it is.
COMMAND = """
import logging, sys, types
from cordwood import cli
log = logging.getLogger("cordwood.pack")
def run(arguments):
    {before}
    for level in ("debug", "info", "warning", "error"):
        getattr(log, level)("told\\x1b[2J by %s", level)
    return 0
cli.VERBS["log"] = types.SimpleNamespace(HELP="log", add_arguments=lambda parser: None, run=run)
code = cli.main(["log"])
log.error("after the command")
sys.exit(code)
"""


def run_python(code: str, **variables: str) -> tuple[int, str]:
    """The exit code, and what goes to stderr."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=variables)
    return done.returncode, done.stderr


def test_the_library_is_silent_until_logging_is_configured() -> None:
    assert run_python(LIBRARY) == (0, "")
    configured = LIBRARY.replace("cordwood\n", "cordwood; logging.basicConfig(format='%(name)s: %(message)s')\n", 1)
    assert run_python(configured) == (0, "cordwood.feed: sample 3 is left out\n")


@pytest.mark.parametrize(
    ("variables", "levels"),
    [
        ({}, ["warning", "error"]),
        ({"CORDWOOD_LOG": ""}, ["warning", "error"]),
        ({"CORDWOOD_LOG": "Debug"}, ["debug", "info", "warning", "error"]),
        ({"CORDWOOD_LOG": "info"}, ["info", "warning", "error"]),
        ({"CORDWOOD_LOG": "error"}, ["error"]),
    ],
)
def test_the_command_shows_warnings_and_what_it_is_asked_for(variables: dict[str, str], levels: list[str]) -> None:
    code, said = run_python(COMMAND.format(before=""), **variables)
    marks = {"warning": ""}
    assert said.splitlines() == [
        f"cordwood.pack: {marks.get(level, f'{level}: ')}told\\x1b[2J by {level}" for level in levels
    ]
    assert code == 0


def test_a_script_that_configures_logging_shows_it_itself() -> None:
    code, said = run_python(COMMAND.format(before="logging.basicConfig(format='theirs: %(message)s')"))
    assert [line.partition(":")[0] for line in said.splitlines()] == ["theirs"] * 3  # the last one after the command
    assert code == 0


def test_a_level_that_is_none_is_wrong_use() -> None:
    code, said = run_python(COMMAND.format(before=""), CORDWOOD_LOG="debg")
    assert said == (
        "cordwood: CORDWOOD_LOG must be 'debug', 'info', 'warning' or 'error', got 'debg'; did you mean 'debug'?\n"
    )
    assert code == 2


def test_a_packing_run_tells_what_it_does_when_it_is_asked(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "numbers.csv").write_text(
        "path,label\n" + "".join(f"{number}.png,{number % 2}\n" for number in range(6))
    )
    for number in range(6):
        Image.new("RGB", (4, 4)).save(tmp_path / f"{number}.png")
    words = [sys.executable, "-m", "cordwood", "pack", "numbers.csv", "x.cordwood", "--workers", "0", "--json"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True, env={"CORDWOOD_LOG": "info"})
    assert json.loads(done.stdout)["samples"] == 6
    store = tmp_path / "x.cordwood"
    first, *others = [line for line in done.stderr.splitlines() if line.startswith("cordwood")]
    assert first == f"cordwood.pack: info: packing into {store} from input 0 on, with 0 worker processes"
    assert any(line.startswith(f"cordwood.store: info: {store}: field 'image' is kept by ") for line in others)
    assert any(" is written: 6 samples, " in line for line in others)
