"""Precision given up by name, and the error that this makes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cordwood.errors import UsageError
from cordwood.store.schema.node import Node
from cordwood.store.schema.schema import Leaf, Schema
from cordwood.store.values.rounding import store_as, widened


def leaf(dtype: str, narrower: str | None) -> Leaf:
    return Schema(Node("ndarray", dtype=dtype), {"value": narrower} if narrower else {}).leaves[0]


@given(hnp.arrays(np.float32, st.integers(0, 8), elements=st.floats(-60000, 60000, width=32) | st.just(np.inf)))
def test_the_worst_error_is_the_largest_difference(array: np.ndarray[tuple[int], np.dtype[np.float32]]) -> None:
    for narrower in ("float16", "bfloat16"):
        field = leaf("float32", narrower)
        stored, worst = store_as(array, field)
        assert stored.dtype == {"float16": np.float16, "bfloat16": np.uint16}[narrower]
        again = widened(stored, field)
        assert again.dtype == np.float32
        finite = np.isfinite(array)
        assert np.array_equal(again[~finite], array[~finite])
        difference = np.abs(again[finite].astype(np.float64) - array[finite].astype(np.float64))
        assert worst == max(difference, default=0.0)


def test_rounding_is_to_the_nearest() -> None:
    stored, worst = store_as(np.array([1 + 2**-11 + 2**-12, 1 + 2**-11]), leaf("float64", "float16"))
    assert stored.tolist() == [1 + 2**-10, 1.0]  # the second one is in the middle: to the even neighbour
    assert worst == 2**-11
    stored, worst = store_as(np.array([1 / 3]), leaf("float64", "float32"))
    assert stored[0] == np.float32(1 / 3)
    assert worst == abs(float(np.float32(1 / 3)) - 1 / 3)


@pytest.mark.parametrize(
    ("dtype", "narrower", "large"),
    [("float32", "float16", 65520.0), ("float64", "float32", 3.5e38), ("float64", "bfloat16", -1e39)],
)
def test_a_number_without_room_is_refused(dtype: str, narrower: str, large: float) -> None:
    given_values = np.array([1.0, np.inf, large], dtype)
    with pytest.raises(UsageError, match=f"'value' is stored as {narrower}, which has no number as large as"):
        store_as(given_values, leaf(dtype, narrower))


def test_infinities_and_nan_are_no_errors() -> None:
    given_values = np.array([np.inf, -np.inf, np.nan], np.float32)
    for narrower in ("float16", "bfloat16"):
        stored, worst = store_as(given_values, leaf("float32", narrower))
        assert worst == 0
        assert np.array_equal(widened(stored, leaf("float32", narrower)), given_values, equal_nan=True)


def test_what_is_stored_as_it_comes_is_left_alone() -> None:
    array = np.ones(3, np.float32)
    array.flags.writeable = False
    stored, worst = store_as(array, leaf("float32", None))
    assert stored is array
    assert worst == 0
    assert store_as(array, leaf("float32", "bfloat16"))[1] == 0  # also if nobody may write to it
