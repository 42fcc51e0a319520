"""The command as a whole: help, version, exit codes, and errors told in one sentence."""

import argparse
import importlib.metadata
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass

import pytest

import cordwood
from cordwood import cli
from cordwood.errors import CordwoodError, FormatError, StorageError, UsageError


@dataclass
class FailingVerb:
    """A verb that raises what it was given."""

    error: BaseException
    HELP: str = "fail"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--unused")

    def run(self, arguments: argparse.Namespace) -> int:
        raise self.error


def test_the_bare_command_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("usage: cordwood")
    assert all(verb in out for verb in cli.VERBS)
    assert err == ""


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main([verb, "--help"])
    assert stop.value.code == 0
    said = capsys.readouterr().out
    assert f"usage: cordwood {verb}" in said
    examples = said.partition("\nexamples:\n")[2]
    assert f"  cordwood {verb} " in examples or f"$(cordwood {verb} " in examples


def test_examples_of_the_help_are_words_that_the_command_takes(capsys: pytest.CaptureFixture[str]) -> None:
    parser = cli.build_parser()
    tried = 0
    for verb in cli.VERBS:
        with pytest.raises(SystemExit):
            parser.parse_args([verb, "--help"])
        examples = re.sub(r" \\\n +", " ", capsys.readouterr().out.partition("\nexamples:\n")[2])
        for example in re.findall(rf"cordwood {verb} .*", examples):
            # What is behind the words is set off by two spaces, or handed to another program.
            command = re.split(r"  +|[|>)`]", example)[0]
            arguments = parser.parse_args(shlex.split(command)[1:])
            assert arguments.verb == verb
            tried += 1
    assert tried > 3 * len(cli.VERBS)


@pytest.mark.parametrize(
    "words", [["burn"], ["--colour"], ["bench"], ["bench", "nothing"], ["demo", "--images", "few"]]
)
def test_wrong_use_exits_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(words)
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"(cordwood[ a-z]*): error: .+\nsee \1 --help\n", err)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("no such goal"), 2),
        (FormatError("the frame ends early", reason=1), 3),
        (StorageError("the disk is full"), 3),
        (CordwoodError("something else"), 3),
        (KeyboardInterrupt("interrupted"), 130),
    ],
)
def test_errors_of_the_library_are_one_line(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(cli.VERBS, "fail", FailingVerb(error))
    assert cli.main(["fail"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"cordwood: {error}\n"


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cli.VERBS, "fail", FailingVerb(KeyError("a bug")))
    with pytest.raises(KeyError):
        cli.main(["fail"])


def test_the_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "cordwood", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"cordwood {cordwood.__version__}\n")


def test_the_console_script_is_the_command() -> None:
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="cordwood")
    assert script.load() is cli.main
