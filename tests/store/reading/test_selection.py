"""Numbers of samples are chosen as from a list."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import UsageError
from cordwood.store.reading.selection import Choice, choose, numbers_of, positions


@st.composite
def choices(draw: st.DrawFn) -> Choice:
    """Samples that a dataset shows."""
    if draw(st.booleans()):
        step = draw(st.sampled_from([-3, -1, 1, 2]))
        start, length = draw(st.integers(20, 60)), draw(st.integers(0, 6))
        return range(length) if draw(st.booleans()) else range(start, start + step * length, step)
    return np.array(draw(st.lists(st.integers(0, 99), max_size=6)), np.int64)


SLICES = st.builds(
    slice, *(st.one_of(st.none(), st.integers(-8, 8)),) * 2, st.one_of(st.none(), st.sampled_from([-2, -1, 1, 3]))
)


@given(choices(), SLICES)
def test_a_slice_is_a_lists_slice(choice: Choice, part: slice) -> None:
    assert list(choose(choice, part)) == list(choice)[part]


@given(choices())
def test_positions_are_all_of_them(choice: Choice) -> None:
    assert positions(choice).tolist() == list(choice)
    assert positions(choice).dtype == np.int64


def as_list(numbers: list[int]) -> Any:
    return numbers


def as_tensor(numbers: list[int]) -> Any:
    return torch.tensor(numbers, dtype=torch.int32)


def as_small_array(numbers: list[int]) -> Any:
    return np.array(numbers, np.int8)


def as_every_second(numbers: list[int]) -> Any:
    return np.repeat(np.array(numbers, np.int64), 2)[::2]


def as_iterator(numbers: list[int]) -> Any:
    return iter(numbers)


@pytest.mark.parametrize("make", [as_list, as_tensor, as_small_array, as_every_second, as_iterator])
@given(choice=choices(), data=st.data())
def test_numbers_are_a_lists_numbers(make: Any, choice: Choice, data: st.DataObject) -> None:
    count = len(choice)
    places = data.draw(st.lists(st.integers(-count, count - 1), max_size=8) if count else st.just([]))
    found = numbers_of(choice, make(places))
    assert found.tolist() == [list(choice)[place] for place in places]
    assert found.dtype == np.int64
    assert found.flags.c_contiguous


@given(choices(), st.data())
def test_a_mask_chooses_where_it_is_true(choice: Choice, data: st.DataObject) -> None:
    mask = data.draw(st.lists(st.booleans(), min_size=len(choice), max_size=len(choice)))
    expected = [number for number, there in zip(choice, mask, strict=True) if there]
    for given_as in (mask, np.array(mask, np.bool_), torch.tensor(mask, dtype=torch.bool)):
        assert numbers_of(choice, given_as).tolist() == expected


def test_a_range_is_taken_without_a_list() -> None:
    assert numbers_of(range(10, 20), range(-1, -4, -1)).tolist() == [19, 18, 17]
    assert numbers_of(range(10, 20), range(0)).tolist() == []


@pytest.mark.parametrize(
    "numbers", [[0, 3], [-4], [0, 1 << 40], np.array([1 << 63], np.uint64), np.array([3], np.uint8)]
)
def test_what_is_not_there_is_an_index_error(numbers: Any) -> None:
    wrong = [int(number) for number in numbers if not -3 <= number < 3]
    with pytest.raises(IndexError, match=f"sample {wrong[0]} of 3"):
        numbers_of(range(3), numbers)


@pytest.mark.parametrize("numbers", [[1.0], "12", [[1, 2]], 5, [None], [1 << 70], torch.tensor([1.5]), {"a": 1}])
def test_what_is_no_list_of_numbers_is_refused(numbers: Any) -> None:
    with pytest.raises(UsageError, match=r"list of (sample|whole) numbers"):
        numbers_of(range(3), numbers)


def test_a_mask_has_a_bool_for_each() -> None:
    with pytest.raises(UsageError, match="a mask of 2 bools for 3 samples"):
        numbers_of(range(3), [True, False])
