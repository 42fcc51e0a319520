"""Whole samples put together: as the store does it, and as torch's stock collate does it."""

import tempfile
from collections import OrderedDict, UserDict
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.utils.data import default_collate
from torch.utils.data._utils.collate import default_collate_fn_map

from cordwood.feed.batches.sample_batch import SampleBatch
from tests.store.support.packed import pack
from tests.store.support.samples import Point, assert_same_sample, datasets


def batch_of(*samples: Any) -> Any:
    return SampleBatch().of(samples)


def unordered(value: Any) -> Any:
    """The store knows the order of all keys; from samples that lack some it cannot be told."""
    if isinstance(value, dict):
        return {key: unordered(item) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(unordered, value))
    return type(value)(map(unordered, value)) if isinstance(value, list | tuple) else value


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@settings(max_examples=50)
@given(datasets(max_size=5), st.data())
def test_samples_make_the_batch_that_the_store_makes(samples: list[Any], data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, len(samples) - 1), min_size=1, max_size=6))
    with tempfile.TemporaryDirectory() as folder:
        ds = pack(Path(folder) / "s", samples, "raw")
        # Such a field is a list in a batch, whatever it holds; a sample does not tell that it is one.
        assume(all(leaf.node.kind != "any" for leaf in ds.schema.leaves))
        assert_same_sample(unordered(SampleBatch().of(ds.__getitems__(numbers))), unordered(ds[numbers]))


def test_it_is_the_batch_of_the_stock_collate() -> None:
    samples = [
        OrderedDict(
            image=torch.full((2, 3), number, dtype=torch.uint8),
            array=np.arange(3.0) * number,
            row=[number, {"deep": number / 2}],
            named=Point(number, np.float32(number)),
            yes=number % 2 == 0,
            text="x" * number,
        )
        for number in range(3)
    ]
    assert_same_sample(SampleBatch().of(samples), default_collate(samples))


def test_a_tuple_stays_a_tuple() -> None:
    found = batch_of((torch.ones(1), 1), (torch.ones(1), 2))
    assert type(found) is tuple
    assert found[1].tolist() == [1, 2]


def test_what_some_samples_lack_is_a_list_with_none() -> None:
    batch = batch_of(
        {"t": torch.ones(2), "n": 1, "s": "a", "d": {"x": np.zeros(1)}, "p": Point(1, 2)},
        {"t": None, "n": None},
        {"t": torch.zeros(2), "n": 3, "s": None, "d": None, "late": 5},
    )
    assert_same_sample(batch["t"], [torch.ones(2), None, torch.zeros(2)])
    assert batch["n"] == [1, None, 3]
    assert batch["s"] == ["a", None, None]
    assert_same_sample(batch["d"], {"x": [torch.zeros(1, dtype=torch.float64), None, None]})
    assert batch["p"] == Point([1, None, None], [2, None, None])
    assert batch["late"] == [None, None, 5]
    assert batch_of(None, None) is None
    assert batch_of({"a": None}, {}) == {"a": None}


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1, 2.5], torch.float64),
        ([2.5, 1], torch.float64),
        ([True, 2], torch.int64),
        ([True, False], torch.bool),
        ([1, 2j], torch.complex128),
        ([np.uint8(1), np.int8(-1)], torch.int16),
        ([np.float32(1), np.float32(2)], torch.float32),
        ([np.bool_(True), np.bool_(False)], torch.bool),
    ],
)
def test_numbers_have_one_dtype_whichever_comes_first(values: list[Any], dtype: torch.dtype) -> None:
    found = batch_of(*values)
    assert found.dtype == dtype
    assert found.tolist() == values


@pytest.mark.parametrize(
    "values",
    [
        [1 << 80, 1],
        [10**400, 2.5],
        ["a", "b"],
        [b"a", b"b"],
        [np.datetime64(1, "s"), np.datetime64(2, "s")],
        [object(), object()],
        [1, "a"],
        [1, torch.ones(1)],
        [{"a": 1}, 3],
        [(1, 2), [1, 2]],
        [Point(1, 2), (1, 2)],
        [torch.ones(1), 1],
        [{1}, {2}],
    ],
)
def test_what_cannot_be_stacked_is_the_list(values: list[Any]) -> None:
    found = batch_of(*values)
    assert type(found) is list
    assert all(one is other for one, other in zip(found, values, strict=True))


def test_texts_of_numpy_are_a_list() -> None:
    texts = [np.array(["a", "b"]), np.array(["c", "d"])]
    assert batch_of(*texts) == texts


def test_arrays_that_torch_does_not_take_as_they_are() -> None:
    fixed = np.arange(3)
    fixed.flags.writeable = False
    assert batch_of(fixed, np.arange(3)[::-1]).tolist() == [[0, 1, 2], [2, 1, 0]]


def test_shapes_and_lengths_that_differ_are_noted() -> None:
    making = SampleBatch()
    batch = making.of([{"x": np.ones(2), "l": [1]}, {"x": np.ones(3), "l": [1, 2]}])
    assert [tuple(one.shape) for one in batch["x"]] == [(2,), (3,)]
    assert batch["l"] == [[1], [1, 2]]
    assert making.ragged == [("x", "(2,)", "(3,)"), ("l", "length 1", "length 2")]
    assert making.names == ["x", "l"]


def test_mappings_of_other_kinds_stay_what_they_are() -> None:
    class Noted(UserDict[str, Any]):
        note = ""

    first = Noted(x=1)
    first.note = "kept"
    found = batch_of(first, Noted(x=2))
    assert type(found) is Noted
    assert found.note == "kept"
    assert found["x"].tolist() == [1, 2]
    assert first["x"] == 1
    assert type(batch_of(MappingProxyType({"x": 1}))) is MappingProxyType

    class Fixed(dict[str, Any]):
        def update(self, *args: Any, **kwargs: Any) -> None:
            raise TypeError("fixed")

    assert type(batch_of(Fixed(x=1))) is dict


def test_types_that_torch_was_taught_are_collated_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(int):
        pass

    class Other:
        pass

    def together(batch: list[Any], *, collate_fn_map: Any = None) -> str:
        return f"{len(batch)} of them"

    monkeypatch.setitem(default_collate_fn_map, Other, together)
    assert batch_of(Other(), Other()) == "2 of them"
    assert batch_of({"a": Other()}) == {"a": "1 of them"}
    assert batch_of(Mine(3), Mine(4)).tolist() == [3, 4]


def test_tensors_of_subclasses_are_stacked() -> None:
    assert batch_of(torch.nn.Parameter(torch.ones(2)), torch.zeros(2)).tolist() == [[1, 1], [0, 0]]
