"""Updates that would lose samples which the store has: refused, and the store stays byte for byte."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cordwood as cw
from cordwood.errors import PackError, UsageError
from tests.packing.support.numbers import pack
from tests.packing.support.textfolder import Folder
from tests.sources import photos
from tests.store.support.small_stores import files_of

WAYS = [
    pytest.param(lambda source, store, *args, **more: pack(source, store, *args, update=True, **more), id="pack"),
    pytest.param(lambda *args, **more: cw.cached(*args, workers=0, progress=False, **more), id="cached"),
]
Way = Callable[..., Any]


def rows(root: Path, header: str, *cells: str) -> Path:
    (root / "q.csv").write_text(f"{header}\n" + "".join(f"p.png,{row}\n" for row in cells))
    return root / "q.csv"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("header", "cells", "told"),
    [
        ("path,age,new", ["1,2"] * 50, "'new' is added"),
        ("path,age", ["1.5"] * 50, "'age': int -> float"),
        ("path,age", ["1"] * 49 + ["1.5"], "'age': int -> float"),
        ("path,age", ["x"] * 50, "'age': int -> str"),
        ("path,years", ["1"] * 50, "'years' is added; 'age' is gone"),
        ("path,age,label", ["1,cat"] * 50, "'label' is added"),
    ],
)
def test_other_columns_are_refused_up_front(tmp_path: Path, way: Way, header: str, cells: list[str], told: str) -> None:
    photos.write(tmp_path, "p.png")
    store = tmp_path / "s"
    way(rows(tmp_path, "path,age", *["1"] * 50), store, on_error="skip")
    before = files_of(store)
    with pytest.raises(UsageError, match=f"{told}.*pack to another path"):
        way(rows(tmp_path, header, *cells), store, on_error="skip")
    assert files_of(store) == before
    assert len(cw.open(store)) == 50


def test_columns_of_what_takes_anything_may_change(tmp_path: Path) -> None:
    photos.write(tmp_path, "p.png")
    fields = {"age": cw.Field(varies=True), "note": cw.Field(optional=True)}
    pack(rows(tmp_path, "path,age,note", "1,a"), tmp_path / "s", fields=fields)
    pack(rows(tmp_path, "path,age", "1.5", "x"), tmp_path / "s", fields=fields, update=True)
    assert [sample["age"] for sample in cw.open(tmp_path / "s")] == ["1.5", "x"]


def test_options_of_the_caller_come_before_columns_that_vary(tmp_path: Path) -> None:
    photos.write(tmp_path, "p.png")
    text, fields = '{"path": "p.png", "seen": true}\n{"path": "p.png"}\n', {"seen": cw.Field(optional=True)}
    (tmp_path / "q.jsonl").write_text(text)
    pack(tmp_path / "q.jsonl", tmp_path / "s", fields=fields)
    (tmp_path / "q.jsonl").write_text(text * 2)
    assert pack(tmp_path / "q.jsonl", tmp_path / "s", fields=fields, update=True).samples == 4


def test_jsonl_keys_are_compared_as_well(tmp_path: Path) -> None:
    photos.write(tmp_path, "p.png")
    source = tmp_path / "q.jsonl"
    row = {"path": "p.png", "seen": True, "boxes": [1], "meta": {"a": 1}}
    source.write_text(json.dumps(row) + "\n")
    pack(source, tmp_path / "s")
    source.write_text(2 * (json.dumps(row) + "\n"))
    assert pack(source, tmp_path / "s", update=True).samples == 2
    source.write_text(json.dumps({**row, "seen": 1}) + "\n")
    with pytest.raises(UsageError, match="'seen': bool -> int"):
        pack(source, tmp_path / "s", update=True)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("names", [["1.png"], [f"{number}.png" for number in range(20)]])
def test_images_that_are_all_broken(tmp_path: Path, way: Way, names: list[str]) -> None:
    photos.write(tmp_path / "in", *names)
    store = tmp_path / "s"
    way(tmp_path / "in", store, on_error="skip")
    before = files_of(store)
    for name in names:
        (tmp_path / "in" / name).write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    photos.write(tmp_path / "in", "new.png")
    with pytest.raises(PackError, match=rf"{len(names)} inputs? that the store .*'\d\.png': .*left as it was"):
        way(tmp_path / "in", store, on_error="skip")
    assert files_of(store) == before
    assert len(cw.open(store)) == len(names)


def test_columns_behind_a_transform(tmp_path: Path) -> None:
    photos.write(tmp_path, "p.png")
    store = tmp_path / "s"

    def number(sample: dict[str, Any]) -> dict[str, Any]:
        return {"age": sample["age"]}

    pack(rows(tmp_path, "path,age", "1", "2", "3"), store, number)
    before = files_of(store)
    with pytest.raises(PackError, match=r"all 2 inputs that the store .*'p\.png': .*'p\.png#1'"):
        pack(rows(tmp_path, "path,age", "1.5", "2.5", "3"), store, number, update=True, on_error="skip")
    assert files_of(store) == before


def test_several_that_fail_beside_others_that_do_not(tmp_path: Path) -> None:
    texts = Folder(tmp_path)
    texts.write(a="a1 a2", b="b1", c="c1", d="d1")
    texts.pack(update=False)
    texts.write(a="bad", b="bad", c="C1")
    assert texts.pack() == ["a", "b", "c"]
    texts.assert_good("a", "b", "c", "d")


def test_samples_that_are_all_dropped(tmp_path: Path) -> None:
    texts = Folder(tmp_path)
    texts.write(a="a1 a2", b="b1")
    texts.pack(update=False)
    before = files_of(texts.store)
    texts.write(a="", b="")
    with pytest.raises(PackError, match=r"the transform drops 2 inputs .* no sample would be left"):
        texts.pack()
    assert files_of(texts.store) == before
