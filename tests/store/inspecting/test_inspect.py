"""What inspect tells of a store is what is in it: counts, sizes, shapes, values, classes, pictures, damage."""

import json
from html import unescape
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cordwood as cw
from cordwood.store import StoreInspection
from cordwood.store.inspecting import sampling
from cordwood.store.inspecting.inspect import inspect_store, schema_text
from cordwood.store.inspecting.result import FieldRow
from cordwood.store.schema.node import Node, scalar
from tests.store.support.small_stores import (
    cut,
    ends_of,
    flip,
    frame_of,
    row_of,
    sample,
    shard,
    write_planned,
    write_store,
)

INSPECTING = import_module("cordwood.store.inspecting.inspect")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return write_store(tmp_path / "x.cordwood")


def rows_by_name(inspection: StoreInspection) -> dict[str, FieldRow]:
    return {row.name: row for row in inspection.fields}


def test_counts_sizes_and_shapes(store: Path) -> None:
    found = inspect_store(store)
    samples = [sample(number) for number in range(24)]
    rows = rows_by_name(found)
    assert list(rows) == list(cw.open(store).schema.names)
    assert (found.samples, found.shards, found.asked) == (24, len(list(store.glob("*.cws"))), found.shards)
    assert found.size == sum(file.stat().st_size for file in store.rglob("*") if file.is_file())
    assert (found.goal, found.shard_bytes, found.damaged) == ("balanced", 6000, [])
    image = rows["image"]
    assert (image.kind, image.dtype, image.column, image.ranks) == ("tensor", "uint8", False, (3, 3))
    assert (image.smallest, image.largest) == ((3, 24, 18), (3, 24, 20))
    assert image.before == sum(each["image"].numel() for each in samples)
    assert image.after == sum(
        len(frame_of(store, number, row, "image"))
        for number in range(found.shards)
        for row in range(ends_of(store, number).count)
    )
    note = rows["note"]
    assert note.absent == sum("note" not in each for each in samples)
    assert note.none == sum(each.get("note", 1) is None for each in samples)
    assert note.present == 24 - note.absent - note.none
    assert rows["label"].column
    assert rows["label"].plan == "column"
    assert (found.before, found.after) == (sum(r.before for r in rows.values()), sum(r.after for r in rows.values()))


def test_values_of_arrays_and_columns(store: Path) -> None:
    rows = rows_by_name(inspect_store(store))
    images = torch.cat([sample(number)["image"].flatten() for number in range(24)]).double()
    values = rows["image"].values
    assert values is not None
    assert (values.count, values.smallest, values.largest) == (len(images), images.min().item(), images.max().item())
    assert values.mean == pytest.approx(images.mean().item())
    assert values.spread == pytest.approx(images.std(unbiased=False).item())
    assert rows["image"].values_of == 24
    column = rows["at.y"].values
    assert column is not None
    assert (column.smallest, column.largest, column.mean, column.zeros) == (-23, 0, -11.5, 1)
    assert rows["meta.path"].values is None


def test_precision_that_was_given_up(store: Path) -> None:
    row = rows_by_name(inspect_store(store))["features"]
    features = torch.stack([sample(number)["features"] for number in range(24)])
    assert (row.dtype, row.stored_as) == ("float32", "float16")
    assert row.worst_error == pytest.approx((features - features.half().float()).abs().max().item())


def test_the_path_is_shown_as_it_was_given(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(store.parent)
    assert cw.inspect(store.name).path == store.name
    assert str(cw.inspect(Path(store.name))).startswith(f"{store.name}: store, ")


def test_classes_are_counted(store: Path) -> None:
    assert rows_by_name(inspect_store(store))["label"].classes == [("cat", 8), ("dog", 8), ("bird", 8)]


def test_samples_without_a_label_are_of_no_class(tmp_path: Path) -> None:
    with cw.Writer(tmp_path / "x", fields={"label": cw.Field(classes=["a", "b"])}) as writer:
        for label in (0, 1, 1, None, None):
            writer.append({"label": label})
    assert rows_by_name(inspect_store(tmp_path / "x"))["label"].classes == [("a", 1), ("b", 2)]


def test_absent_numbers_do_not_count_as_zeros(tmp_path: Path) -> None:
    with cw.Writer(tmp_path / "x") as writer:
        for number in range(10):
            writer.append({"n": number + 5} if number % 2 else {"n": None} if number % 4 else {})
    row = rows_by_name(inspect_store(tmp_path / "x"))["n"]
    assert row.values is not None
    assert (row.values.count, row.values.zeros, row.values.smallest) == (5, 0, 6)


def test_shapes_of_different_ranks(tmp_path: Path) -> None:
    with cw.Writer(tmp_path / "x", shard_bytes=60) as writer:
        for rank in (2, 1, 3):
            writer.append({"x": torch.zeros([2] * rank)})
    found = inspect_store(tmp_path / "x")
    assert found.shards > 1
    assert (found.fields[0].ranks, found.fields[0].smallest) == ((1, 3), None)
    assert "1 to 3 dims" in str(found)


def test_pictures_of_images_only(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    with cw.Writer(tmp_path / "x") as writer:
        for _ in range(30):
            image = draw.integers(0, 256, (16, 20, 3), np.uint8)
            writer.append({"image": image, "table": torch.zeros(4, 100), "half": torch.rand(1, 9, 9).bfloat16()})
    rows = rows_by_name(inspect_store(tmp_path / "x"))
    assert [len(rows[name].pictures) for name in ("image", "table", "half")] == [8, 0, 8]
    assert len(set(rows["image"].pictures)) == 8
    html = inspect_store(tmp_path / "x")._repr_html_()
    assert html.count("<img") == 16
    assert "data:image/png;base64," not in json.dumps(inspect_store(tmp_path / "x").to_dict())


def test_the_arrays_of_few_samples_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cw.Writer(tmp_path / "x") as writer:
        for number in range(50):
            writer.append({"x": torch.full((10,), number), "n": number})
    monkeypatch.setattr(sampling, "_MOST_SAMPLES", 5)
    found = inspect_store(tmp_path / "x")
    rows = rows_by_name(found)
    assert (rows["x"].values_of, rows["n"].values_of) == (5, 50)
    assert rows["x"].values is not None
    assert (rows["x"].values.smallest, rows["x"].values.largest) == (0, 49)
    assert "values of arrays are those of 5 samples, evenly chosen" in str(found)
    monkeypatch.setattr(sampling, "_MOST_BYTES", 170)  # two arrays of 80 bytes
    assert rows_by_name(inspect_store(tmp_path / "x"))["x"].values_of == 2


def test_it_says_how_much_was_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are read of as many samples as arrays are; a field that is nowhere there costs nothing."""
    monkeypatch.setattr(sampling, "_MOST_SAMPLES", 8)
    with cw.Writer(tmp_path / "x.cordwood", shard_bytes=600) as writer:
        for number in range(40):
            writer.append({"x": torch.arange(30), "text": f"text {number}", "number": number, "none": None})
    found = inspect_store(tmp_path / "x.cordwood")
    assert {row.name: row.checked for row in found.fields} == {"x": 8, "text": 8, "number": 40}
    assert (found.checked, found.shards > 1) == (8, True)
    assert found.to_dict()["checked"] == {"index": True, "footers": found.shards, "samples": 8}
    told = f"index, {found.shards} of {found.shards} footers and 8 of 40 samples; `cordwood verify` checks every byte"
    assert f"checked   {told}\n" in str(found)
    assert told in unescape(found._repr_html_())


def test_a_damaged_text_is_found_where_it_is_read(tmp_path: Path) -> None:
    with cw.Writer(tmp_path / "x.cordwood") as writer:
        writer.extend({"text": f"text {number}" * 20} for number in range(5))
    flip(shard(tmp_path / "x.cordwood", 0), frame_of(tmp_path / "x.cordwood", 0, 0, "text")[-2])
    found = inspect_store(tmp_path / "x.cordwood")
    assert found.checked == 4
    assert len(found.damaged) == 1


def test_of_many_rows_some_runs_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cw.Writer(tmp_path / "x") as writer:
        for number in range(500):
            writer.append({"n": number})
    monkeypatch.setattr(sampling, "_MOST_ROWS", 60)
    monkeypatch.setattr(sampling, "_RUN", 10)
    found = inspect_store(tmp_path / "x")
    values = found.fields[0].values
    assert values is not None
    assert (values.count, values.smallest, values.largest) == (60, 0, 499)
    assert "values of columns are those of 60 samples, evenly chosen" in str(found)


def test_of_many_shards_some_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cw.Writer(tmp_path / "x", shard_bytes=1) as writer:
        for number in range(20):
            writer.append({"x": torch.arange(number % 2, 10), "n": number})
    monkeypatch.setattr(INSPECTING, "_MOST_SHARDS", 5)
    found = inspect_store(tmp_path / "x")
    assert (found.shards, found.asked) == (20, 5)
    row = rows_by_name(found)["x"]
    assert (row.present, rows_by_name(found)["n"].before) == (20, 160)
    assert 20 * 9 * 8 <= row.before <= 20 * 10 * 8
    assert "those of 5 evenly chosen shards of 20, sizes and counts scaled up" in " ".join(str(found).split())
    assert "about" in str(found)


def test_an_empty_store(tmp_path: Path) -> None:
    cw.Writer(tmp_path / "x").close()
    found = inspect_store(tmp_path / "x")
    assert (found.samples, found.fields, found.schema) == (0, [], "no samples yet")
    assert str(found).startswith(f"{tmp_path / 'x'}: store, 0 samples in 0 shards, {found.size} B")
    assert found.size == sum(file.stat().st_size for file in (tmp_path / "x").iterdir())
    assert "checked" not in str(found)
    json.dumps(found.to_dict(), allow_nan=False)


def test_numbers_that_json_has_no_word_for(tmp_path: Path) -> None:
    with cw.Writer(tmp_path / "x") as writer:
        writer.append({"x": torch.tensor([float("inf"), float("nan"), 1.0]), "y": float("-inf"), "z": 1 + 2j})
    found = inspect_store(tmp_path / "x")
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))["fields"]
    assert [field["values"]["nans"] for field in told] == [1, 0, 0]
    assert told[0]["values"]["max"] == "inf"
    assert told[1]["values"]["min"] == "-inf"
    assert "magnitudes" in str(found)


@pytest.mark.parametrize("part", ["frame", "row", "footer", "trailer", "all", "gone"])
def test_damage_is_told_and_the_rest_is_shown(store: Path, part: str) -> None:
    path = shard(store, 1)
    count = ends_of(store, 1).count
    match part:
        case "frame":
            flip(path, frame_of(store, 1, 0, "image")[-2])
        case "row":
            flip(path, row_of(store, 1, 0)[3])
        case "footer":
            flip(path, ends_of(store, 1).footer_offset + 3)
        case "trailer":
            flip(path, -3)
        case "all":
            cut(path, 10)
        case _:
            path.unlink()
    found = inspect_store(store)
    (told,) = found.damaged
    assert told.startswith("shard-00000001.cws: ")
    rows = rows_by_name(found)
    unread = {"frame": 1, "row": 1, "footer": 0}.get(part, count)
    assert rows["image"].values_of == 24 - unread
    assert rows["label"].values_of == 24 - (unread if part != "frame" else 0)
    assert rows["image"].present == 24 if part in ("frame", "row") else rows["image"].present in range(22, 27)
    assert "damaged   shard-00000001.cws" in str(found)


def test_a_lost_plan_is_told(tmp_path: Path) -> None:
    path = write_planned(tmp_path / "x.cordwood", 30)
    (plan,) = (path / "plans").iterdir()
    plan.unlink()
    found = inspect_store(path)
    assert found.fields[0].plan == "?"
    assert found.damaged[0].startswith(f"{plan.name}: the plan is not there")
    assert len(found.damaged) == 21  # the plan, and so many samples that need it
    assert found.fields[1].values is not None


def test_a_footer_that_lies(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = INSPECTING.read_footer
    good = real(shard(store, 0), ends_of(store, 0))["fields"]
    for wrong in (
        [],
        [None] * len(good),
        [{**entry, "present": -1} for entry in good],
        [{**entry, "raw_bytes": "many"} for entry in good],
        [{**entry, "ranks": [1]} for entry in good],
        [{**entry, "shapes": {"min": [1], "max": [1, 2]}} for entry in good],
        [{**entry, "worst_error": "none"} for entry in good],
        [{**entry, "name": "x"} for entry in good],
    ):
        fields: Any = wrong

        def lying(path: Path, ends: Any, fields: Any = fields) -> dict[str, Any]:
            return {"fields": fields}

        monkeypatch.setattr(INSPECTING, "read_footer", lying)
        found = inspect_store(store)
        assert found.asked == 0
        assert all("the footer tells of other fields" in told for told in found.damaged)
        assert str(found)


def test_several_stores_as_one(store: Path, tmp_path: Path) -> None:
    other = write_store(tmp_path / "y.cordwood", 5)
    both = cw.concat([cw.open(store), cw.open(other)]).inspect()
    assert both.samples == 29
    assert both.path == f"{store} + {other}"
    assert rows_by_name(both)["label"].present == 29


def test_an_empty_store_before_another_one(store: Path, tmp_path: Path) -> None:
    cw.Writer(tmp_path / "empty.cordwood").close()
    both = cw.concat([cw.open(tmp_path / "empty.cordwood"), cw.open(store)]).inspect()
    alone = inspect_store(store)
    assert (both.samples, both.schema, both.fields) == (24, alone.schema, alone.fields)


def test_one_function_for_files_and_stores(store: Path, tmp_path: Path) -> None:
    torch.save(torch.ones(3), tmp_path / "x.pt")
    assert isinstance(cw.inspect(store), StoreInspection)
    assert isinstance(cw.inspect(str(store)), StoreInspection)
    assert isinstance(cw.inspect(tmp_path / "x.pt"), cw.Inspection)
    with (tmp_path / "x.pt").open("rb") as file:
        assert isinstance(cw.inspect(file), cw.Inspection)
    with pytest.raises(cw.UsageError, match="this is no store"):
        inspect_store(tmp_path)


def test_the_schema_in_a_line() -> None:
    leaf = Node("tensor", dtype="float32")
    root = Node(
        "dict",
        keys=("a", 1),
        items=(
            Node("tuple", items=(leaf,)),
            Node("ordereddict", keys=("l",), items=(Node("list", items=(scalar("int"), Node("none"))),)),
        ),
    )
    assert schema_text(root) == "{a: (tensor float32,), 1: ordered {l: [int, none]}}"
    named = Node("namedtuple", name="Box", keys=("x", "y"), items=(scalar("numpy", "int8"), Node("any")))
    assert schema_text(named) == "Box(x: numpy int8, y: any)"
    wide = Node("dict", keys=tuple(map(str, range(9999))), items=(leaf,) * 9999)
    assert len(schema_text(wide)) == 2000


def test_a_shard_that_is_gone_is_told_of_once_even_if_it_was_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cw.Writer(tmp_path / "x", shard_bytes=250) as writer:
        for number in range(60):
            writer.append({"x": torch.arange(10), "n": number})
    shards = len(list((tmp_path / "x").glob("*.cws")))
    assert shards > 5
    lost = ends_of(tmp_path / "x", 3).count
    shard(tmp_path / "x", 3).unlink()
    monkeypatch.setattr(INSPECTING, "_MOST_SHARDS", 2)
    found = inspect_store(tmp_path / "x")
    (told,) = found.damaged
    assert told.startswith("shard-00000003.cws: No such file or directory")
    assert [row.values_of for row in found.fields] == [60 - lost, 60 - lost]


def test_so_much_damage_that_looking_further_is_of_no_use(tmp_path: Path) -> None:
    with cw.Writer(tmp_path / "x", goal="raw") as writer:
        for number in range(100):
            writer.append({"x": torch.arange(200), "n": number})
    for row in range(100):
        flip(shard(tmp_path / "x", 0), frame_of(tmp_path / "x", 0, row, "x")[-2])
    found = inspect_store(tmp_path / "x")
    assert len(found.damaged) == 20
    assert found.fields[0].values is None
    assert found.fields[1].values is not None
