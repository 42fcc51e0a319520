"""Calls of modules are watched as narrowly as what is known of a script allows, and as widely as it must be."""

from typing import Any

import pytest
import torch
import torch._dynamo  # it replaces names in torch itself when it is first needed
import torch.fx
from torch import nn
from torch.utils.data import DataLoader

from cordwood.doctor.probes.phases.module_calls import ModuleCalls
from cordwood.doctor.run.session import Session
from tests.doctor.support.smallnet import Net, data, seen_steps

pytestmark = pytest.mark.usefixtures("one_thread")
REAL = nn.Module.__call__


class Other(Net):
    """Never trained."""


class Loops:
    """Training and validation, as much as a test asks for."""

    def __init__(self) -> None:
        self.model: Any = Net()
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def epoch(self) -> None:
        """24 steps."""
        for x, y in DataLoader(data(), batch_size=4):
            self.optimizer.zero_grad()
            self.criterion(self.model(x), y).backward()
            self.optimizer.step()


def test_after_some_steps_only_what_is_called_from_outside_is_watched(session: Session) -> None:
    assert nn.Module.__call__ is not REAL
    loops = Loops()
    loops.epoch()
    assert nn.Module.__call__ is REAL
    assert {kind for kind in (Net, nn.CrossEntropyLoss, nn.Linear, nn.Sequential) if "__call__" in vars(kind)} == {
        Net,
        nn.CrossEntropyLoss,
    }
    nested = session._recorder.clock.nested
    for _ in range(3):
        loops.model(torch.randn(4, 8))
    assert session._recorder.clock.nested == nested
    steps = seen_steps(session)
    assert steps.count == 24
    assert (steps.times[:, 2] > 0).all()  # forward passes, before and after
    assert session.evidence.modules[0].training_calls == 27
    assert not any("__call__" in vars(kind) for kind in (Net, nn.CrossEntropyLoss))
    assert nn.Module.__call__ is REAL


def test_a_loader_that_starts_has_all_modules_watched_again(session: Session) -> None:
    loops, other = Loops(), Other().eval()
    loops.epoch()
    for x, _ in DataLoader(data(32), batch_size=8):
        other(x)
    loops.epoch()
    seen_steps(session)
    assert [(type(found.module), found.batches) for found in session.evidence.validation] == [(Other, 4)]
    assert "__call__" not in vars(Other)


def test_a_step_without_a_forward_pass_has_all_modules_watched_again(session: Session) -> None:
    loops, other = Loops(), nn.Bilinear(8, 8, 3)
    x, y = torch.randn(4, 8), torch.randint(3, (4,))
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)

    def step(model: Any, *inputs: torch.Tensor) -> None:
        nn.functional.cross_entropy(model(*inputs), y).backward()
        optimizer.step()

    for _ in range(24):
        step(loops.model, x)
    assert nn.Module.__call__ is REAL
    for _ in range(3):
        step(other, x, x)
    assert [type(seen.module) for seen in session.evidence.modules] == [Net, nn.Bilinear]


def test_what_is_compiled_later_is_watched_beside_what_was_before(session: Session) -> None:
    first: Any = torch.compile(Net(), backend="eager")
    second: Any = torch.compile(Other(), backend="eager")
    for model in (first, second):
        model(torch.randn(4, 8))
    third = nn.Linear(8, 3)
    third.compile(backend="eager")
    third(torch.randn(4, 8))
    session._modules.widen()
    assert nn.Module.__call__ is REAL
    assert [type(seen.module) for seen in session.evidence.modules] == [Net, Other, nn.Linear]


def test_a_class_and_its_base_are_both_watched_and_both_left() -> None:
    calls: list[Any] = []

    def wrap(original: Any) -> Any:
        def __call__(module: Any, *arguments: Any) -> Any:  # noqa: N807
            calls.append(original)
            return original(module, *arguments)

        return __call__

    watched = ModuleCalls(wrap)
    watched.of([Other, Net])
    Net()(torch.randn(4, 8))
    assert len(calls) == 1
    Other()(torch.randn(4, 8))
    assert len(calls) == 3
    watched.of([Other])
    assert "__call__" not in vars(Net)
    watched.undo()
    assert Other.__call__ is REAL


def test_a_class_with_a_call_of_its_own_keeps_it() -> None:
    class Own(nn.Module):
        def __call__(self, x: int) -> int:
            return x + 1

    watched = ModuleCalls(lambda original: lambda module, x: -original(module, x))
    watched.of([Own])
    assert Own()(1) == -2
    watched.undo()
    assert Own()(1) == 2


def test_traces_are_what_they_are_without_the_doctor(session: Session) -> None:
    def traced() -> list[tuple[str, Any]]:
        return [(node.op, node.target) for node in torch.fx.symbolic_trace(Net()).graph.nodes]

    layer = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(24):
        layer(torch.randn(4, 8)).sum().backward()
        optimizer.step()
    assert "__call__" in vars(nn.Linear)
    watched = traced()
    session.detach()
    assert watched == traced()
    assert ("call_module", "head") in watched
