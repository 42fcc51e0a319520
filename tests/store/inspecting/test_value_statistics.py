"""Statistics of values: the same whether they come at once or in pieces, and what is no number is counted apart."""

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cordwood.store.inspecting.value_statistics import Values, numbers_of


def stats(*arrays: Any) -> Values:
    values = Values()
    for array in arrays:
        values.add(array)
    return values


@given(
    st.lists(hnp.arrays(np.int64, st.integers(0, 20), elements=st.integers(-(10**6), 10**6)), min_size=1, max_size=5)
)
def test_pieces_give_what_the_whole_gives(pieces: list[Any]) -> None:
    whole = np.concatenate(pieces)
    values = stats(*pieces)
    assert (values.count, values.finite) == (whole.size, whole.size)
    assert values.zeros == int((whole == 0).sum())
    if whole.size:
        assert (values.smallest, values.largest) == (whole.min(), whole.max())
        assert math.isclose(values.mean, whole.mean(), rel_tol=1e-9, abs_tol=1e-6)
        assert math.isclose(values.spread, whole.std(), rel_tol=1e-9, abs_tol=1e-6)


def test_large_integers_stay_exact() -> None:
    values = stats(np.array([2**63 - 1, -(2**63)]), np.array([5]))
    assert (values.smallest, values.largest) == (-(2**63), 2**63 - 1)
    assert stats(np.array([2**64 - 1], np.uint64)).largest == 2**64 - 1


def test_what_is_no_number_is_counted_apart() -> None:
    values = stats(np.array([1.0, np.nan, 3.0]), np.array([np.inf, 0.0, -0.0]), np.array([np.nan]))
    assert (values.count, values.finite, values.nans, values.infinities, values.zeros) == (7, 4, 2, 1, 2)
    assert (values.smallest, values.largest) == (0.0, math.inf)
    assert values.mean == 1.0
    assert values.spread == pytest.approx(float(np.std([1, 3, 0, 0])))
    told = values.to_dict()
    assert (told["max"], told["nans"]) == ("inf", 2)
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_only_nans() -> None:
    values = stats(np.full(3, np.nan))
    assert (values.smallest, values.finite, values.nans) == (None, 0, 3)
    assert values.to_dict()["mean"] is None


def test_the_largest_doubles_overflow_in_silence() -> None:
    most = np.finfo(np.float64).max
    values = stats(np.array([most, -most]))
    assert values.to_dict()["std"] == "inf"
    json.dumps(values.to_dict(), allow_nan=False)


def test_bools_and_complex_numbers() -> None:
    values = stats(np.array([True, False, True, True]))
    assert (values.mean, values.zeros, bool(values.smallest)) == (0.75, 1, False)
    assert stats(np.array([3 + 4j, 0])).largest == 5.0
    assert stats(np.array([3 + 4j])).magnitudes


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "complex32", "float16", "int8", "bool"])
def test_every_dtype_of_torch_is_counted(name: str) -> None:
    tensor = torch.tensor([0, 1, 1, 2]).to(torch.float32).to(getattr(torch, name))
    numbers = numbers_of(tensor, name)
    assert numbers is not None
    values = stats(numbers)
    assert (values.smallest, values.largest, values.zeros) == (0, 2 - (name == "bool"), 1)


def test_arrays_whose_dtype_numpy_lacks_are_counted_as_what_they_mean() -> None:
    bits = torch.tensor([1.0, 2.0], dtype=torch.bfloat16).view(torch.uint16).numpy()
    numbers = numbers_of(bits, "bfloat16")
    assert numbers is not None
    assert numbers.tolist() == [1.0, 2.0]
    zero_d = numbers_of(bits[1], "bfloat16")
    assert zero_d is not None
    assert zero_d.tolist() == [2.0]


@pytest.mark.parametrize("value", ["text", b"bytes", None, {"a": 1}, np.array(["a"])])
def test_what_has_no_numbers(value: object) -> None:
    assert numbers_of(value, "any") is None
