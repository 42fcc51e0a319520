"""``cw.concat``: several stores read as one."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader

import cordwood as cw
from cordwood.errors import FormatError, UsageError
from tests.store.support.packed import assert_all_same, coded, images, pack
from tests.store.support.samples import Point, assert_same_sample


def test_two_stores_are_one(tmp_path: Path) -> None:
    samples = images(7)
    a = pack(tmp_path / "a", samples[:3], shard_bytes=1)
    b = pack(tmp_path / "b", samples[3:], "raw")
    both = cw.concat([a, b])
    assert len(both) == 7
    assert_all_same(both, samples)
    assert_all_same(both.__getitems__([6, 0, -4]), [samples[6], samples[0], samples[3]])
    assert_same_sample(both[[6, 2, 3]]["image"], torch.stack([samples[i]["image"] for i in (6, 2, 3)]))
    assert both.column("label").tolist() == [sample["label"] for sample in samples]


def test_views_are_put_together_as_they_are(tmp_path: Path) -> None:
    samples = images(8)
    a, b = pack(tmp_path / "a", samples[:4], shard_bytes=1), pack(tmp_path / "b", samples[4:], shard_bytes=1)
    both = cw.concat([a[::-2], b.subset([3, 0, 3]), a[1:2]])
    expected = [samples[i] for i in (3, 1, 7, 4, 7, 1)]
    assert_all_same(both, expected)
    assert_all_same(both[::-1], expected[::-1])
    assert_all_same(pickle.loads(pickle.dumps(both)), expected)
    assert_all_same(cw.concat([both, b[:1]]), [*expected, samples[4]])


def test_a_store_beside_itself_and_nested(tmp_path: Path) -> None:
    samples = images(2)
    ds = pack(tmp_path / "s", samples)
    four = cw.concat([cw.concat([ds, ds]), ds])
    assert_all_same(four, samples * 3)
    assert_all_same(cw.concat([ds]), samples)


def test_a_selection_is_kept(tmp_path: Path) -> None:
    samples = images(2)
    ds = pack(tmp_path / "s", samples)
    both = cw.concat([ds.select("label"), ds.select("label")])
    assert list(both) == [(0,), (1,), (0,), (1,)]
    with pytest.raises(UsageError, match="different fields selected"):
        cw.concat([ds, ds.select("label")])


def test_what_was_opened_with_is_kept(tmp_path: Path) -> None:
    pack(tmp_path / "s", [Point(1, 2)])
    ds = cw.open(tmp_path / "s", types=[Point])
    assert type(cw.concat([cw.open(tmp_path / "s"), ds])[0]) is Point


def test_each_store_has_its_own_plans(tmp_path: Path) -> None:
    first, second = coded(300), [-tensor for tensor in coded(300)]
    both = cw.concat([pack(tmp_path / "a", first, "small"), pack(tmp_path / "b", second, "small")])
    assert list((tmp_path / "a" / "plans").iterdir())
    assert_same_sample(both[[0, 300, 299, 599]], torch.stack([first[0], second[0], first[299], second[299]]))


def test_a_store_that_has_grown_since_keeps_its_place(tmp_path: Path) -> None:
    samples = images(5)
    a, b = pack(tmp_path / "a", samples[:2], shard_bytes=1), pack(tmp_path / "b", samples[2:4])
    with cw.Writer(tmp_path / "a", mode="append") as writer:
        writer.append(samples[4])
    both = cw.concat([a, b])
    assert_all_same(both, samples[:4])
    assert_all_same(pickle.loads(pickle.dumps(both)), samples[:4])
    assert_all_same(cw.concat([cw.open(tmp_path / "a"), b]), [*samples[:2], samples[4], *samples[2:4]])


@pytest.mark.parametrize("order", [[0, 1], [1, 0], [0, 1, 0]])
def test_a_store_without_samples_adds_nothing(tmp_path: Path, order: list[int]) -> None:
    cw.Writer(tmp_path / "empty").close()
    named = {"label": cw.Field(classes=["a", "b", "c"])}
    full = pack(tmp_path / "full", images(3), fields=named)
    both = cw.concat([[cw.open(tmp_path / "empty"), full][which] for which in order])
    assert_all_same(both, images(3) * order.count(1))
    assert both.classes == ["a", "b", "c"]
    assert both.targets == [0, 1, 2]
    assert_same_sample(both[[2, 0]]["label"], torch.tensor([2, 0]))


def test_nothing_but_stores_without_samples(tmp_path: Path) -> None:
    cw.Writer(tmp_path / "empty").close()
    assert len(cw.concat([cw.open(tmp_path / "empty")] * 2)) == 0


def test_other_samples_are_refused(tmp_path: Path) -> None:
    a = pack(tmp_path / "a", [{"x": 1}])
    for name, sample in {"b": {"x": 1.5}, "c": {"y": 1}, "d": (1,)}.items():
        with pytest.raises(UsageError, match="hold different samples"):
            cw.concat([a, pack(tmp_path / name, [sample])])


def test_other_names_for_the_same_labels_are_refused(tmp_path: Path) -> None:
    samples = [{"label": 0}, {"label": 1}]
    a = pack(tmp_path / "a", samples, fields={"label": cw.Field(classes=["cat", "dog"])})
    b = pack(tmp_path / "b", samples, fields={"label": cw.Field(classes=["dog", "cat"])})
    with pytest.raises(UsageError, match=r"cat.*dog"):
        cw.concat([a, b])
    assert cw.concat([a, a]).classes == ["cat", "dog"]


@pytest.mark.parametrize("wrong", [[], [[1, 2]], [torch.ones(2)]])
def test_what_is_no_dataset_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="concat takes a list of datasets"):
        cw.concat(wrong)


def test_damage_names_the_store_it_is_in(tmp_path: Path) -> None:
    samples = images(4)
    a, b = pack(tmp_path / "a", samples[:2], shard_bytes=1), pack(tmp_path / "b", samples[2:], shard_bytes=1)
    (tmp_path / "b" / "shard-00000000.cws").unlink()
    both = cw.concat([a, b])
    with pytest.raises(FormatError, match=r"b/shard-00000000.cws: .*samples 2 to 2 cannot be read"):
        both[2]
    assert_all_same([both[0], both[1], both[3]], [samples[0], samples[1], samples[3]])


def test_torchs_own_concatenation_works_too(tmp_path: Path) -> None:
    samples = images(4)
    a, b = pack(tmp_path / "a", samples[:3]).select("label"), pack(tmp_path / "b", samples[3:]).select("label")
    loader: DataLoader[Any] = DataLoader(ConcatDataset([a, b]), batch_size=4)
    assert [batch[0].tolist() for batch in loader] == [[0, 1, 2, 0]]
