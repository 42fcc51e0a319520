"""The figures of a report that come from the steps: right sums, nothing invented where nothing was seen."""

import json

import numpy as np
import pytest

from cordwood.doctor.evidence.evidence import PHASES, StepTimes
from cordwood.doctor.report.anatomy import MOST_POINTS, STEP_FIGURES, anatomy, number
from tests.doctor.support.evidences import make_steps


def steps_of(rows: list[list[float]], first_waits: tuple[float, ...] = ()) -> StepTimes:
    times = np.array(rows, np.float64).reshape(-1, len(PHASES))
    return StepTimes(times, len(times), np.array(first_waits, np.float64), np.arange(len(times)))


def test_phases_add_up_to_the_step() -> None:
    parts = anatomy(make_steps(60, 0.1, {"wait": 30.0, "forward": 10.0, "backward": 20.0}))
    assert sum(phase["mean_ms"] for phase in parts["phases"].values()) == pytest.approx(parts["steps"]["mean_ms"])
    assert sum(phase["share"] for phase in parts["phases"].values()) == pytest.approx(1)
    assert parts["phases"]["transfer"] == dict.fromkeys(("mean_ms", "p50_ms", "p95_ms", "spread_ms", "share"), 0.0)


def test_no_step_is_not_zero_steps() -> None:
    assert anatomy(None)["steps"] is None
    seen = anatomy(steps_of([]))
    assert seen["steps"]["measured"] == 0
    assert all(seen["steps"][figure] is None for figure in STEP_FIGURES)
    assert seen["phases"] is seen["series"] is seen["waits"] is None


def test_percentiles_and_spread_are_those_of_the_steps() -> None:
    rows = [[float(ms), 0, 0, 0, 0, 0] for ms in range(1, 102)]
    steps = anatomy(steps_of(rows))["steps"]
    assert steps["median_ms"] == 51
    assert steps["p95_ms"] == pytest.approx(96)
    assert steps["spread_ms"] == pytest.approx(1.4826 * 25)


def test_a_hiccup_does_not_change_the_typical_step_but_bursts_do() -> None:
    smooth = [[10.0, 0, 0, 0, 0, 0] for _ in range(80)]
    hiccup = [row[:] for row in smooth]
    hiccup[17][0] = 5000.0
    assert anatomy(steps_of(hiccup))["steps"]["typical_ms"] == 10
    bursts = [[0.0 if index % 4 else 40.0, 0, 0, 0, 0, 0] for index in range(80)]
    assert anatomy(steps_of(bursts))["steps"]["typical_ms"] == 10  # the median step takes 0 ms
    assert anatomy(steps_of(bursts))["steps"]["median_ms"] == 0


def test_one_block_knows_no_noise() -> None:
    assert anatomy(steps_of([[1.0, 0, 0, 0, 0, 0]] * 3))["steps"]["noise_ms"] is None
    assert anatomy(steps_of([[1.0, 0, 0, 0, 0, 0]] * 8))["steps"]["noise_ms"] == 0


def test_the_error_of_the_typical_step_forgives_a_hiccup_and_shrinks_with_stretches() -> None:
    rows = [[10.0 + index % 8, 0, 0, 0, 0, 0] for index in range(80)]
    quiet = anatomy(steps_of(rows))["steps"]
    rows[17][0] = 5000.0
    hiccup = anatomy(steps_of(rows))["steps"]
    assert hiccup["noise_ms"] > 100
    assert hiccup["typical_error_ms"] == pytest.approx(quiet["typical_error_ms"], abs=0.01)
    # Stretches of 11, 13, ... 29 ms: medians of absolute deviations are 5.
    ramp = [[11.0 + 2 * (index // 8), 0, 0, 0, 0, 0] for index in range(80)]
    error = anatomy(steps_of(ramp))["steps"]["typical_error_ms"]
    assert error == pytest.approx(1.2533 * 1.4826 * 5 / 10**0.5)


def test_usual_stretches_are_all_but_one_at_each_end() -> None:
    ramp = [[11.0 + 2 * (index // 8), 0, 0, 0, 0, 0] for index in range(80)]
    steps = anatomy(steps_of(ramp))["steps"]
    assert (steps["typical_low_ms"], steps["typical_ms"], steps["typical_high_ms"]) == (13.0, 20.0, 27.0)
    few = anatomy(steps_of(ramp[::8][:8]))["steps"]  # two stretches
    assert (few["typical_low_ms"], few["typical_high_ms"]) == (14.0, 22.0)


def test_few_stretches_that_agree_by_chance_are_not_trusted() -> None:
    rows = [[10.0 if index < 8 else 20.0, 0, 0, 0, 0, 0] for index in range(12)]  # three stretches, two of them alike
    assert anatomy(steps_of(rows))["steps"]["typical_error_ms"] > 3
    assert anatomy(steps_of(rows[:3]))["steps"]["typical_error_ms"] is None


def test_beginning_an_epoch_is_spread_over_its_steps_and_the_first_one_does_not_count() -> None:
    rows = [[1.0, 0, 0, 0, 0, 0]] * 100
    assert anatomy(steps_of(rows, (900.0,)))["steps"]["first_wait_ms_per_step"] is None
    steps = anatomy(steps_of(rows, (900.0, 50.0, 50.0, 50.0)))["steps"]
    assert steps["first_wait_ms_per_step"] == pytest.approx((50 - 1) * 4 / 100)


def test_a_long_run_becomes_a_timeline_of_bounded_length() -> None:
    rows = np.zeros((5003, len(PHASES)))
    rows[:, 2] = 1.0
    rows[4000, 2] = 700.0
    series = anatomy(steps_of(rows.tolist()))["series"]
    assert len(series["numbers"]) == len(series["slowest_ms"]) == MOST_POINTS
    assert all(len(series["phases"][phase]) == MOST_POINTS for phase in PHASES)
    assert series["steps_a_point"] == 3
    assert max(series["slowest_ms"]) == 700
    assert series["numbers"] == sorted(set(series["numbers"]))


def test_a_short_run_is_told_step_by_step() -> None:
    steps = make_steps(30, 0.1, {"forward": 3.0})
    series = anatomy(steps)["series"]
    assert series["numbers"] == list(range(5, 35))
    assert series["steps_a_point"] == 1
    assert series["phases"]["forward"] == pytest.approx(steps.times[:, 2].tolist(), abs=1e-6)


def test_every_wait_is_in_the_histogram() -> None:
    waits = anatomy(make_steps(60, 0.3, {"wait": 20.0}))["waits"]
    assert sum(waits["counts"]) == 60
    assert len(waits["edges_ms"]) == len(waits["counts"]) + 1


def test_a_run_that_never_waits_has_waits_of_zero() -> None:
    waits = anatomy(make_steps(60, 0.3, {"forward": 20.0}))["waits"]
    assert waits["counts"][0] == 60
    assert waits["slowest_ms"] == 0


def test_what_json_cannot_say_becomes_null() -> None:
    assert number(float("nan")) is number(float("inf")) is number(None) is None
    json.dumps(anatomy(steps_of([[0.0] * 6] * 9)), allow_nan=False)  # a run of no time at all has shares of zero
