"""The error tree: what catches what, what survives a trip to another process, and the reasons' names."""

import copy
import errno
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cordwood import errors
from cordwood.errors import (
    REASONS,
    CordwoodError,
    DoctorError,
    FeedError,
    FormatError,
    PackError,
    Reason,
    StorageError,
    TensorNameError,
    UnsafePickleError,
    UsageError,
)

FRAME_PAGE = Path(__file__).parents[2] / "docs" / "format" / "frame.md"
BASES: dict[type[CordwoodError], type[Exception]] = {
    UsageError: ValueError,
    TensorNameError: KeyError,
    UnsafePickleError: pickle.UnpicklingError,
    FormatError: ValueError,
    StorageError: OSError,
    FeedError: CordwoodError,
    PackError: CordwoodError,
    DoctorError: CordwoodError,
}
TRIPS: dict[str, Callable[[CordwoodError], CordwoodError]] = {
    "pickle": lambda error: pickle.loads(pickle.dumps(error)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


def test_every_error_class_is_in_the_table_above() -> None:
    defined = {value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, CordwoodError)}
    assert defined == {CordwoodError, *BASES}


def test_the_drawn_tree_names_every_class_and_its_builtin_base() -> None:
    drawn = dict(re.findall(r"^[ │]+[├└]── (\w+) +(?:\((\w+)\))?", errors.__doc__ or "", re.MULTILINE))
    assert drawn == {kind.__name__: "" if base is CordwoodError else base.__name__ for kind, base in BASES.items()}


@pytest.mark.parametrize(("kind", "base"), BASES.items())
def test_errors_are_caught_by_the_root_and_by_the_builtin(kind: type[CordwoodError], base: type[Exception]) -> None:
    assert issubclass(kind, CordwoodError)
    assert issubclass(kind, base)


@pytest.mark.parametrize("trip", TRIPS)
@pytest.mark.parametrize("kind", [CordwoodError, *BASES])
def test_errors_survive_a_trip(kind: type[CordwoodError], trip: str) -> None:
    error = kind("found 3 bytes, expected 4")
    back = TRIPS[trip](error)
    assert type(back) is kind
    assert str(back) == str(error) == "found 3 bytes, expected 4"
    assert back.args == error.args


@pytest.mark.parametrize("trip", TRIPS)
def test_the_reason_survives_a_trip(trip: str) -> None:
    back = TRIPS[trip](FormatError("the block's checksum is wrong", Reason.BLOCK_CHECKSUM))
    assert isinstance(back, FormatError)
    assert (str(back), back.reason, back.reason_name) == ("the block's checksum is wrong", 15, "block-checksum")
    assert type(back.reason) is int


@pytest.mark.parametrize("trip", TRIPS)
def test_a_storage_error_keeps_what_the_system_said(trip: str) -> None:
    back = TRIPS[trip](StorageError(errno.ENOSPC, "no space left", "shard-0001.cws"))
    assert isinstance(back, StorageError)
    assert (back.errno, back.strerror, back.filename) == (errno.ENOSPC, "no space left", "shard-0001.cws")


def test_a_format_error_without_a_reason_says_so() -> None:
    assert FormatError("not a store").reason == 0
    assert FormatError("not a store").reason_name == "unspecified"


def test_reasons_are_those_of_the_format_page() -> None:
    section = FRAME_PAGE.read_text(encoding="utf-8").partition("## Reasons to reject")[2].partition("\n## ")[0]
    documented = {
        int(number): name for number, name in re.findall(r"^\| (\d+) \| ([a-z0-9-]+) \|", section, re.MULTILINE)
    }
    assert documented == REASONS
