"""Colours: on a terminal, unless NO_COLOR, FORCE_COLOR or a plain terminal say otherwise."""

import io

import pytest

from cordwood.cli.colour import wants_colour
from cordwood.cli.doctor import print_report
from tests.cli.test_progress import Terminal
from tests.doctor.evidences import make_report

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
