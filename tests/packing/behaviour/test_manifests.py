"""Whole jobs over manifests: what an odd row holds, and where it lies, changes no other sample and no way to pack."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from cordwood.errors import PackError, UsageError
from tests.packing.support.forkedworkers import fork_in
from tests.packing.support.numbers import pack
from tests.sources import photos
from tests.store.support.photos import files_of

COUNT = 320
ODD = {"age": 3, "note": "n", "seen": True, "boxes": [[1, 2]], "meta": {"a": {"b": 1}}, "id": 2**60 + 1}
NOTHING = {"age": math.nan, "note": "", "seen": None, "boxes": None, "meta": None, "id": None}
OPTIONS: dict[str, Any] = {"shard_bytes": 20_000}


def manifest(root: Path, odd: Sequence[int], count: int = COUNT) -> Path:
    """Rows of few keys, and odd ones of many."""
    photos.write(root, "0.png", "1.png")
    rows = [{"path": f"{number % 2}.png", "n": number, **(ODD if number in odd else {})} for number in range(count)]
    (root / "list.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return root / "list.jsonl"


def told(store: Path) -> list[str]:
    """The samples but for their pixels; as text, in which NaN is NaN."""
    samples = [{key: value for key, value in sample.items() if key != "image"} for sample in cw.open(store)]
    return [repr(dict(sorted(sample.items()))) for sample in samples]


def expected(odd: Sequence[int], count: int = COUNT) -> list[str]:
    rows = [
        {"path": f"{number % 2}.png", "n": number, **({**ODD, "age": 3.0} if number in odd else NOTHING)}
        for number in range(count)
    ]
    return [repr(dict(sorted(row.items()))) for row in rows]


@pytest.mark.parametrize("odd", [[0], [300], [COUNT - 1]])
def test_the_odd_row_may_lie_anywhere(tmp_path: Path, odd: list[int]) -> None:
    packed = pack(manifest(tmp_path, odd), tmp_path / "s", **OPTIONS)
    assert (packed.samples, packed.failed) == (COUNT, 0)
    assert told(tmp_path / "s") == expected(odd)
    assert "note: key 'age': 319 rows of 320 without a value got NaN" in str(packed)


def test_workers_interruptions_and_parts_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fork_in(monkeypatch)
    source = manifest(tmp_path, [COUNT - 3])
    pack(source, tmp_path / "one", **OPTIONS)
    pack(source, tmp_path / "two", workers=2, **OPTIONS)
    assert files_of(tmp_path / "two") == files_of(tmp_path / "one")

    class Stop(Exception):  # noqa: N818
        pass

    for limit in (100, 290, 318):

        def stop(state: Any, limit: int = limit) -> None:
            if state.inputs >= limit:
                raise Stop

        with pytest.raises(Stop):
            pack(source, tmp_path / "again", progress=stop, **OPTIONS)
    pack(source, tmp_path / "again", **OPTIONS)
    assert files_of(tmp_path / "again") == files_of(tmp_path / "one")
    parts = [tmp_path / f"part-{k}" for k in (1, 2, 3)]
    for k, part in enumerate(parts, 1):
        pack(source, part, part=(k, 3), **OPTIONS)
    cw.merge(parts, tmp_path / "merged")
    assert told(tmp_path / "merged") == expected([COUNT - 3])


def test_an_update_adds_rows_and_packs_changed_ones_again(tmp_path: Path) -> None:
    source = manifest(tmp_path, [300])
    pack(source, tmp_path / "s", **OPTIONS)
    rows = [json.loads(line) for line in source.read_text().splitlines()]
    rows[5]["note"] = "changed"
    rows.append({"path": "1.png", "n": COUNT, "boxes": {"not": "a list"}})
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UsageError, match="the inputs are not those that"):
        pack(source, tmp_path / "s", **OPTIONS)
    packed = pack(source, tmp_path / "s", update=True, **OPTIONS)
    assert (packed.samples, packed.failed) == (COUNT + 1, 0)
    ds = cw.open(tmp_path / "s")
    by_number = {sample["n"]: sample for sample in ds}
    assert by_number[5]["note"] == "changed"
    assert by_number[COUNT]["boxes"] == {"not": "a list"}
    assert [by_number[number]["note"] for number in (4, 6, 300)] == ["", "", "n"]
    before = files_of(tmp_path / "s")
    pack(source, tmp_path / "s", update=True, **OPTIONS)
    assert files_of(tmp_path / "s") == before


def test_a_transform_may_make_something_else_of_what_varies(tmp_path: Path) -> None:
    def boxes(sample: dict[str, Any]) -> dict[str, Any]:
        return {**sample, "boxes": torch.tensor(sample["boxes"] or [[0, 0]]), "meta": str(sample["meta"])}

    pack(manifest(tmp_path, [300]), tmp_path / "s", boxes)
    ds = cw.open(tmp_path / "s")
    kinds = {leaf.name: leaf.node.kind for leaf in ds.schema.leaves}
    assert (kinds["boxes"], kinds["meta"], kinds["seen"]) == ("tensor", "str", "any")
    assert ds[300]["boxes"].tolist() == [[1, 2]]

    def batch(given: dict[str, Any]) -> dict[str, Any]:
        return {"image": given["image"], "boxes": torch.zeros(len(given["n"]), 2), "seen": given["seen"]}

    pack(tmp_path / "list.jsonl", tmp_path / "b", batch, batched=True, batch_size=32)
    kinds = {leaf.name: leaf.node.kind for leaf in cw.open(tmp_path / "b").schema.leaves}
    assert kinds == {"image": "tensor", "boxes": "tensor", "seen": "any"}
    assert cw.open(tmp_path / "b")[300]["seen"] is True


def test_a_transform_that_loses_what_varies_is_noticed(tmp_path: Path) -> None:
    def lose(sample: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in sample.items() if not (key == "boxes" and sample["n"] == 310)}

    with pytest.raises(PackError, match=r"input 310 .* field 'boxes' is missing"):
        pack(manifest(tmp_path, [300]), tmp_path / "s", lose)


def test_a_dry_run_takes_what_the_job_takes(tmp_path: Path) -> None:
    found = cw.pack(manifest(tmp_path, [COUNT - 1]), tmp_path / "s", limit=COUNT, workers=0, progress=False)
    assert (found.inputs, found.failed) == (COUNT, 0)


def test_options_of_the_caller_come_first(tmp_path: Path) -> None:
    source = manifest(tmp_path, [0])
    pack(source, tmp_path / "s", fields={"n": cw.Field(varies=True), "seen": cw.Field(optional=True)})
    kinds = {leaf.name: leaf.node.kind for leaf in cw.open(tmp_path / "s").schema.leaves}
    assert (kinds["n"], kinds["seen"], kinds["boxes"]) == ("any", "scalar", "any")


@pytest.mark.parametrize("at", [0, 1, 310])
def test_an_empty_cell_of_a_number_column(tmp_path: Path, at: int) -> None:
    photos.write(tmp_path, "1.png")
    rows = [f"1.png, {('cat', 'dog')[number % 2]}, {'' if number == at else number}" for number in range(COUNT)]
    (tmp_path / "list.csv").write_text("path, label, age\n" + "\n".join(rows))
    packed = pack(tmp_path / "list.csv", tmp_path / "s")
    ages = cw.open(tmp_path / "s").column("age")
    assert ages.dtype == torch.float64
    assert [number for number, age in enumerate(ages.tolist()) if math.isnan(age)] == [at]
    assert cw.open(tmp_path / "s").classes == ["cat", "dog"]
    assert packed.notes == ("column 'age': 1 empty cell of 320 became NaN",)


def test_absolute_paths(tmp_path: Path) -> None:
    photos.write(tmp_path, "elsewhere/1.png")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "list.csv").write_text(f"path\n{tmp_path}/elsewhere/1.png\n")
    with pytest.raises(cw.FormatError, match=r"absolute_paths=True \(--absolute-paths\)"):
        pack(tmp_path / "in" / "list.csv", tmp_path / "s")
    pack(tmp_path / "in" / "list.csv", tmp_path / "s", absolute_paths=True)
    assert cw.open(tmp_path / "s")[0]["path"] == f"{tmp_path}/elsewhere/1.png"
    again = pack(tmp_path / "in" / "list.csv", tmp_path / "s", absolute_paths=True, update=True)
    assert again.samples == 1
    cw.export(tmp_path / "s", tmp_path / "out", to="pt")
    assert [path.suffix for path in (tmp_path / "out").rglob("*") if path.is_file()] == [".pt"]


@pytest.mark.parametrize("name", ["list.csv", "list.jsonl"])
def test_rows_without_a_label_or_a_path_fail_alone(tmp_path: Path, name: str) -> None:
    photos.write(tmp_path, "1.png")
    rows = [
        ("1.png", "cat", "1"),
        ("1.png", "", "2"),
        ("", "cat", "x"),
        ("../1.png", "mouse", "4"),
        ("1.png", "dog", "5"),
    ]
    if name == "list.csv":
        text = "path,label,n\n" + "".join(f"{','.join(row)}\n" for row in rows)
    else:
        text = "\n" + "".join(json.dumps(dict(zip(("path", "label", "n"), row, strict=True))) + "\n" for row in rows)
    source, store = tmp_path / name, tmp_path / "s"
    source.write_text(text)
    with pytest.warns(UserWarning, match="3 of 5 inputs failed"):
        packed = pack(source, store, on_error="skip")
    assert (packed.samples, packed.failed) == (2, 3)
    ds = cw.open(store)
    assert ds.classes == ["cat", "dog"]
    assert [str(sample["n"]) for sample in ds] == ["1", "5"]
    told = [json.loads(line) for line in Path(str(packed.errors)).read_text().splitlines()]
    assert [one["name"] for one in told] == [f"{name}:{line}" for line in (3, 4, 5)]
    assert f"{name}, line 3: the label is empty" in told[0]["error"]
    with pytest.raises(PackError, match=rf"{name}:3.* failed: .*line 3: the label is empty"):
        pack(source, tmp_path / "t")
    source.write_text(text.replace("../", ""))
    with pytest.raises(UsageError, match="the classes of 'label'"):
        pack(source, store, on_error="skip", update=True)
    source.write_text(text.replace("../", "").replace("mouse", "dog"))
    with pytest.warns(UserWarning, match="2 of 5 inputs failed"):
        assert pack(source, store, on_error="skip", update=True).samples == 3
