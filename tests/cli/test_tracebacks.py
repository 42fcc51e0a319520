"""Tracebacks on the command line: lines of one's own code, none where data are bad, all of it for debugging."""

import traceback

import pytest

import cordwood as cw
from cordwood.cli.tracebacks import notes_of_cause, without_our_frames
from cordwood.errors import CordwoodError, FormatError, StorageError, UsageError


def calls_us_wrongly() -> None:
    cw.load(b"nothing", goal=3)  # type: ignore[call-arg]


def recurses(depth: int) -> None:
    if not depth:
        raise LookupError("at the bottom\n  of all")
    recurses(depth - 1)


def text_of(function: object, *arguments: object) -> str:
    assert callable(function)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - any will do
        function(*arguments)
    return f"noted:\n{''.join(traceback.format_exception(caught.value))}"


def noted(error: BaseException, note: str) -> BaseException:
    error.add_note(note)
    return error


OURS_ALONE = f'''\
noted:
Traceback (most recent call last):
  File "{cw.__file__}", line 7, in f
    return g(
           ^^
ValueError: no
'''


def test_frames_of_others_are_kept_as_they_are() -> None:
    whole = text_of(recurses, 10)
    assert "[Previous line repeated" in whole
    assert without_our_frames(whole) == whole
    assert without_our_frames("some other note") == "some other note"


def test_our_frames_are_left_out() -> None:
    shown = without_our_frames(text_of(calls_us_wrongly))
    assert "in calls_us_wrongly\n    cw.load(" in shown
    assert "src/cordwood" not in shown
    assert shown.startswith("noted:\nTraceback (most recent call last):\n  File")
    assert without_our_frames(OURS_ALONE) == ""


@pytest.mark.parametrize("error", [FormatError("bad"), StorageError("full"), CordwoodError("something")])
def test_bad_data_need_no_traceback(error: CordwoodError, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = text_of(recurses, 1)
    cause = noted(noted(error, whole), "a word")
    assert notes_of_cause(cause) == ["a word"]
    monkeypatch.setenv("CORDWOOD_LOG", "debug")
    assert notes_of_cause(cause) == [whole, "a word"]


def test_a_wrong_call_in_a_transform_is_shown() -> None:
    whole = text_of(calls_us_wrongly)
    assert "in calls_us_wrongly" in notes_of_cause(noted(UsageError("no"), whole))[0]
    assert notes_of_cause(noted(UsageError("no"), OURS_ALONE)) == []
    assert notes_of_cause(None) == []
