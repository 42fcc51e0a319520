"""What somebody may have meant: the nearest name, quickly, and nothing that names from a file could steer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cordwood as cw
from cordwood.errors import UsageError
from cordwood.spelling import did_you_mean, did_you_mean_path, nearest


@pytest.mark.parametrize(
    ("word", "names", "found"),
    [
        ("lable", ["image", "label"], "label"),
        ("IMAGE", ["label", "image"], "image"),
        ("kindling", ["image", "label"], None),
        ("", ["image"], None),
        ("image", [], None),
        (7, ["image"], None),
        ("lable", [3, None, "label"], "label"),
        ("l" * 1000, ["l" * 999], None),
    ],
)
def test_the_nearest_name(word: object, names: list[object], found: str | None) -> None:
    assert nearest(word, names) == found
    assert did_you_mean(word, names) == ("" if found is None else f"; did you mean {found!r}?")


def test_of_very_many_names_only_some_are_compared() -> None:
    looked_at: list[int] = []

    def names() -> Any:
        for number in range(10**9):
            looked_at.append(number)
            yield f"layer.{number}"

    assert nearest("layr.3", names()) == "layer.3"
    assert len(looked_at) <= 1000


def test_names_are_shown_as_text_that_a_terminal_does_not_obey() -> None:
    assert did_you_mean("label", ["label\x1b[2J"]) == "; did you mean 'label\\x1b[2J'?"


def test_a_path_is_compared_with_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "train.cordwood").mkdir()
    assert did_you_mean_path(tmp_path / "trian.cordwood") == f"; did you mean '{tmp_path}/train.cordwood'?"
    assert did_you_mean_path(tmp_path / "something-else") == ""
    assert did_you_mean_path(tmp_path / "no" / "such" / "folder") == ""
    assert did_you_mean_path("bad\0name") == ""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stores") / "train.cordwood"
    with cw.Writer(path) as writer:
        writer.append({"image": torch.zeros(3, 4, 4), "label": 1})
    return path


CALLS: dict[str, tuple[Callable[[Path], object], str]] = {
    "open": (lambda path: cw.open(path.with_name("trian.cordwood")), "train.cordwood'"),
    "verify": (lambda path: cw.verify(path.with_name("trian.cordwood")), "train.cordwood'"),
    "pack": (lambda path: cw.pack(str(path.with_name("trian.cordwood")), "never.cordwood"), "train.cordwood'"),
    "select": (lambda path: cw.open(path).select("imgae", "label"), "'image'"),
    "column": (lambda path: cw.open(path).column("lable"), "'label'"),
    "collate": (lambda path: cw.Loader(cw.open(path), batch_size=1, collate={"imagee": "pad"}), "'image'"),
    "normalize": (lambda path: cw.Loader(cw.open(path), batch_size=1, normalize={"imag": (0, 1)}), "'image'"),
    "memory": (lambda path: cw.Loader(cw.open(path), batch_size=1, memory="rma"), "'ram'"),
    "export": (lambda path: cw.export(path, path.with_name("out"), "cords"), "'cord'"),
    "goal": (lambda path: cw.save(torch.zeros(3), path.with_name("x.cord"), goal="smal"), "'small'"),
    "field": (lambda path: cw.Field(goal="blanced"), "'balanced'"),
    "encode": (lambda path: cw.codecs.plan(np.zeros(3), "fsat"), "'fast'"),
    "dtype": (lambda path: cw.codecs.encode(np.zeros(3, np.uint16), "fast", dtype="bfloat61"), "'bfloat16'"),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_library_says_what_may_have_been_meant(name: str, store: Path) -> None:
    call, meant = CALLS[name]
    with pytest.raises(UsageError, match="did you mean") as raised:
        call(store)
    assert str(raised.value).endswith(f"{meant}?")


@pytest.mark.parametrize(("typed", "meant"), [("pakc", "pack"), ("Loadr", "Loader"), ("inspct", "inspect")])
def test_a_public_name_that_is_mistyped(typed: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{typed}'; did you mean '{meant}'") as raised:
        getattr(cw, typed)
    assert raised.value.name == typed
    assert meant in dir(cw)
