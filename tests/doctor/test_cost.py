"""What the timers cost is measured beside a stand-in for a step."""

from cordwood.doctor.cost import cost_of_timers


def test_without_steps_there_is_nothing_to_cost() -> None:
    assert cost_of_timers(1000, 0) == 0.0


def test_thousands_of_calls_that_are_passed_through_cost_something() -> None:
    assert cost_of_timers(5000, 1) > 0.0
