"""Who holds a tensor: variables, attributes, lists and dictionaries, and nothing stays alive for having looked."""

import gc
import importlib.util
import sys
import weakref
from collections import deque
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from cordwood.doctor.code.tensor_holders import Holder, find_holders, keeping_place, user_frames, variables


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


SOURCE = """\
history = {}

class Meter:
    def __init__(self):
        self.total = 0.0

    def update(self, value, count=1):
        self.total += value * count

def record(loss):
    history["loss"].append(loss)

def train(batches):
    losses = []
    total = 0
    running = 0.0
    hidden = None
    stats = {}
    for batch in batches:
        loss, hidden = batch
        losses.append(loss)
        total = total + loss
        running += loss
        stats[batch] = loss
    return losses, total
"""


@pytest.fixture
def script(tmp_path: Path) -> ModuleType:
    path = tmp_path / "train_script.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("train_script", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["train_script"] = module
    spec.loader.exec_module(module)
    del sys.modules["train_script"]
    return module


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("losses", "losses.append(loss)"),
        ("total", "total = total + loss"),
        ("running", "running += loss"),
        ("stats[7]", "stats[batch] = loss"),
        ("hidden", "hidden = None"),
    ],
)
def test_a_functions_variable(script: ModuleType, name: str, source: str) -> None:
    place = keeping_place(Holder(name, script.train.__code__, script.__file__ or ""))
    assert place is not None
    assert (place.source, place.function, place.file) == (source, "train", script.__file__)


def test_a_modules_variable_is_changed_by_a_function(script: ModuleType) -> None:
    place = keeping_place(Holder("history['loss']", None, script.__file__ or ""))
    assert place is not None
    assert place.source == 'history["loss"].append(loss)'


def test_an_attribute_is_changed_by_its_class(script: ModuleType) -> None:
    place = keeping_place(Holder("meter.total", script.train.__code__, script.__file__ or "", script.Meter, "total"))
    assert place is not None
    assert place.source == "self.total += value * count"


def test_what_the_source_does_not_show_has_no_place(script: ModuleType) -> None:
    assert keeping_place(Holder("nowhere", script.train.__code__, script.__file__ or "")) is None
    assert keeping_place(Holder("losses", script.train.__code__, "<string>")) is None
