"""What somebody may have meant: the nearest name, quickly, and nothing that names from a file could steer."""

import errno
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import cordwood as cw
from cordwood.common.suggest import did_you_mean, did_you_mean_path, nearest
from cordwood.errors import UsageError


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


def test_a_link_to_nowhere_is_not_what_was_meant_itself(tmp_path: Path) -> None:
    (tmp_path / "last.pt").symlink_to(tmp_path / "gone")
    assert did_you_mean_path(tmp_path / "last.pt") == ""


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
    "memory": (lambda path: cw.Loader(cw.open(path), batch_size=1, memory="rma"), "'ram'"),  # type: ignore[arg-type]
    "export": (lambda path: cw.export(path, path.with_name("out"), "cords"), "'cord'"),  # type: ignore[arg-type]
    "goal": (lambda path: cw.save(torch.zeros(3), path.with_name("x.cord"), goal="smal"), "'small'"),  # type: ignore[call-overload]
    "field": (lambda path: cw.Field(goal="blanced"), "'balanced'"),  # type: ignore[arg-type]
    "encode": (lambda path: cw.codecs.plan(np.zeros(3), "fsat"), "'fast'"),  # type: ignore[arg-type]
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


@pytest.mark.parametrize(
    ("module", "typed", "meant"),
    [
        (cw.augment, "RandomFlipp", "RandomFlip"),
        (cw.augment, "CentreCrop", "CenterCrop"),
        (cw.codecs, "encdoe", "encode"),
    ],
)
def test_a_name_of_a_part_that_is_mistyped(module: ModuleType, typed: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{typed}'; did you mean '{meant}'") as raised:
        getattr(module, typed)
    assert raised.value.name == typed
    by_programs = "__wrapped__"
    with pytest.raises(AttributeError, match=r"no attribute '__wrapped__'$"):
        getattr(module, by_programs)


@pytest.mark.parametrize("kind", [str, Path, os.fsencode])
@pytest.mark.parametrize(
    "call", [cw.load, cw.peek, cw.inspect, lambda path: cw.trim(path, "x.pt")], ids=["load", "peek", "inspect", "trim"]
)
def test_a_tensor_file_that_is_not_there(
    call: Callable[[Any], object], kind: Callable[[Path], Any], tmp_path: Path
) -> None:
    (tmp_path / "weights.cord").touch()
    path = tmp_path / "wieghts.cord"
    with pytest.raises(FileNotFoundError) as raised:
        call(kind(path))
    given = kind(path) if kind is os.fsencode else str(path)
    expected = f"[Errno 2] No such file or directory: {given!r}; did you mean '{tmp_path}/weights.cord'?"
    assert str(raised.value) == expected
    assert str(pickle.loads(pickle.dumps(raised.value))) == expected
    assert (raised.value.errno, os.fsdecode(raised.value.filename)) == (errno.ENOENT, str(path))


def test_a_folder_is_looked_through_only_for_who_reads_the_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked_through(path: object) -> Any:
        raise AssertionError("nobody has asked")

    monkeypatch.setattr(os, "scandir", looked_through)
    with pytest.raises(FileNotFoundError) as raised:
        cw.load(tmp_path / "x.pt")
    monkeypatch.undo()
    (tmp_path / "x.pth").touch()
    assert str(raised.value).endswith("x.pth'?")
