"""A batch is what torch's stock collate makes of the samples; what cannot be stacked is a list."""

import tempfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import default_collate

import cordwood as cw
from cordwood.codecs import Goal
from cordwood.errors import UsageError
from cordwood.store.schema.node import ARRAYS
from cordwood.store.schema.schema import Leaf
from tests.store.support.packed import images, pack
from tests.store.support.samples import TENSOR_DTYPES, Point, assert_same_sample, datasets


def tuples_kept(collated: Any, sample: Any) -> Any:
    """What the stock collate gives, where it makes a list of a plain tuple: the tuple."""
    if isinstance(sample, dict):
        return type(sample)((key, tuples_kept(collated[key], sample[key])) for key in sample)
    if isinstance(sample, tuple) and hasattr(sample, "_fields"):
        return type(sample)(*map(tuples_kept, collated, sample))
    if isinstance(sample, list | tuple):
        return type(sample)(map(tuples_kept, collated, sample))
    return collated


def all_kinds(number: int) -> dict[str, Any]:
    """Whatever the stock collate can make a batch of."""
    return {
        "tensor": torch.arange(6.0).reshape(2, 3) * number,
        "half": torch.full((2,), number, dtype=torch.bfloat16),
        "array": np.arange(4, dtype=np.int16) - number,
        "int": number - 2,
        "float": number / 3,
        "bool": number % 2 == 0,
        "text": "x" * number,
        "bytes": bytes(range(number)),
        "alone": torch.tensor(number, dtype=torch.float16),
        "array alone": np.array(number, np.uint8),
        "scalar": np.float32(number / 7),
        "empty": torch.zeros(0, 3),
        "inside": OrderedDict(t=(torch.ones(1) * number, [torch.zeros(2), number])),
        "named": Point(number, torch.tensor([number])),
    }


@pytest.mark.parametrize("goal", ["raw", "balanced"])
@pytest.mark.parametrize("shard_bytes", [1, 1 << 20])
def test_a_batch_is_that_of_the_stock_collate(tmp_path: Path, goal: Goal, shard_bytes: int) -> None:
    samples = [all_kinds(number) for number in range(5)]
    ds = pack(tmp_path / "s", samples, goal, shard_bytes=shard_bytes)
    for numbers in ([3], [4, 0, 2, 0], [0, 1, 2, 3, 4]):
        expected = default_collate([samples[number] for number in numbers])
        assert_same_sample(ds[numbers], tuples_kept(expected, samples[0]))


def test_a_sample_that_is_a_leaf_makes_a_batch_that_is_one(tmp_path: Path) -> None:
    tensors = pack(tmp_path / "t", [torch.arange(3) + i for i in range(4)])
    assert_same_sample(tensors[[2, 0]], torch.tensor([[2, 3, 4], [0, 1, 2]]))
    numbers = pack(tmp_path / "n", [0.5, 1.5])
    assert_same_sample(numbers[[1, 0]], torch.tensor([1.5, 0.5], dtype=torch.float64))
    texts = pack(tmp_path / "s", ["a", "bc"])
    assert texts[[1, 0]] == ["bc", "a"]


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("dtype", TENSOR_DTYPES)
def test_every_dtype_by_itself_and_in_a_batch(tmp_path: Path, dtype: str) -> None:
    bits = torch.arange(64, dtype=torch.uint8)
    made = (bits % 2 == 1) if dtype == "bool" else bits.view(getattr(torch, dtype))
    samples = [{"frame": made, "column": made[number]} for number in range(4)]
    ds = pack(tmp_path / "s", samples)
    assert_same_sample(ds[1], samples[1])
    stacked = bits.repeat(2, 1) % 2 == 1 if dtype == "bool" else bits.repeat(2, 1).view(made.dtype)
    assert_same_sample(ds[[3, 0]], {"frame": stacked, "column": picked(made, [3, 0])})
    assert_same_sample(ds.column("column"), picked(made, [0, 1, 2, 3]))


def picked(tensor: torch.Tensor, numbers: list[int]) -> torch.Tensor:
    """Items of a tensor whose dtype may know no indexing by a list."""
    rows = tensor.view(torch.uint8).reshape(len(tensor), -1)[numbers].reshape(-1)
    return rows.view(tensor.dtype)


def test_shapes_that_differ_are_a_list_and_equal_ones_a_tensor(tmp_path: Path) -> None:
    samples = [{"t": torch.arange(n), "a": np.ones((2, n % 2), np.float32)} for n in (2, 3, 2, 2)]
    ds = pack(tmp_path / "s", samples)
    ragged = ds[[0, 1, 2]]
    assert isinstance(ragged["t"], list)
    assert isinstance(ragged["a"], list)
    assert_same_sample(ragged["t"], [samples[i]["t"] for i in range(3)])
    assert_same_sample(ragged["a"], [torch.from_numpy(samples[i]["a"]) for i in range(3)])
    even = ds[[0, 2, 3]]
    assert_same_sample(even["t"], torch.arange(2).repeat(3, 1))
    assert even["a"].shape == (3, 2, 0)


def test_what_some_samples_lack_is_a_list_with_none(tmp_path: Path) -> None:
    samples: list[dict[str, Any]] = [
        {"t": torch.ones(2), "n": 1, "s": "a", "d": {"x": torch.zeros(1)}},
        {"t": None, "n": None},
        {"t": torch.zeros(2), "n": 3, "s": None, "d": None},
        {},
    ]
    ds = pack(tmp_path / "s", samples)
    batch = ds[[0, 1, 2]]
    assert_same_sample(batch["t"], [torch.ones(2), None, torch.zeros(2)])
    assert batch["n"] == [1, None, 3]
    assert batch["s"] == ["a", None, None]
    assert_same_sample(batch["d"], {"x": [torch.zeros(1), None, None]})
    assert_same_sample(ds[[0, 2]]["t"], torch.tensor([[1.0, 1.0], [0.0, 0.0]]))
    assert_same_sample(ds[[1, 3]], {"t": None, "n": None})
    assert ds[[3, 3]] == {}
    assert ds.select("s", "d")[[1, 3]] == (None, None)


def test_rounded_values_come_back_in_the_dtype_given(tmp_path: Path) -> None:
    samples: list[dict[str, Any]] = [
        {
            "half": torch.linspace(-1, 1, 9) * n,
            "brain": np.linspace(0, n, 5),
            "ragged": torch.ones(n, dtype=torch.float64),
        }
        for n in range(1, 4)
    ]
    kept: dict[str, Any] = {"half": "float16", "brain": "bfloat16", "ragged": "float32"}
    ds = pack(tmp_path / "s", samples, fields={name: cw.Field(store_as=dtype) for name, dtype in kept.items()})
    for number, sample in enumerate(samples):
        expected = {
            "half": sample["half"].half().float(),
            "brain": torch.from_numpy(sample["brain"]).bfloat16().double().numpy(),
            "ragged": sample["ragged"],
        }
        assert_same_sample(ds[number], expected)
    batch = ds[[2, 0]]
    assert_same_sample(batch["half"], torch.stack([ds[2]["half"], ds[0]["half"]]))
    assert_same_sample(batch["brain"], torch.stack([torch.from_numpy(ds[n]["brain"]) for n in (2, 0)]))
    assert_same_sample(batch["ragged"], [ds[2]["ragged"], ds[0]["ragged"]])


def test_rounded_values_that_are_absent_in_some_samples(tmp_path: Path) -> None:
    nan = torch.tensor([float("nan"), float("inf"), -0.0])
    ds = pack(tmp_path / "s", [{"x": nan}, {}, {"x": None}], fields={"x": cw.Field(store_as="float16")})
    assert ds[0]["x"].isnan().tolist() == [True, False, False]
    assert ds[[1, 2]] == {"x": None}
    assert ds[[0, 1]]["x"][1] is None


def test_a_batch_of_nothing_is_refused(tmp_path: Path) -> None:
    ds = pack(tmp_path / "s", images(2))
    for nothing in ([], torch.zeros(0, dtype=torch.int64), [False, False]):
        with pytest.raises(UsageError, match="a batch of no samples"):
            ds[nothing]
    assert ds.__getitems__([]) == []


def reference(leaf: Leaf, values: list[Any]) -> Any:
    """A field of a batch by the rules of the docs, from what the samples had there (None: nothing)."""
    if all(value is None for value in values):
        return None
    if any(value is None for value in values) or leaf.node.kind not in (*ARRAYS, "scalar"):
        return [torch.from_numpy(value) if isinstance(value, np.ndarray) else value for value in values]
    if leaf.node.kind == "scalar" and leaf.node.type not in ("tensor", "ndarray", "numpy"):
        return torch.tensor(values, dtype=getattr(torch, leaf.node.dtype))
    tensors = [value if isinstance(value, torch.Tensor) else torch.from_numpy(np.array(value)) for value in values]
    if len({tensor.shape for tensor in tensors}) > 1:
        return tensors
    if not tensors[0].numel():  # of which torch makes no views of bytes
        return torch.empty(len(values), *tensors[0].shape, dtype=tensors[0].dtype)
    rows = [torch.from_numpy(np.frombuffer(one.reshape(-1).view(torch.uint8).numpy(), np.uint8)) for one in tensors]
    return torch.stack(rows).view(tensors[0].dtype).reshape(len(values), *tensors[0].shape)


@settings(max_examples=60)
@given(datasets(max_size=5), st.sampled_from(["raw", "fast"]), st.data())
def test_any_batch_by_any_of_its_fields(samples: list[Any], goal: Goal, data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, len(samples) - 1), min_size=1, max_size=6))
    with tempfile.TemporaryDirectory() as folder:
        ds = pack(Path(folder) / "s", samples, goal, shard_bytes=data.draw(st.sampled_from([1, 1 << 20])))
        ds[numbers]
        for leaf in ds.schema.leaves:
            field = ds.select(leaf.name)
            values = [one for (one,) in field.__getitems__(numbers)]
            for value, number in zip(values, numbers, strict=True):
                assert_same_sample(value, field[number][0])
            assert_same_sample(field[numbers][0], reference(leaf, values))


def test_arrays_of_numpy_are_tensors_in_a_batch_also_where_some_lack_them(tmp_path: Path) -> None:
    samples = [{"a": np.full(3, n, np.float64), "n": n} if n % 2 else {"a": None, "n": n} for n in range(4)]
    for fields in ({}, {"a": cw.Field(store_as="float32")}):
        ds = pack(tmp_path / f"{len(fields)}", samples, fields=fields)
        found = ds[[0, 1, 3]]["a"]
        assert found[0] is None
        assert [tensor.dtype for tensor in found[1:]] == [torch.float64] * 2
        assert [tensor.tolist() for tensor in found[1:]] == [[1.0] * 3, [3.0] * 3]
        assert torch.equal(ds[[1, 3]]["a"], torch.tensor([[1.0] * 3, [3.0] * 3], dtype=torch.float64))
