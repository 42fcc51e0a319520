"""Parts of a job: ranges that follow each other and leave nothing out."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import UsageError
from cordwood.packing.journal.part import bounds, parsed_part


@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(1, 100))
def test_parts_follow_each_other_and_cut_no_batch(inputs: int, parts: int, batch: int) -> None:
    place, sizes = 0, []
    for number in range(1, parts + 1):
        first, stop = bounds((number, parts), inputs, batch)
        assert stop is not None
        assert first == place
        assert first % batch == 0 or first == inputs
        sizes.append(stop - first)
        place = stop
    assert place == inputs
    assert max(sizes) - min(sizes) <= 2 * batch


@pytest.mark.parametrize("part", ["3/16", (3, 16), [3, 16], " 3 / 16 "])
def test_parts_are_named_in_some_ways(part: Any) -> None:
    assert parsed_part(part) == (3, 16)


@pytest.mark.parametrize("part", ["", "3", "3/", "a/b", "1/2/3", (1,), 5, "0/4", "5/4", "-1/4", "0/0"])
def test_other_texts_are_refused(part: Any) -> None:
    with pytest.raises(UsageError, match="part is"):
        parsed_part(part)


def test_the_whole_has_no_end() -> None:
    assert bounds(None, 10, 3) == (0, None)
