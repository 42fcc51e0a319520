"""Who holds a tensor: variables, attributes, lists and dictionaries, and nothing stays alive for having looked."""

import gc
import sys
import weakref
from collections import deque
from typing import Any

import torch

from cordwood.doctor.code.tensor_holders import Holder, find_holders, user_frames, variables


class Meter:
    def __init__(self) -> None:
        self.values: list[torch.Tensor] = []

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the user's code must not run: {name}")


def holders_of(*tensors: torch.Tensor, frame: Any) -> dict[int, list[Holder]]:
    return find_holders(frame, {id(tensor): tensor for tensor in tensors})


def names_of(tensor: torch.Tensor, frame: Any) -> set[str]:
    return {holder.name for holder in holders_of(tensor, frame=frame)[id(tensor)]}


def test_a_variable_holds_it() -> None:
    loss = torch.ones(1)
    [holder] = [each for each in holders_of(loss, frame=sys._getframe())[id(loss)] if each.name == "loss"]
    assert holder.code is sys._getframe().f_code
    assert holder.file == __file__
    assert holder.owner is None


def test_lists_dictionaries_and_attributes() -> None:
    def kept() -> torch.Tensor:
        return torch.ones(1)

    losses, stats, meter = [kept()], {"loss": [kept()]}, Meter()
    meter.values.append(kept())
    frame = sys._getframe()
    names = names_of(losses[0], frame), names_of(stats["loss"][0], frame)
    found = holders_of(meter.values[0], frame=frame)[id(meter.values[0])]
    assert names == ({"losses"}, {"stats['loss']"})
    assert [(each.name, each.owner, each.attribute) for each in found] == [("meter.values", Meter, "values")]


def test_a_list_that_forgets_by_itself_holds_nothing() -> None:
    recent = deque([torch.ones(1)], maxlen=4)
    found = holders_of(recent[0], frame=sys._getframe())
    assert found == {}


def test_two_holders_are_both_found() -> None:
    losses = [torch.ones(1)]
    history = [losses[0]]
    names = names_of(history[0], sys._getframe())
    assert names == {"losses", "history"}


def test_frames_of_libraries_are_passed_over() -> None:
    here = sys._getframe()
    assert here in list(user_frames(here))
    assert all("site-packages" not in frame.f_code.co_filename for frame in user_frames(here))


def test_looking_keeps_nothing_alive() -> None:
    def step() -> "weakref.ref[torch.Tensor]":
        loss = torch.ones(1)
        assert variables(sys._getframe())["loss"] is loss
        known = weakref.ref(loss)
        loss = torch.zeros(1)
        return known

    gc.collect()
    assert step()() is None
    known: list[Any] = []

    def later() -> None:
        loss = torch.ones(1)
        find_holders(sys._getframe(), {id(loss): loss})
        known.append(weakref.ref(loss))
        del loss
        known.append(known[0]())

    later()
    assert known[1] is None
