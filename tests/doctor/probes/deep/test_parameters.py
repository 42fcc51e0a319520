"""Parameters without a gradient, whenever a script clears gradients; and the cases that are nobody's mistake."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from cordwood.doctor.evidence.evidence import Evidence, ParameterUse
from cordwood.doctor.probes.deep.base import WatchedScript
from cordwood.doctor.probes.deep.parameters import ParameterProbe
from tests.doctor.support.watching import make_watched, watch


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.spare = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
        self.heads = nn.ModuleList([nn.Linear(4, 2), nn.Linear(4, 2)])

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.heads[0](self.body(inputs))  # type: ignore[no-any-return]


def trained(net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()


def use_of(
    net: nn.Module, step: Callable[[torch.optim.Optimizer], object], optimizer: torch.optim.Optimizer | None = None
) -> ParameterUse | None:
    optimizer = optimizer or torch.optim.SGD(net.parameters(), lr=0.1)
    return watch(
        ParameterProbe(), lambda number: step(optimizer), 20, make_watched(modules=[net], optimizers=[optimizer])
    ).parameters


def cleared_before(net: nn.Module) -> Callable[[torch.optim.Optimizer], object]:
    def step(optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        trained(net, optimizer)

    return step


def cleared_after(net: nn.Module) -> Callable[[torch.optim.Optimizer], object]:
    def step(optimizer: torch.optim.Optimizer) -> None:
        trained(net, optimizer)
        optimizer.zero_grad(set_to_none=True)

    return step


def cleared_by_the_module(net: nn.Module) -> Callable[[torch.optim.Optimizer], object]:
    def step(optimizer: torch.optim.Optimizer) -> None:
        trained(net, optimizer)
        net.zero_grad()

    return step


def test_a_layer_that_forward_forgot_is_found_wherever_gradients_are_cleared() -> None:
    for way in (cleared_before, cleared_after, cleared_by_the_module):
        net = Net()
        use = use_of(net, way(net))
        assert use is not None
        spare = {"spare.0.weight", "spare.0.bias", "spare.1.weight", "spare.1.bias"}
        other_head = {"heads.1.weight", "heads.1.bias"}
        assert set(use.without_gradient) == set(use.never_called) == spare | other_head
        assert set(use.chosen) == other_head
        assert use.sizes["spare.0.weight"] == 16
        assert use.total == sum(parameter.numel() for parameter in net.parameters())
        place = use.places["spare.0.bias"]
        assert (place.file, place.source) == (
            __file__,
            "self.spare = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))",
        )
        assert use.places["heads.1.bias"].source.startswith("self.heads = ")


def unused(use: ParameterUse | None) -> set[str]:
    assert use is not None
    return set(use.never_called) - {"heads.1.weight", "heads.1.bias"}


def test_frozen_layers_are_meant() -> None:
    net = Net()
    net.spare.requires_grad_(False)
    assert unused(use_of(net, cleared_before(net))) == set()


def test_tied_weights_are_used_by_another_name() -> None:
    net = Net()
    net.spare = nn.Linear(4, 4, bias=False)  # type: ignore[assignment]
    net.spare.weight = net.body.weight
    assert unused(use_of(net, cleared_before(net))) == set()


def test_a_module_that_is_called_and_gets_no_gradient_is_not_forgotten() -> None:
    net = Net()

    def step(optimizer: torch.optim.Optimizer) -> None:
        with torch.no_grad():
            net.spare(torch.ones(1, 4))
        cleared_before(net)(optimizer)

    use = use_of(net, step)
    assert unused(use) == set()
    assert use is not None
    assert "spare.0.weight" in use.without_gradient


def test_what_is_trained_later_in_the_run_left_its_traces() -> None:
    net = Net()
    count = [0]

    def step(optimizer: torch.optim.Optimizer) -> None:
        count[0] += 1
        optimizer.zero_grad()
        loss = net(torch.ones(2, 4)).sum()
        if count[0] > 15:
            loss = loss + net.spare(torch.ones(1, 4)).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    assert unused(use_of(net, step, torch.optim.Adam(net.parameters()))) == set()


def test_an_optimizer_that_comes_late_is_left_alone() -> None:
    first, second = Net(), nn.Linear(2, 2)
    optimizers = [torch.optim.SGD(first.parameters(), lr=0.1), torch.optim.SGD(second.parameters(), lr=0.1)]
    watched = make_watched(modules=[first], optimizers=optimizers[:1])

    def step(number: int) -> None:
        cleared_before(first)(optimizers[0])
        if number == 9:
            watched.note_optimizer(optimizers[1])

    use = watch(ParameterProbe(), step, 20, watched).parameters
    assert use is not None
    assert all(name.startswith(("spare", "heads")) for name in use.without_gradient)


def hooks_and_methods() -> tuple[Any, ...]:
    return (
        len(nn.modules.module._global_forward_pre_hooks),
        torch.optim.Optimizer.zero_grad,
        nn.Module.zero_grad,
    )


def test_hooks_and_patches_are_taken_out_after_each_step() -> None:
    before = hooks_and_methods()
    probe, watched = ParameterProbe(), make_watched()
    probe.begin(3, watched)
    assert hooks_and_methods() != before
    probe.end(3, watched)
    assert hooks_and_methods() == before


def missing(watched: WatchedScript, step: Callable[[int], object] = lambda number: None) -> str:
    evidence = watch(ParameterProbe(), step, 20, watched, Evidence())
    assert evidence.parameters is None
    return evidence.missing["parameters"]


def test_where_nothing_can_be_told_it_says_so() -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    assert "no optimizer was seen" in missing(make_watched())
    assert "no gradients were seen" in missing(make_watched(modules=[net], optimizers=[optimizer]))
    compiled = make_watched(modules=[net], optimizers=[optimizer])
    compiled.compiled.append("model")
    assert "torch.compile" in missing(compiled, lambda number: cleared_before(net)(optimizer))
