"""Which units stand for a source: one from each stretch, in an order of which every beginning is spread."""

import random
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cordwood.packing.workers.spread import SpreadTasks, spread, units_of
from cordwood.sources import find


class Numbers:
    """Items that are their numbers, and what was asked for."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Any:
        return number


@given(st.integers(0, 50), st.integers(0, 2000), st.integers(1, 40), st.integers(1, 300))
def test_one_unit_of_each_stretch(begin: int, count: int, batch: int, wanted: int) -> None:
    firsts = spread(begin, begin + count, batch, wanted)
    units = -(-count // batch)
    stretches = min(units, -(-wanted // batch))
    assert len(firsts) == stretches
    assert all((first - begin) % batch == 0 and begin <= first < begin + count for first in firsts)
    for number, first in enumerate(sorted(firsts)):
        assert number * units // stretches <= (first - begin) // batch < (number + 1) * units // stretches


@given(st.integers(2, 3000), st.integers(2, 256), st.data())
def test_every_beginning_is_spread(count: int, wanted: int, data: st.DataObject) -> None:
    firsts = spread(0, count, 1, wanted)
    taken = data.draw(st.integers(1, len(firsts)))
    found = [0, *sorted(firsts[:taken]), count]
    stretch = count / len(firsts)
    longest = max(then - now for now, then in pairwise(found))
    assert longest <= (4 * len(firsts) / taken + 2) * stretch


def test_what_recurs_is_seen_whole() -> None:
    """Every tenth input is of one class: a stride of ten would see that class alone."""
    firsts = spread(0, 1000, 1, 100)
    assert {first % 10 for first in firsts} == set(range(10))
    assert firsts == spread(0, 1000, 1, 100)


@given(st.integers(1, 500), st.integers(1, 20), st.integers(1, 100), st.integers())
def test_tasks_follow_the_order_that_was_asked_for(count: int, batch: int, wanted: int, seed: int) -> None:
    firsts = spread(0, count, batch, wanted)
    random.Random(seed).shuffle(firsts)
    source = find(Numbers(count))
    units = units_of(source, firsts, batch)
    assert [first for first, _ in units] == firsts
    assert all([one.handle for one in unit] == list(range(first, min(first + batch, count))) for first, unit in units)
    tasks = SpreadTasks(source, firsts, batch)
    at = tasks.first
    for first in firsts:
        assert at == first
        found = tasks.next()
        assert found is not None
        assert found[0].first == first
        at = tasks.behind(first + len(found[1]))
    assert tasks.next() is None
