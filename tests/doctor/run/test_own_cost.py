"""What the timers cost is measured beside a stand-in for a step."""

from torch import nn

from cordwood.doctor.run.own_cost import cost_of_timers


def test_without_steps_there_is_nothing_to_cost() -> None:
    assert cost_of_timers(1000, 0) == 0.0


def test_thousands_of_calls_that_are_passed_through_cost_something() -> None:
    assert cost_of_timers(5000, 1) > 0.0


def test_the_stand_in_leaves_nothing_behind() -> None:
    cost_of_timers(10, 1)
    assert "__call__" not in vars(nn.PReLU)
    assert nn.Module.__call__.__module__ == "torch.nn.modules.module"
