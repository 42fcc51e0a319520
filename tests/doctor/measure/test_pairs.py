"""A gain and its spread, from numbers that are known."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.doctor.measure.pairs import careful, gain_of, measure_pair


def from_list(values: list[float], order: list[str], name: str) -> Callable[[], float]:
    remaining = iter(values)

    def give() -> float:
        order.append(name)
        return next(remaining)

    return give


def test_the_first_runs_do_not_count_and_both_take_turns() -> None:
    order: list[str] = []
    before = from_list([99.0, 99.0, 10.0, 11.0, 10.0, 12.0, 10.0], order, "b")
    after = from_list([99.0, 99.0, 4.0, 4.0, 4.0, 4.0, 4.0], order, "a")
    gain = measure_pair(before, after, 0.0)
    assert "".join(order) == "baba" + "ba" + "ab" + "ba" + "ab" + "ba"
    assert (gain.saves_ms, gain.before_ms, gain.after_ms, gain.pairs) == (6.0, 10.0, 4.0, 5)
    assert gain.is_sure


@given(st.lists(st.tuples(st.floats(1, 100), st.floats(1, 100)), min_size=5, max_size=40))
def test_a_gain_mirrors_the_loss_of_the_other_way(rows: list[tuple[float, float]]) -> None:
    times = np.array(rows)
    there, back = gain_of(times), gain_of(times[:, ::-1])
    assert there.saves_ms == -back.saves_ms
    assert there.spread_ms == back.spread_ms
    assert not (there.is_sure and back.is_sure)


def test_what_the_two_ways_to_tell_a_gain_differ_by_is_spread() -> None:
    # Two of three turns had a busy moment, one in each column: the differences are 1, 9 and 5, the medians 10 and 5.
    gain = gain_of(np.array([[10.0, 9.0], [14.0, 5.0], [10.0, 5.0]]))
    assert (gain.before_ms, gain.saves_ms, gain.after_ms) == (10.0, 5.0, 5.0)
    unlike = gain_of(np.array([[10.0, 8.0], [14.0, 5.0], [10.0, 5.0], [10.0, 8.5], [10.0, 8.4]]))
    assert (unlike.saves_ms, unlike.after_ms) == (2.0, 8.0)
    apart = gain_of(np.array([[20.0, 2.0], [4.0, 2.0], [5.0, 3.0], [6.0, 4.0], [5.0, 1.0]]))
    assert apart.saves_ms == 2.5  # 2 by the differences, 3 by the medians
    assert apart.spread_ms >= 0.5
    assert apart.after_ms == apart.before_ms - apart.saves_ms


def test_noise_is_no_gain() -> None:
    noise = np.random.default_rng(0)
    times = 10 + noise.standard_normal((40, 2))
    assert not gain_of(times).is_sure
    assert gain_of(times + np.array([3, 0])).is_sure


@pytest.mark.parametrize(
    ("times", "sure"),
    [
        ([(50.0, 30.0)] * 5, True),
        ([(50.0, 30.0), (51.0, 29.0), (49.0, 31.0), (50.0, 30.5), (50.5, 30.0)], True),
        # The middle of the differences is large, but in one turn it was the other way round.
        ([(50.0, 30.0), (50.0, 30.0), (50.0, 30.0), (50.0, 30.0), (30.0, 50.0)], False),
        # Most turns agree exactly, and the others are far away.
        ([(50.0, 45.0), (50.0, 45.0), (50.0, 45.0), (90.0, 45.0), (99.0, 45.0)], False),
    ],
)
def test_few_turns_are_not_trusted_blindly(times: list[tuple[float, float]], sure: bool) -> None:
    assert careful(times).is_sure is sure


def test_a_setting_that_is_always_slower_has_its_own_spread() -> None:
    gain = careful([(30.0, 50.0), (30.0, 50.5), (30.0, 49.5), (30.0, 50.0), (30.0, 50.0)])
    assert not gain.is_sure
    assert gain.saves_ms == pytest.approx(-20.0)
    assert gain.spread_ms < 1
