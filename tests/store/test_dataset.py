"""A store as a dataset: samples by number, slices, subsets, selections."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, Subset, random_split

import cordwood as cw
from cordwood.errors import UsageError
from tests.store.support.packed import assert_all_same, images, pack
from tests.store.support.samples import assert_same_sample
from tests.tensors.support.same import named_tensors

SAMPLES = images(9)


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> cw.Dataset:
    return pack(tmp_path_factory.mktemp("dataset") / "s", SAMPLES, shard_bytes=100)


def test_it_is_a_torch_dataset(ds: cw.Dataset) -> None:
    assert isinstance(ds, Dataset)
    assert isinstance(ds, cw.Dataset)


@pytest.mark.parametrize("number", [3, np.int32(3), np.array(3), torch.tensor(3), torch.tensor(3, dtype=torch.int8)])
def test_a_number_of_any_kind_is_one_sample(ds: cw.Dataset, number: Any) -> None:
    assert_same_sample(ds[number], SAMPLES[3])


def test_negative_numbers_count_from_the_end(ds: cw.Dataset) -> None:
    assert_all_same([ds[i] for i in range(-9, 0)], SAMPLES)
    assert_same_sample(ds[[-1, -9]]["label"], torch.tensor([SAMPLES[-1]["label"], SAMPLES[0]["label"]]))


@pytest.mark.parametrize("number", [9, -10, 1 << 70, -(1 << 70)])
def test_a_number_that_is_not_there_is_an_index_error(ds: cw.Dataset, number: int) -> None:
    with pytest.raises(IndexError, match=rf"sample {number} of 9"):
        ds[number]
    if abs(number) < 1 << 60:
        for ask in (ds.__getitem__, ds.__getitems__, ds.subset):
            with pytest.raises(IndexError, match=rf"sample {number} of 9"):
                ask([0, number])


@pytest.mark.parametrize("wrong", [1.5, "image", None, {1: 2}, ds, np.float32(1), torch.tensor(1.0), [0.5], [[1]]])
def test_what_is_no_number_is_refused(ds: cw.Dataset, wrong: Any) -> None:
    with pytest.raises(UsageError, match="number"):
        ds[wrong]


def test_the_name_of_a_field_tells_how_fields_are_read(ds: Any) -> None:
    with pytest.raises(UsageError, match=r"not by str: ds\.select\('image'\) .*, ds\[0\]\['image'\] is one sample's$"):
        ds["image"]
    assert ds[0]["image"] is not None
    with pytest.raises(UsageError, match=r"ds\.select\('meta\.path'\) reads that field alone$"):
        ds["meta.path"]
    with pytest.raises(UsageError, match=r"ds\.select\('image'\) reads that field alone$"):
        ds.select("image")["image"]  # whose samples are tuples
    with pytest.raises(UsageError, match=r"not by str; did you mean 'image'\?$"):
        ds["imgae"]


def test_a_tuple_of_numbers_tells_what_is_meant(ds: Any) -> None:
    with pytest.raises(UsageError, match=r"ds\[1, 2\] names several samples: pass a list, ds\[\[1, 2\]\]"):
        ds[1, 2]


@pytest.mark.parametrize("numbers", [[5, 1, 5], np.array([5, 1, 5], np.uint8), torch.tensor([5, 1, 5])])
def test_numbers_of_any_kind_are_a_batch(ds: cw.Dataset, numbers: Any) -> None:
    batch = ds[numbers]
    assert_same_sample(batch["image"], torch.stack([SAMPLES[i]["image"] for i in (5, 1, 5)]))
    assert batch["meta"]["path"] == ["5.jpg", "1.jpg", "5.jpg"]
    assert_same_sample(batch["meta"]["size"][1], torch.tensor([2.5, 0.5, 2.5], dtype=torch.float64))


def test_a_range_is_a_batch(ds: cw.Dataset) -> None:
    assert ds[range(2, 8, 3)]["meta"]["path"] == ["2.jpg", "5.jpg"]


def test_a_mask_is_a_batch_of_what_is_true(ds: cw.Dataset) -> None:
    for mask in ([True] + [False] * 7 + [True], torch.arange(9) % 8 == 0, np.arange(9) % 8 == 0):
        assert ds[mask]["meta"]["path"] == ["0.jpg", "8.jpg"]
        assert_all_same(ds.subset(mask), [SAMPLES[0], SAMPLES[8]])
    with pytest.raises(UsageError, match="a mask of 1 bools for 9 samples"):
        ds[[True]]


@pytest.mark.parametrize(
    "part",
    [slice(2, 6), slice(None), slice(-3, None), slice(None, None, -2), slice(7, 1, -3), slice(5, 5), slice(0, 99)],
)
def test_a_slice_is_a_dataset(ds: cw.Dataset, part: slice) -> None:
    view = ds[part]
    assert isinstance(view, cw.Dataset)
    assert len(view) == len(SAMPLES[part])
    assert_all_same(view, SAMPLES[part])
    assert_all_same(view[::-1], SAMPLES[part][::-1])
    assert_all_same(view.subset(range(len(view))), SAMPLES[part])


def test_a_view_has_numbers_of_its_own(ds: cw.Dataset) -> None:
    view = ds[6:2:-1]
    assert_same_sample(view[-1], SAMPLES[3])
    assert view[[0, -1]]["meta"]["path"] == ["6.jpg", "3.jpg"]
    assert_all_same(view.__getitems__([1, 2]), [SAMPLES[5], SAMPLES[4]])
    with pytest.raises(IndexError, match="sample 4 of 4"):
        view[4]
    twice = view.subset([3, 3, -1, 0])
    assert_all_same(twice, [SAMPLES[3], SAMPLES[3], SAMPLES[3], SAMPLES[6]])
    assert twice.column("label").tolist() == [0, 0, 0, 0]
    assert view.column("meta.size.0").tolist() == [6, 5, 4, 3]


def test_a_subset_keeps_its_numbers_though_the_callers_change(ds: cw.Dataset) -> None:
    numbers = np.array([4, 2])
    view = ds.subset(numbers)
    numbers[:] = 0
    assert_all_same(view, [SAMPLES[4], SAMPLES[2]])


def test_a_selection_is_tuples_in_the_order_asked_for(ds: cw.Dataset) -> None:
    view = ds.select("label", "image")
    assert view.names == ("label", "image")
    assert_same_sample(view[4], (SAMPLES[4]["label"], SAMPLES[4]["image"]))
    labels, pictures = view[[4, 5]]
    assert_same_sample(labels, torch.tensor([1, 2]))
    assert_same_sample(pictures, torch.stack([SAMPLES[4]["image"], SAMPLES[5]["image"]]))
    assert_all_same(view.__getitems__([1]), [(1, SAMPLES[1]["image"])])
    assert_same_sample(view[2:].select("image")[0], (SAMPLES[2]["image"],))


def test_a_selection_may_name_containers_and_what_is_in_them(ds: cw.Dataset) -> None:
    view = ds.select("meta", "meta.path", "meta.size", "meta.size.1", "label", "label")
    assert view[3] == ({"path": "3.jpg", "size": (3, 1.5)}, "3.jpg", (3, 1.5), 1.5, 0, 0)
    meta = view[[3, 4]][0]
    assert meta["path"] == ["3.jpg", "4.jpg"]
    assert_same_sample(meta["size"], (torch.tensor([3, 4]), torch.tensor([1.5, 2.0], dtype=torch.float64)))


def test_a_selection_of_what_is_not_there(ds: cw.Dataset) -> None:
    with pytest.raises(UsageError, match=r"no field 'imoge'; there are .*image.*label.*meta"):
        ds.select("imoge")
    with pytest.raises(UsageError, match=r"select takes names of fields: image, label, meta\.path"):
        ds.select()
    with pytest.raises(UsageError, match="select takes names of fields"):
        ds.select(["image"])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="have only label"):
        ds.select("label").select("image")


def test_a_selection_gives_none_for_what_a_sample_lacks(tmp_path: Path) -> None:
    samples: list[Any] = [{"a": {"b": 1, "c": torch.ones(2)}, "d": None}, {"a": None}, {"d": None}, {"a": {"c": None}}]
    ds = pack(tmp_path / "s", samples)
    view = ds.select("a.b", "a", "d", "a.c")
    assert_same_sample(view[0], (1, samples[0]["a"], None, torch.ones(2)))
    assert view[1] == (None, None, None, None)
    assert view[2] == (None, None, None, None)
    assert view[3] == (None, {"c": None}, None, None)
    assert_all_same(ds, samples)


def test_a_selection_reads_nothing_else(tmp_path: Path) -> None:
    samples: list[dict[str, Any]] = [
        {"good": torch.arange(150) + i, "bad": torch.arange(150) - i - 1, "n": i} for i in range(3)
    ]
    ds = pack(tmp_path / "s", samples, "raw")
    shard = tmp_path / "s" / "shard-00000000.cws"
    data = bytearray(shard.read_bytes())
    for i in range(3):
        at = data.index((torch.arange(150) - i - 1).numpy().tobytes())
        data[at + 8] ^= 1
    shard.write_bytes(data)
    with pytest.raises(cw.FormatError, match=r"sample 1 .*field 'bad'"):
        ds[1]
    assert_all_same(ds.select("good", "n"), [(sample["good"], sample["n"]) for sample in samples])
    assert ds.column("n").tolist() == [0, 1, 2]
    assert_same_sample(ds.select("good")[[2, 0]][0], torch.stack([samples[2]["good"], samples[0]["good"]]))


def test_samples_own_exactly_their_bytes(tmp_path: Path) -> None:
    sizes = [1, 100, 20_000, 1_200_000]  # small ones, pooled ones, mapped ones
    samples = [
        {f"{size}": torch.arange(size, dtype=torch.int32) for size in sizes} | {"n": torch.tensor(i)} for i in range(3)
    ]
    ds = pack(tmp_path / "s", samples, "raw")
    kept = [ds[0], *ds.__getitems__([0, 1, 2]), *ds.__getitems__([1]), ds[2]]
    pointers = set()
    for sample in kept:
        for name, tensor in named_tensors(sample).items():
            assert tensor.untyped_storage().nbytes() == tensor.numel() * tensor.itemsize, name
            assert tensor.is_contiguous()
            pointers.add(tensor.untyped_storage().data_ptr())
    assert len(pointers) == len(kept) * 5  # and no two share memory
    assert_all_same(kept, [samples[i] for i in (0, 0, 1, 2, 1, 2)])


def test_samples_and_batches_may_be_written_to(ds: cw.Dataset) -> None:
    sample, batch = ds[0], ds[[0, 0]]
    sample["image"].fill_(1)
    batch["image"][0].fill_(2)
    batch["label"].fill_(9)
    assert_same_sample(batch["image"][1], SAMPLES[0]["image"])
    assert_same_sample(ds[0], SAMPLES[0])


def test_it_pickles_by_path(ds: cw.Dataset) -> None:
    assert len(pickle.dumps(ds)) < 1000
    for view in (ds, ds[7:1:-2], ds.subset([3, 1]), ds.select("label", "meta"), ds[[0, 1]]):
        again = pickle.loads(pickle.dumps(view))
        if isinstance(view, cw.Dataset):
            assert_all_same(again, list(view))
            assert again.names == view.names


def test_the_pickled_state_stays_what_it_was(ds: cw.Dataset) -> None:
    reopen, state = ds[7:1:-2].select("label").__reduce__()
    assert (reopen.__module__, reopen.__qualname__) == ("cordwood.store.dataset", "_reopened")
    assert state == ((str(ds.path),), (len(ds),), None, range(7, 1, -2), ("label",), ())


def test_torchs_subsets(ds: cw.Dataset) -> None:
    assert_all_same([Subset(ds, [8, 0])[i] for i in range(2)], [SAMPLES[8], SAMPLES[0]])
    assert_all_same(Subset(ds, [8, 0, 4]).__getitems__([1, 2]), [SAMPLES[0], SAMPLES[4]])
    parts = random_split(ds, [4, 5], generator=torch.Generator().manual_seed(0))
    found = sorted(sample["meta"]["size"][0] for part in parts for sample in (part[i] for i in range(len(part))))
    assert found == list(range(9))


def test_it_shows_what_it_is(ds: cw.Dataset) -> None:
    assert "9 samples" in repr(ds)
    assert "image" in repr(ds)
    assert "4 of 9 samples" in repr(ds[:4])


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
