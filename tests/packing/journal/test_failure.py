"""What is told of one exception: its text, the caller's own lines, and which fields a sample has."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest

import cordwood as cw
from cordwood.errors import FormatError, UsageError
from cordwood.packing.journal.failure import Failure, absence

SAMPLE = {"image": 1, "path": "1.jpg"}


def caught(function: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as found:  # noqa: PT011 - any will do
        function()
    return found.value


def raises(error: Exception) -> None:
    raise error


def chained() -> None:
    try:
        raises(OSError("first"))
    except OSError as error:
        raise LookupError("then") from error


def test_all_of_a_chain_is_kept_without_our_frames() -> None:
    failure = Failure.of(caught(chained))
    assert failure.error == "LookupError: then"
    assert failure.own is not None
    assert failure.own.index("OSError: first") < failure.own.index("LookupError: then")
    wrong = Failure.of(caught(lambda: cw.load(b"nothing", goal=3)))  # type: ignore[call-arg]
    assert "src/cordwood" in wrong.traceback
    assert wrong.own is not None
    assert "in <lambda>" in wrong.own
    assert "src/cordwood" not in wrong.own


def test_a_chain_that_was_cut_stays_cut() -> None:
    def cut() -> None:
        try:
            raises(OSError("first"))
        except OSError:
            raise LookupError("then") from None

    assert "first" not in (Failure.of(caught(cut)).own or "")


@pytest.mark.parametrize("error", [FormatError("bad bytes", 15), cw.StorageError(5, "bad disk")])
def test_bad_data_need_no_lines(error: Exception) -> None:
    failure = Failure.of(caught(lambda: raises(error)))
    assert failure.own == ""
    assert "in raises" in failure.traceback


def test_what_was_never_raised_has_no_lines() -> None:
    assert Failure.of(UsageError("a sample cannot leave")).own == ""


def test_it_travels() -> None:
    failure = Failure.of(KeyError("label"), "a hint")
    assert pickle.loads(pickle.dumps(failure)) == failure
    assert failure.error == "KeyError: 'label' (a hint)"


@pytest.mark.parametrize(
    ("error", "sample", "hint"),
    [
        (KeyError("label"), SAMPLE, "the sample has the fields 'image', 'path'; no classes"),
        (KeyError("mask"), SAMPLE, "the sample has the fields 'image', 'path'"),
        (KeyError("path"), SAMPLE, ""),  # some other dict's
        (KeyError(3), SAMPLE, ""),
        (KeyError(), SAMPLE, ""),
        (KeyError("label"), (1, 2), ""),
        (KeyError("label"), None, ""),
        (LookupError("label"), SAMPLE, ""),
    ],
)
def test_fields_that_a_sample_lacks(error: Exception, sample: Any, hint: str) -> None:
    assert absence(error, sample, {"label": "no classes"}) == hint
