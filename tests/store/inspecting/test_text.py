"""A store's inspection as text and as HTML: a pleasure to read, and deaf to what hostile names say."""

from pathlib import Path

import numpy as np
import pytest
import torch

import cordwood as cw
from cordwood.store import StoreInspection
from cordwood.store.inspecting.result import FieldRow
from cordwood.store.inspecting.value_statistics import Values

HOSTILE = "\x1b[31m<script>alert('x')</script>\u202e&"


def values(*numbers: float) -> Values:
    made = Values()
    made.add(np.array(numbers))
    return made


def made_up() -> StoreInspection:
    fields = [
        FieldRow(
            "image",
            "tensor",
            "float32",
            False,
            None,
            "balanced",
            "palette[channel] | predict | entropy",
            before=6_021_120_000,
            after=453_210_987,
            present=10_000,
            ranks=(3, 3),
            smallest=(3, 224, 224),
            largest=(3, 224, 224),
            values=values(-2.118, 0, 2.64),
            values_of=256,
        ),
        FieldRow(
            "boxes",
            "ndarray",
            "float64",
            False,
            "float16",
            "small",
            "planes | entropy",
            before=640_000,
            after=100_000,
            present=9_990,
            none=10,
            ranks=(2, 2),
            smallest=(0, 4),
            largest=(31, 4),
            worst_error=0.001953125,
            values=values(1, np.nan, np.inf),
            values_of=256,
        ),
        FieldRow(
            "label",
            "int",
            "int64",
            True,
            None,
            "balanced",
            "column",
            before=80_000,
            after=80_000,
            present=10_000,
            values=values(0, 1, 2),
            values_of=10_000,
            classes=[("cat", 4000), ("dog", 6000)],
        ),
        FieldRow("path", "str", "uint8", False, None, "balanced", "zstd", 1000, 2000, 8, absent=9_992),
    ]
    for row, checked in zip(fields, (256, 256, 10_000, 300), strict=True):
        row.checked = checked
    fields[3].ranks, fields[3].smallest, fields[3].largest = (1, 1), (9,), (9,)
    schema = "{image: tensor float32, boxes: ndarray float64, label: int, path: str}"
    return StoreInspection("x.cordwood", 10_000, 7, 455_000_000, "balanced", 64 << 20, schema, fields, 7)


def test_a_table_of_all_that_matters() -> None:
    assert str(made_up()).splitlines() == [
        "x.cordwood: store, 10,000 samples in 7 shards, 455.0 MB",
        "",
        "field  kind             shape            before     after   ratio  note",
        "-----  ---------------  -------------  --------  --------  ------  ------------------------",
        "image  tensor float32   [3, 224, 224]    6.0 GB  453.2 MB  13.29x",
        "boxes  ndarray float64  [0..31, 4]     640.0 kB  100.0 kB   6.40x  as float16, None in 0.1%",
        "label  int              -               80.0 kB   80.0 kB   1.00x",
        "path   str              [9]              1.0 kB    2.0 kB   0.50x  absent in >99.9%",
        "",
        "values     min   max   mean     std  zeros  NaN  note",
        "------  ------  ----  -----  ------  -----  ---  ----------------",
        "image   -2.118  2.64  0.174   1.946  33.3%    -",
        "boxes        1   inf      1       0     0%    1  1 infinite value",
        "label        0     2      1  0.8165  33.3%    -",
        "",
        "total     6.0 GB before, 453.4 MB after, 13.28x smaller",
        "goal      balanced, shards of 67.1 MB",
        "note      values of arrays are those of 256 samples, evenly chosen",
        "",
        "checked   index, 7 of 7 footers and 256 of 10,000 samples; `cordwood verify` checks every byte",
        "",
        "plans     palette[channel] | predict | entropy: image",
        "          planes | entropy (small): boxes",
        "          column: label",
        "          zstd: path",
        "",
        "rounded   boxes: float64 stored as float16, worst error 0.00195",
        "",
        "classes   label: 2 classes: cat 4,000, dog 6,000",
        "",
        "schema    {image: tensor float32, boxes: ndarray float64, label: int, path: str}",
    ]


@pytest.mark.parametrize("width", [80, 100])
def test_it_fits_whatever_the_names_are(width: int) -> None:
    found = made_up()
    for row in found.fields:
        row.name = f"annotations.instances.segmentation.{row.name}.of_the_left_camera"
        row.none, row.absent = 17, 18
    found.damaged = ["word " * 100]
    lines = found.table(width=width).splitlines()
    assert all(len(line) <= width for line in lines[1:])
    assert "camera" in lines[4]


def test_many_fields_are_shortened() -> None:
    found = made_up()
    found.fields = [FieldRow(f"f{number}", "int", "int64", True, None, "raw", "column") for number in range(90)]
    assert "... 30 more fields (all: .fields, or --all)" in str(found)
    assert "f89" in found.table(max_rows=None)


def test_many_classes_are_shortened() -> None:
    found = made_up()
    found.fields[2].classes = [(f"c{number}", 100 + number) for number in range(40)]
    told = " ".join(str(found).split())
    assert "label: 40 classes; rarest c0 100, c1 101, c2 102; commonest c39 139, c38 138, c37 137" in told
    assert "c17 117" in found.table(max_rows=None)


def test_nothing_of_a_store_reaches_the_terminal_unfiltered(tmp_path: Path) -> None:
    fields = {HOSTILE: cw.Field(classes=[HOSTILE, "b"])}
    with cw.Writer(tmp_path / "x", fields=fields) as writer:
        writer.append({HOSTILE: 1, "x": {HOSTILE: torch.ones(3)}})
    dataset = cw.open(tmp_path / "x")
    for text in (str(dataset.inspect()), repr(dataset), repr(dataset.select(HOSTILE))):
        assert text.replace("\n", "").isprintable()
        assert r"\x1b[31m<scri" in text


def test_nothing_of_a_store_is_markup(tmp_path: Path) -> None:
    fields = {HOSTILE: cw.Field(classes=[HOSTILE, "b"])}
    with cw.Writer(tmp_path / "x", fields=fields) as writer:
        for _ in range(3):
            writer.append({HOSTILE: 1, "x": {HOSTILE: torch.rand(3, 9, 9)}})
    html = cw.open(tmp_path / "x")._repr_html_()
    assert "<script" not in html
    assert html.count("<img") == 3
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;" in html
    assert "\x1b" not in html


def test_html_has_what_the_text_has() -> None:
    html = made_up()._repr_html_()
    for word in ("palette[channel] | predict | entropy: image", "13.29x", "worst error 0.00195", "cat 4,000", "-2.118"):
        assert word in html
    assert html.count("<tr>") == 5 + 4 + 2


def test_a_dataset_in_some_lines(tmp_path: Path) -> None:
    with cw.Writer(tmp_path / "x") as writer:
        for n in range(5):
            writer.append({"image": torch.zeros(3, 4), "label": n, "meta": {"a": "x", "b": 1.5}})
    dataset = cw.open(tmp_path / "x")
    assert repr(dataset).splitlines() == [
        f"Dataset: 5 samples of {tmp_path / 'x'}",
        "  image   tensor of float32",
        "  label   int",
        "  meta.a  str",
        "  meta.b  float",
    ]
    assert repr(dataset[1:3].select("meta", "label")).splitlines() == [
        f"Dataset: 2 of 5 samples of {tmp_path / 'x'}",
        "  meta   several fields",
        "  label  int",
    ]
