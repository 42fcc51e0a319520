"""Whose parameter it is, what it is called, and where its module is made."""

import torch
from torch import nn

from cordwood.doctor.code.parameter_owners import attribute_place, find_owners


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 4), Block())
        self.tied = nn.Linear(4, 4)
        self.tied.weight = self.body[0].weight  # type: ignore[assignment]


def names(parameter: torch.Tensor, roots: list[nn.Module]) -> list[str]:
    return [owner.name for owner in find_owners({id(parameter): parameter}, roots).get(id(parameter), [])]


def test_names_are_those_of_a_state_dict() -> None:
    net = Net()
    for name, parameter in net.named_parameters():
        assert names(parameter, [net])[0] == name
    assert names(net.tied.weight, [net]) == ["body.0.weight", "tied.weight"]


def test_wrappers_are_no_part_of_a_name() -> None:
    net = Net()
    wrapped = nn.DataParallel(net)
    assert names(net.tied.bias, [wrapped]) == ["tied.bias"]


def test_a_module_that_nobody_named_is_found_all_the_same() -> None:
    lonely = nn.Linear(3, 2)
    assert names(lonely.bias, []) == ["Linear.bias"]


def test_a_parameter_without_a_module_has_no_owner() -> None:
    assert names(torch.zeros(2, requires_grad=True), [Net()]) == []


def test_the_line_that_sets_an_attribute() -> None:
    place = attribute_place(Net, "tied")
    assert place is not None
    assert (place.file, place.source) == (__file__, "self.tied = nn.Linear(4, 4)")
    assert attribute_place(Net, "nothing") is None
    assert attribute_place(nn.Linear, "weight") is None  # a library's class: not for the user to change
