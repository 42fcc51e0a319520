"""What samples may lack: what the first samples show, or what was asked for, and nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import cordwood as cw
from cordwood.errors import UsageError
from cordwood.store.format import manifest
from cordwood.store.writing.first_samples import MAX_FIRST_SAMPLES
from cordwood.store.writing.infer import infer
from cordwood.store.writing.prepare import Preparer

IMAGE = torch.zeros(2, 2, dtype=torch.uint8)
WHOLE: dict[str, Any] = {"image": IMAGE, "label": 1, "meta": {"path": "a", "size": (3, 4)}, "tags": ["x"]}


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in WHOLE.items() if key != name}


def written(path: Path, first: list[Any], late: list[Any], **options: Any) -> cw.Dataset:
    """A store of so many first samples that they fix the schema, and of late ones."""
    with cw.Writer(path, **options) as writer:
        writer.extend([first[number % len(first)] for number in range(MAX_FIRST_SAMPLES)])
        for sample in late:
            writer.append(sample)
    return cw.open(path)


@pytest.mark.parametrize(
    ("late", "message"),
    [
        (without("image"), r"field 'image' is missing \(found: 'label', 'meta', 'tags'\).*'image': cw.Field\(optional"),
        (without("meta"), "field 'meta' is missing"),
        (without("tags"), "field 'tags' is missing"),
        ({**WHOLE, "meta": {"size": (3, 4)}}, r"field 'meta\.path' is missing \(found: 'size'\)"),
        ({**WHOLE, "image": None}, "field 'image' is None, but each of the store's first samples has a value there"),
        ({**WHOLE, "label": None}, "field 'label' is None"),
        ({**WHOLE, "meta": None}, "field 'meta' is None"),
        ({**WHOLE, "meta": {"path": "a", "size": (3, None)}}, r"field 'meta\.size\.1' is None"),
    ],
)
def test_what_all_first_samples_have_is_missing_later(tmp_path: Path, late: Any, message: str) -> None:
    with cw.Writer(tmp_path / "s") as writer:
        writer.extend([WHOLE] * (MAX_FIRST_SAMPLES + 9))
        with pytest.raises(UsageError, match=message):
            writer.append(late)
        writer.append(WHOLE)
    with cw.Writer(tmp_path / "s", mode="append") as writer, pytest.raises(UsageError, match=message):
        writer.append(late)
    assert len(cw.open(tmp_path / "s")) == MAX_FIRST_SAMPLES + 10


def test_what_one_first_sample_lacks_may_be_missing_later(tmp_path: Path) -> None:
    late = [without("image"), {**WHOLE, "image": None}]
    ds = written(tmp_path / "s", [WHOLE, without("image")], late)
    assert list(ds[MAX_FIRST_SAMPLES]) == ["label", "meta", "tags"]
    assert ds[MAX_FIRST_SAMPLES + 1]["image"] is None


def test_what_is_below_a_missing_dict_is_not_optional(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'meta\.path' is missing"):
        written(tmp_path / "s", [WHOLE, without("meta")], [{**WHOLE, "meta": {"size": (3, 4)}}])


def test_what_is_always_none_needs_no_permission(tmp_path: Path) -> None:
    ds = written(tmp_path / "s", [{"x": 1, "nothing": None}], [{"x": 2}, {"x": 3, "nothing": None}])
    assert [ds[number] for number in (-2, -1)] == [{"x": 2}, {"x": 3, "nothing": None}]


def test_what_takes_anything_takes_none(tmp_path: Path) -> None:
    assert written(tmp_path / "s", [{"x": [1]}], [{"x": None}])[-1] == {"x": None}
    with pytest.raises(UsageError, match="'x' is missing"):  # which None does not show
        written(tmp_path / "t", [{"y": 1, "x": [1]}, {"y": 1, "x": None}], [{"y": 1}])


@pytest.mark.parametrize("name", ["image", "meta", "meta.path", "tags"])
def test_what_was_asked_for_may_be_missing(tmp_path: Path, name: str) -> None:
    late = without(name) if name in WHOLE else {**WHOLE, "meta": {"size": (3, 4)}}
    fields = {name: cw.Field(optional=True)}
    ds = written(tmp_path / "s", [WHOLE], [late], fields=fields)
    assert ds[-1].keys() == late.keys()
    assert ds[-1].get("meta") == late.get("meta")
    with cw.Writer(tmp_path / "s", mode="append", fields=fields) as writer:
        writer.append(late)
    with pytest.raises(UsageError, match=r"optional of field 'label' is given as True, but .* was made with False"):
        cw.Writer(tmp_path / "s", mode="append", fields={"label": cw.Field(optional=True)})


def test_an_optional_field_that_no_sample_has(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="fields names 'mask', which is no field of the samples"):
        written(tmp_path / "s", [WHOLE], [], fields={"mask": cw.Field(optional=True)})


def test_merged_stores_take_what_one_of_them_takes(tmp_path: Path) -> None:
    written(tmp_path / "a", [WHOLE], [])
    written(tmp_path / "b", [WHOLE, without("tags")], [])
    written(tmp_path / "c", [WHOLE, without("image")], [])
    cw.merge([tmp_path / "a", tmp_path / "b", tmp_path / "c"], tmp_path / "m")
    assert manifest.read(tmp_path / "m").optional == ("image", "tags")
    with cw.Writer(tmp_path / "m", mode="append") as writer:
        writer.append(without("image"))
        with pytest.raises(UsageError, match="field 'label' is missing"):
            writer.append(without("label"))


def test_it_is_recorded_only_where_something_may_be_missing(tmp_path: Path) -> None:
    written(tmp_path / "a", [WHOLE], [])
    assert "optional" not in json.loads((tmp_path / "a" / "store.json").read_text())["body"]
    written(tmp_path / "b", [WHOLE, without("label")], [])
    assert json.loads((tmp_path / "b" / "store.json").read_text())["body"]["optional"] == ["label"]


_LEAVES = st.sampled_from([None, 3, "text", IMAGE, ["a"]])
_SAMPLES = st.dictionaries(
    st.sampled_from("abc"), st.one_of(_LEAVES, st.dictionaries(st.sampled_from("xy"), _LEAVES)), min_size=1
)


@given(_SAMPLES, st.data())
def test_a_sample_that_lacks_anything_of_the_only_first_one_is_refused(sample: dict[str, Any], data: Any) -> None:
    """Whatever value is taken away at whatever depth, or exchanged for None, unless it was None or takes anything."""
    with_path = [(key,) for key in sample] + [
        (key, below) for key, value in sample.items() if isinstance(value, dict) for below in value
    ]
    path = data.draw(st.sampled_from(with_path))
    gone = data.draw(st.booleans())
    schema = infer([sample])
    strict = Preparer(schema, {}, ())
    changed = {key: dict(value) if isinstance(value, dict) else value for key, value in sample.items()}
    at = changed if len(path) == 1 else changed[path[0]]
    before = at[path[-1]]
    if gone:
        del at[path[-1]]
    else:
        at[path[-1]] = None
    strict.prepare(sample)
    if before is None or (not gone and isinstance(before, list)):
        strict.prepare(changed)
    else:
        with pytest.raises(UsageError, match=rf"field '{'.'.join(path)}' is (missing|None)"):
            strict.prepare(changed)
