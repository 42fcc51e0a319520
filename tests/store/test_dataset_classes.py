"""Labels with names, as torchvision's ImageFolder has them, and columns."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cordwood as cw
from cordwood.errors import UsageError
from tests.store.support.packed import pack
from tests.store.support.samples import assert_same_sample

NAMES = ["cat", "dog", "newt"]


def labelled(path: Path) -> cw.Dataset:
    samples = [(torch.full((2,), i), i % 3) for i in range(7)]
    return pack(path, samples, fields={"1": cw.Field(classes=NAMES)})


def test_labels_have_names(tmp_path: Path) -> None:
    ds = labelled(tmp_path / "s")
    assert ds.classes == NAMES
    assert ds.class_to_idx == {"cat": 0, "dog": 1, "newt": 2}
    assert ds.targets == [0, 1, 2, 0, 1, 2, 0]
    assert all(type(label) is int for label in ds.targets)
    assert [ds.classes[label] for _, label in ds] == [NAMES[i % 3] for i in range(7)]


def test_a_view_has_the_names_and_its_own_labels(tmp_path: Path) -> None:
    ds = labelled(tmp_path / "s")
    assert ds[4:].targets == [1, 2, 0]
    assert ds.subset([6, 1]).targets == [0, 1]
    assert ds[5:2:-1].targets == [2, 1, 0]
    assert ds.select("0").targets == ds.targets
    assert ds.select("1").classes == NAMES
    assert ds[:0].targets == []


def test_the_callers_list_is_its_own(tmp_path: Path) -> None:
    ds = labelled(tmp_path / "s")
    ds.classes.clear()
    assert ds.classes == NAMES


def test_without_names_there_are_no_such_attributes(tmp_path: Path) -> None:
    ds = pack(tmp_path / "s", [{"label": 1}])
    for name in ("classes", "class_to_idx", "targets"):
        assert not hasattr(ds, name)
    with pytest.raises(AttributeError, match=r"no field has class names; .*cw.Field"):
        _ = ds.classes


def test_two_fields_with_names_are_told(tmp_path: Path) -> None:
    both = {"a": cw.Field(classes=["x"]), "b": cw.Field(classes=["y"])}
    ds = pack(tmp_path / "s", [{"a": 0, "b": 0}], fields=both)
    assert not hasattr(ds, "classes")
    with pytest.raises(AttributeError, match="a, b all have class names"):
        _ = ds.classes


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3, -1, 2], torch.tensor([3, -1, 2])),
        ([0.5, 1.5, -2.0], torch.tensor([0.5, 1.5, -2.0], dtype=torch.float64)),
        ([True, False, True], torch.tensor([True, False, True])),
        ([1j, 2 + 0j, 0j], torch.tensor([1j, 2, 0], dtype=torch.complex128)),
        ([np.uint8(1), np.uint8(2), np.uint8(255)], torch.tensor([1, 2, 255], dtype=torch.uint8)),
        ([torch.tensor(i, dtype=torch.bfloat16) for i in range(3)], torch.tensor([0, 1, 2], dtype=torch.bfloat16)),
        ([np.array(i, np.int16) for i in range(3)], torch.tensor([0, 1, 2], dtype=torch.int16)),
    ],
)
def test_a_column_is_one_tensor(tmp_path: Path, values: list[Any], expected: torch.Tensor) -> None:
    ds = pack(tmp_path / "s", [{"x": {"y": value}, "t": torch.ones(3)} for value in values], shard_bytes=1)
    assert_same_sample(ds.column("x.y"), expected)
    assert_same_sample(ds[1:].column("x.y"), expected[1:])
    assert_same_sample(ds[:0].column("x.y"), expected[:0])


def test_a_column_of_many_samples_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cordwood.store.dataset._AT_ONCE", 4)
    ds = pack(tmp_path / "s", list(range(10)), shard_bytes=60)
    assert ds.column("value").tolist() == list(range(10))
    assert ds[::-3].column("value").tolist() == [9, 6, 3, 0]
    assert ds.subset([5, 5, 1, 0, 9]).column("value").tolist() == [5, 5, 1, 0, 9]


def test_what_has_no_column(tmp_path: Path) -> None:
    ds = pack(tmp_path / "s", [{"t": torch.ones(1), "n": 1, "d": {"k": 1}}, {"t": torch.ones(2), "d": {"k": 2}}])
    with pytest.raises(UsageError, match="field 't' is no number"):
        ds.column("t")
    with pytest.raises(UsageError, match="field 'n' is missing in some samples"):
        ds.column("n")
    with pytest.raises(UsageError, match="there is no field 'd'"):
        ds.column("d")
    assert ds[:1].column("n").tolist() == [1]
    with pytest.raises(UsageError, match="there is no field 'z'; there are"):
        ds.column("z")
