"""Arrays of different shapes in one tensor."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import UsageError
from cordwood.feed.batches.padding import Padded, pad, pad_shape

SHAPES = st.integers(1, 3).flatmap(
    lambda rank: st.lists(
        st.none() | st.lists(st.integers(0, 4), min_size=rank, max_size=rank).map(tuple), min_size=1, max_size=5
    )
)


@given(SHAPES, st.sampled_from([torch.uint8, torch.int64, torch.float32, torch.bfloat16, torch.complex64]))
def test_every_sample_is_there_and_the_rest_is_filled(shapes: list[Any], dtype: torch.dtype) -> None:
    samples = [None if shape is None else torch.full(shape, 3, dtype=dtype) for shape in shapes]
    values, lengths = padded = pad(samples, fill=7)
    present = [shape for shape in shapes if shape is not None]
    largest = tuple(max(sizes) for sizes in zip(*present, strict=True)) if present else (0,)
    assert values.shape == (len(shapes), *largest)
    assert lengths.dtype == torch.int64
    assert lengths.shape == ((len(shapes),) if len(largest) == 1 else (len(shapes), len(largest)))
    assert lengths.reshape(len(shapes), -1).tolist() == [list(shape or (0,) * len(largest)) for shape in shapes]
    for row, mask, sample in zip(values, padded.mask, samples, strict=True):
        real = torch.zeros(largest, dtype=torch.bool)
        if sample is not None:
            assert values.dtype == dtype
            real[tuple(map(slice, sample.shape))] = True
            assert torch.equal(row[tuple(map(slice, sample.shape))], sample)
        assert torch.equal(mask, real)
        assert (row[~real] == 7).all()


def test_a_tensor_of_all_samples_is_taken_as_it_is() -> None:
    given = torch.arange(12).reshape(2, 3, 2)
    values, lengths = pad(given, fill=-1)
    assert values is given
    assert lengths.tolist() == [[3, 2], [3, 2]]
    assert pad(given[:, :, 0]).lengths.tolist() == [3, 3]
    assert pad(torch.zeros(0, 5)).lengths.shape == (0,)


def test_arrays_and_lists_of_numbers_are_padded_too() -> None:
    found = pad([[1, 2], (3,), np.array([4, 5, 6])[::-1], []], fill=-100)
    assert found.values.tolist() == [[1, 2, -100], [3, -100, -100], [6, 5, 4], [-100] * 3]
    assert found.values.dtype == torch.int64
    assert found.lengths.tolist() == [2, 1, 3, 0]


def test_dtypes_that_differ_meet_in_one_that_holds_both() -> None:
    assert pad([torch.zeros(1, dtype=torch.int32), torch.zeros(2, dtype=torch.float16)]).values.dtype == torch.float16


def test_where_no_sample_has_the_field_the_filling_tells_the_dtype() -> None:
    for fill, dtype in ((-100, torch.int64), (0.5, torch.float32), (False, torch.bool)):
        values, lengths = pad([None, None], fill)
        assert (values.shape, values.dtype) == ((2, 0), dtype)
        assert lengths.tolist() == [0, 0]


def test_the_memory_may_be_somebody_elses() -> None:
    mine = torch.full((2, 3), 9)
    asked = []

    def new(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        asked.append((shape, dtype))
        return mine

    values, _ = pad([torch.tensor([1]), torch.tensor([1, 2, 3])], 0, "tokens", new)
    assert values is mine
    assert asked == [((2, 3), torch.int64)]
    assert mine.tolist() == [[1, 0, 0], [1, 2, 3]]


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        (torch.uint8, -100),
        (torch.uint8, 256),
        (torch.int64, 0.5),
        (torch.int64, float("nan")),
        (torch.int32, float("inf")),
        (torch.int64, 1 << 63),
        (torch.bool, 2),
        (torch.float16, 1e6),
        (torch.float32, 10**39),
        (torch.complex64, 10**39),
    ],
)
def test_what_the_dtype_cannot_hold_is_refused(dtype: torch.dtype, fill: float) -> None:
    name = str(dtype).removeprefix("torch.")
    with pytest.raises(UsageError, match=rf"field 'tokens' holds {name}, which cannot be filled with"):
        pad([torch.zeros(1, dtype=dtype), torch.zeros(2, dtype=dtype)], fill, "tokens")


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [(torch.uint8, 255), (torch.int8, -100.0), (torch.float16, float("-inf")), (torch.bool, True), (torch.uint64, 1)],
)
def test_what_the_dtype_can_hold_is_filled_in(dtype: torch.dtype, fill: float) -> None:
    values, _ = pad([torch.zeros(1, dtype=dtype), torch.zeros(2, dtype=dtype)], fill)
    assert values[0, 1].item() == fill


def test_nan_is_filled_in() -> None:
    assert pad([torch.zeros(0), torch.zeros(2)], float("nan")).values[0].isnan().all()


def test_different_numbers_of_dimensions_are_refused() -> None:
    with pytest.raises(UsageError, match=r"field 'x' .*2 and 3 dimensions, such as \(1, 2\) and \(3, 1, 2\); ask for"):
        pad([torch.zeros(3, 1, 2), None, torch.zeros(1, 2)], 0, "x")


@pytest.mark.parametrize("single", [torch.tensor([3, 4]), [torch.tensor(3)], [3, None], [np.float32(3)]])
def test_single_numbers_have_no_length(single: Any) -> None:
    with pytest.raises(UsageError, match="field 'label' holds single numbers"):
        pad(single, 0, "label")


@pytest.mark.parametrize("wrong", ["text", b"bytes", {"a": 1}, [[1], [1, 2]], [None], ["a"]])
def test_what_is_no_array_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="field 'x' cannot be padded: a sample holds"):
        pad([torch.ones(1), wrong], 0, "x")


def test_the_shape_that_holds_all() -> None:
    assert pad_shape([(1, 5), None, (3, 2)]) == (3, 5)
    assert pad_shape([None]) == (0,)


def test_it_is_a_named_tuple() -> None:
    assert Padded._fields == ("values", "lengths")
    values, lengths = Padded(torch.zeros(2, 2), torch.tensor([1, 2]))
    assert len(values) == len(lengths)
