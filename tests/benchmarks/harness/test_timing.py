"""The harness's own arithmetic, on a clock that the tests turn by hand."""

import gc
import json

import pytest

from benchmarks.harness.timing import Contender, Spread, fastest, interleave, nothing, passes_for, quantile, ratio, sums


class HandClock:
    """Time passes only when a contender says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[str] = []

    def __call__(self) -> float:
        return self.now

    def contender(self, name: str, seconds: float, work: float = 1.0) -> Contender:
        def run() -> None:
            self.now += seconds
            self.calls.append(name)

        return Contender(name, run, work)


def test_contenders_take_turns_in_every_round() -> None:
    clock = HandClock()
    interleave([clock.contender(name, 1.0) for name in "ABC"], 3, least_seconds=0.5, clock=clock)
    warm_up, rounds = clock.calls[:6], clock.calls[6:]
    assert warm_up == ["A", "A", "B", "B", "C", "C"]
    assert rounds == ["A", "B", "C"] * 3


def test_times_are_per_unit_of_work_whatever_the_number_of_passes() -> None:
    clock = HandClock()
    contenders = [clock.contender("slow", 6.0, work=3), clock.contender("quick", 0.25, work=5)]
    times = interleave(contenders, 4, least_seconds=1.0, clock=clock)
    assert times["slow"] == pytest.approx([2.0] * 4)
    assert times["quick"] == pytest.approx([0.05] * 4)
    assert clock.calls.count("slow") == 2 + 4
    assert clock.calls.count("quick") == 2 + 4 * 4


def test_preparation_is_off_the_clock_and_comes_before_every_pass() -> None:
    clock = HandClock()

    def prepare() -> None:
        clock.now += 100.0
        clock.calls.append("prepare")

    contender = clock.contender("run", 0.25)
    times = interleave([Contender("run", contender.run, 2.0, prepare)], 2, least_seconds=0.5, clock=clock)
    assert times["run"] == pytest.approx([0.125] * 2)
    assert clock.calls == ["prepare", "run"] * (2 + 2 * 2)


def test_what_a_prepared_pass_gives_back_is_let_go_after_the_clock_has_stopped() -> None:
    clock = HandClock()

    class Slow:
        def __del__(self) -> None:
            clock.now += 100.0

    def times(contender: Contender) -> list[float]:
        return interleave([contender], 3, least_seconds=0.0, clock=clock)["load"]

    assert times(Contender("load", Slow, before=nothing)) == [0.0] * 3
    assert times(Contender("load", Slow)) == [100.0] * 3


def test_two_contenders_of_one_name_are_refused() -> None:
    clock = HandClock()
    with pytest.raises(ValueError, match="names of their own"):
        interleave([clock.contender("same", 1.0), clock.contender("same", 2.0)], 1, clock=clock)


def test_no_collection_inside_a_turn_and_the_collector_is_left_as_it_was() -> None:
    seen: list[bool] = []
    interleave([Contender("look", lambda: seen.append(gc.isenabled()))], 2, least_seconds=0.0)
    assert seen == [True, True, False, False]
    assert gc.isenabled()


@pytest.mark.parametrize(
    ("seconds", "least", "passes"), [(1.0, 0.1, 1), (0.03, 0.1, 4), (0.1, 0.1, 1), (0.0, 1e-6, 1000)]
)
def test_a_turn_is_as_long_as_asked(seconds: float, least: float, passes: int) -> None:
    assert passes_for(seconds, least) == passes


def test_quartiles_are_interpolated() -> None:
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.25) == 1.75
    assert quantile([5.0], 0.75) == 5.0
    assert Spread.of([9.0, 1.0, 5.0, 3.0, 7.0]) == Spread(median=5.0, low=3.0, high=7.0, count=5)
    with pytest.raises(ValueError, match="no values"):
        Spread.of([])


def test_a_ratio_is_taken_inside_each_round() -> None:
    """A wave of noise that hits both contenders in one round must not show; a ratio of medians would give 1.5."""
    rival, ours = [2.0, 30.0, 3.0], [1.0, 10.0, 2.0]
    assert ratio(rival, ours).median == 2.0
    assert Spread.of(rival).median / Spread.of(ours).median == 1.5
    with pytest.raises(ValueError, match="3 rounds against 2"):
        ratio(rival, ours[:2])


def test_sums_add_up_by_round() -> None:
    assert sums([[1.0, 2.0], [10.0, 20.0], [100.0, 200.0]]) == [111.0, 222.0]


def test_a_spread_survives_json() -> None:
    spread = Spread.of([0.1, 0.2, 0.4])
    assert Spread(**json.loads(json.dumps(vars(spread)))) == spread


def test_fastest_names_the_one_with_the_lowest_median() -> None:
    """No race: one candidate does nothing, the other ten thousand times something."""
    idle, busy = Contender("idle", lambda: None), Contender("busy", lambda: sum(range(100_000)))
    assert fastest([busy, idle], least_seconds=0.0) is idle
