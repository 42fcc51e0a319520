"""Colours: on a terminal, unless NO_COLOR, FORCE_COLOR or a plain terminal say otherwise."""

import io
from pathlib import Path

import pytest
import torch

from cordwood import cli
from cordwood.cli.output import wants_colour
from cordwood.cli.verbs.doctor import print_report
from tests.common.test_progress_line import Terminal
from tests.doctor.support.evidences import make_report

VARIABLES = ("NO_COLOR", "FORCE_COLOR", "TERM")


@pytest.mark.parametrize(
    ("variables", "terminal", "elsewhere"),
    [
        ({}, True, False),
        ({"TERM": "xterm"}, True, False),
        ({"TERM": "dumb"}, False, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": "0"}, False, False),  # any value counts
        ({"NO_COLOR": ""}, True, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": ""}, True, False),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, True, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
    ],
)
def test_who_wants_colours(
    variables: dict[str, str], terminal: bool, elsewhere: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for stream, expected in ((Terminal(), terminal), (io.StringIO(), elsewhere)):
        assert wants_colour(stream) is expected
        print_report(make_report(), stream)
        assert ("\x1b[" in stream.getvalue()) is expected


def test_who_has_colours_is_what_the_help_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    torch.save(torch.zeros(1000)[:3], tmp_path / "x.pt")
    assert cli.main(["inspect", str(tmp_path / "x.pt")]) == 0
    assert "\x1b" not in capsys.readouterr().out
    assert cli.main(["inspect", str(tmp_path / "y.pt")]) == 2
    assert "\x1b" not in capsys.readouterr().err
    (told,) = [line for line in (cli.build_parser().epilog or "").splitlines() if "FORCE_COLOR" in line]
    assert "in the doctor's report" in told
