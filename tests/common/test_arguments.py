"""Keywords that a function does not have, and values that an argument cannot have: what is meant is said."""

import inspect
import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cordwood as cw
from cordwood.common.arguments import callable_or_none, checks_keywords, one_of, true_or_false, whole_number
from tests.store.support.small_stores import write_store


@checks_keywords("f", {"colour": "is called paint here"})
def f(first: int, *, second: int = 2, paint: str = "") -> tuple[int, int, str]:
    """Some function."""
    return first, second, paint


def test_calls_are_as_without() -> None:
    assert f(1, second=3) == (1, 3, "")
    assert f(first=4) == (4, 2, "")
    assert (f.__name__, f.__doc__, list(inspect.signature(f).parameters)) == (
        "f",
        "Some function.",
        ["first", "second", "paint"],
    )
    with pytest.raises(TypeError, match="missing 1 required"):
        f()  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("keyword", "said"),
    [
        ("secnod", "f has no argument 'secnod'; did you mean 'second'?"),
        ("colour", "f has no argument 'colour': that is called paint here"),
        ("zzz", "f has no argument 'zzz'"),
    ],
)
def test_what_may_have_been_meant(keyword: str, said: str) -> None:
    with pytest.raises(cw.UsageError) as caught:
        f(1, **{keyword: 1})  # type: ignore[arg-type]
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"batchsize": 4}, "cw.Loader has no argument 'batchsize'; did you mean 'batch_size'?"),
        ({"shufle": True}, "cw.Loader has no argument 'shufle'; did you mean 'shuffle'?"),
        ({"num_workers": 4}, "'num_workers': that is not needed: native threads decode"),
        ({"collate_fn": len}, "'collate_fn': that is collate here"),
        ({"pin_memory": True}, "'pin_memory': that is not needed"),
    ],
)
def test_the_loader_knows_the_words_of_torch(tmp_path: Path, keywords: dict[str, Any], said: str) -> None:
    ds = cw.open(write_store(tmp_path / "x.cordwood", 3))
    with pytest.raises(cw.UsageError) as caught:
        cw.Loader(ds, **keywords)
    assert said in str(caught.value)


@pytest.mark.parametrize(("former", "now"), [("most_errors", "max_errors"), ("most_pixels", "max_pixels")])
def test_a_former_name_gives_the_new_one(tmp_path: Path, former: str, now: str) -> None:
    with pytest.raises(cw.UsageError) as caught:
        cw.pack([], tmp_path / "x", **{former: 1})  # type: ignore[call-overload]
    assert str(caught.value) == f"cw.pack has no argument {former!r}: it was renamed to {now!r}"


def test_tables_have_rows_under_the_name_of_pandas(tmp_path: Path) -> None:
    cw.save([1], tmp_path / "x.pt")
    for path in (tmp_path / "x.pt", write_store(tmp_path / "x.cordwood", 3)):
        with pytest.raises(cw.UsageError, match=r"has no argument 'most_rows': it was renamed to 'max_rows'"):
            cw.inspect(path).table(most_rows=1)  # type: ignore[call-arg]


def test_packing_tells_too(tmp_path: Path) -> None:
    with pytest.raises(cw.UsageError, match=r"cw\.pack has no argument 'transfrom'; did you mean 'transform'"):
        cw.pack([], tmp_path / "x", transfrom=len)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("call", "keyword", "said"),
    [
        (partial(cw.save, 1, "x.cord"), "golas", "cw.save has no argument 'golas'; did you mean 'goal'?"),
        (partial(cw.load, "x.cord"), "maplocation", "cw.load has no argument 'maplocation'; did you mean 'map_"),
        (partial(cw.trim, "x.pt"), "inplace", "cw.trim has no argument 'inplace'; did you mean 'in_place'?"),
        (partial(cw.Writer, "x"), "shardbytes", "cw.Writer has no argument 'shardbytes'; did you mean 'shard_bytes'?"),
        (partial(cw.open, "x"), "thread", "cw.open has no argument 'thread'; did you mean 'threads'?"),
        (cw.Field, "storeas", "cw.Field has no argument 'storeas'; did you mean 'store_as'?"),
    ],
)
def test_others_tell_too(
    call: Callable[..., object], keyword: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(cw.UsageError) as caught:
        call(**{keyword: 1})
    assert said in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_what_is_checked_is_what_it_was() -> None:
    for function in (cw.save, cw.load, cw.trim):
        assert pickle.loads(pickle.dumps(function)) is function
        assert (function.__doc__ or "").count("::") == 1
    assert list(inspect.signature(cw.Field).parameters) == [
        "goal",
        "store_as",
        "varies",
        "classes",
        "keep_encoded",
        "optional",
    ]
    field = cw.Field("fast", classes=["a"])
    assert pickle.loads(pickle.dumps(field)) == field
    assert replace(field, goal="raw") == cw.Field("raw", classes=["a"])
    assert list(inspect.signature(cw.Writer).parameters) == [
        "path",
        "goal",
        "mode",
        "fields",
        "shard_bytes",
        "threads",
    ]


def refusal(check: Callable[..., Any], *arguments: Any, **keywords: Any) -> str:
    with pytest.raises(cw.UsageError) as caught:
        check("x", *arguments, **keywords)
    return str(caught.value)


def test_one_of_some_words() -> None:
    assert one_of("x", "ram", ("auto", "mmap", "ram")) == "ram"
    assert refusal(one_of, "rm", ("auto", "mmap", "ram")) == (
        "x must be 'auto', 'mmap' or 'ram', got 'rm'; did you mean 'ram'?"
    )
    assert refusal(one_of, "zzz", {"auto": 1, "mmap": 2}) == "x must be 'auto' or 'mmap', got 'zzz'"
    assert refusal(one_of, np.zeros(3), ["pt"]) == "x must be 'pt', got a ndarray"
    assert refusal(one_of, None, ["pt"]) == "x must be 'pt', got None"


@pytest.mark.parametrize("given", [3, np.int64(3), np.uint8(3), torch.tensor(3)])
def test_a_whole_number_becomes_one_of_pythons(given: Any) -> None:
    found = whole_number("x", given, 1, 3)
    assert found == 3
    assert type(found) is int


@pytest.mark.parametrize("given", [0, 4, True, False, 2.0, "2", None, torch.tensor(2.0), np.float32(2), [2]])
def test_what_is_no_whole_number_of_the_range(given: Any) -> None:
    assert refusal(whole_number, given, 1, 3).startswith("x must be a whole number from 1 to 3, got ")


def test_a_whole_number_may_have_no_upper_bound_or_be_described() -> None:
    assert whole_number("x", 1 << 100) == 1 << 100
    assert refusal(whole_number, -1) == "x must be a whole number, 0 or more, got -1"
    assert refusal(whole_number, -1, what="a number of bytes") == "x must be a number of bytes, got -1"


def test_true_or_false_and_nothing_like_it() -> None:
    assert true_or_false("x", True) is True
    assert true_or_false("x", False) is False
    for given in (1, 0, None, "yes", np.True_):
        assert refusal(true_or_false, given).startswith("x must be True or False, got ")


def test_something_to_call_or_none() -> None:
    assert callable_or_none("x", None) is None
    assert callable_or_none("x", len) is len
    assert refusal(callable_or_none, 3) == "x must be a function or None, got 3"
