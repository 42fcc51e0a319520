"""The guidelines of ShuffleNet V2 are told of for layers that take time, and promise nothing."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from cordwood.doctor.evidence.evidence import Evidence, ModuleSeen
from cordwood.doctor.evidence.findings import Abstain, Finding, Rule
from cordwood.doctor.report.terminal import format_text
from cordwood.doctor.rules.architecture.layers import Convolution, heavy_layers
from cordwood.doctor.rules.architecture.shufflenet import (
    ShuffleNetG1,
    ShuffleNetG2,
    ShuffleNetG3,
    ShuffleNetG4,
    is_grouped,
    is_unequal,
)
from tests.doctor.support.evidences import make_evidence, make_report
from tests.doctor.support.tapes import record_passes

ALL = [ShuffleNetG1, ShuffleNetG2, ShuffleNetG3, ShuffleNetG4]
Times = Callable[[Any], float]


def recorded(model: nn.Module, *shape: int, ms: Times = lambda op: 1.0) -> Evidence:
    """Evidence with the tape of one step, whose operations take the given times."""
    batch = torch.ones(shape)
    evidence = make_evidence()
    evidence.tape = record_passes(lambda: model(batch).sum())
    evidence.tape.op_ms = [ms(op) for op in evidence.tape.ops]
    evidence.steps = make_evidence({"forward": sum(evidence.tape.op_ms)}, jitter=0.0).steps
    return evidence


def only(module: str, name: str = "", ms: float = 1.0, other: float = 0.001) -> Times:
    """All time goes to one module."""
    return lambda op: ms if op.module == module and name in op.name else other


def judged(rule: type[Rule], evidence: Evidence) -> list[Finding]:
    found = rule().judge(evidence)
    assert all(finding.level == "info" and finding.saves_ms is None and not finding.verified for finding in found)
    return found


def net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(4, 32, 1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, groups=8),
        nn.Conv2d(32, 32, 3, groups=32),
        nn.ConvTranspose2d(32, 4, 1),
        nn.Conv2d(4, 4, 3),
    )


@pytest.mark.parametrize(
    ("rule", "module", "what"),
    [(ShuffleNetG1, "0", "1x1, 4 to 32 channels"), (ShuffleNetG2, "3", "3x3, 32 to 32 channels, 8 groups")],
)
def test_convolutions_are_told_of_where_they_take_time(rule: type[Rule], module: str, what: str) -> None:
    (found,) = judged(rule, recorded(net(), 2, 4, 12, 12, ms=only(module, "convolution")))
    assert found.details[0].rows[0][0] == module
    assert found.details[0].rows[0][3] == what
    assert found.place is not None
    for other in ("1", "5", "6"):
        assert judged(rule, recorded(net(), 2, 4, 12, 12, ms=only(other))) == []


@pytest.mark.parametrize(
    ("convolution", "unequal", "grouped"),
    [
        (Convolution(4, 32, 1, (1, 1)), True, False),
        (Convolution(32, 4, 1, (1,)), True, False),
        (Convolution(64, 256, 1, (1, 1)), False, False),  # as in ResNet
        (Convolution(3, 64, 1, (7, 7)), False, False),  # the first layer of everything
        (Convolution(32, 32, 8, (3, 3)), False, True),
        (Convolution(32, 32, 2, (3, 3)), False, False),
        (Convolution(32, 32, 32, (3, 3)), False, False),  # depthwise
        (Convolution(32, 256, 4, (1, 1)), False, True),
    ],
)
def test_which_convolutions_break_a_guideline(convolution: Convolution, unequal: bool, grouped: bool) -> None:
    assert is_unequal(convolution) is unequal
    assert is_grouped(convolution) is grouped


class Cells(nn.Module):
    """A loop over time steps."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.weight = nn.Parameter(torch.eye(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.steps):
            x = torch.tanh(x @ self.weight)
        return x


def test_fragmented_modules() -> None:
    (found,) = judged(ShuffleNetG3, recorded(nn.Sequential(Cells(40)), 2, 4, ms=lambda op: 0.004))
    name, _, _, what = found.details[0].rows[0]
    assert name == "0"
    assert what.startswith("238 operations")  # 40 products and tanh; 40 + 79 backward, and 39 sums of gradients
    assert judged(ShuffleNetG3, recorded(nn.Sequential(Cells(4)), 2, 4, ms=lambda op: 0.004)) == []
    assert judged(ShuffleNetG3, recorded(nn.Sequential(Cells(40)), 2, 4, ms=lambda op: 1.0)) == []


class Recurrent(nn.Module):
    """A model with a recurrent layer of torch's own, or a loop of cells."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if isinstance(self.layer, nn.RNNCellBase):
            state: torch.Tensor | None = None
            for step in x:
                state = self.layer(step, state)
            assert state is not None
            return state
        result: torch.Tensor = self.layer(x)[0]
        return result


@pytest.mark.parametrize("rule", [ShuffleNetG3, ShuffleNetG4])
@pytest.mark.parametrize("prefix", ["", "module.", "Recurrent.", "Recurrent#2."])
@pytest.mark.parametrize("layer", [nn.RNN(4, 4), nn.GRU(4, 4), nn.RNNCell(4, 4)])
def test_recurrent_layers_of_torch_are_not_told_of(layer: nn.Module, prefix: str, rule: type[Rule]) -> None:
    model = Recurrent(layer)
    evidence = recorded(model, 40, 2, 4, ms=lambda op: 0.004)
    assert judged(rule, evidence)  # nothing is known of what the layer is
    evidence.modules.append(ModuleSeen(model, None))
    assert evidence.tape is not None
    for op in evidence.tape.ops:
        op.module = f"{prefix}{op.module}" if op.module == "layer" else op.module
    assert judged(rule, evidence) == []


def test_a_name_that_two_models_have_says_nothing() -> None:
    model = nn.Sequential(Cells(40))
    evidence = recorded(model, 2, 4, ms=lambda op: 0.004)
    evidence.modules += [ModuleSeen(model, None), ModuleSeen(nn.Sequential(nn.LSTM(4, 4)), None)]
    assert judged(ShuffleNetG3, evidence)


@pytest.mark.parametrize("width", [60, 100])
def test_what_to_do_is_broken_to_the_width_of_a_terminal(width: int) -> None:
    found = judged(ShuffleNetG3, recorded(nn.Sequential(Cells(40)), 2, 4, ms=lambda op: 0.004))
    text = format_text(make_report(found).document, width)
    assert max(map(len, text.splitlines())) <= width
    told = " ".join(text.replace("# ", "").split())
    assert ShuffleNetG3.cure in told


def test_elementwise_operations() -> None:
    def times(relu: float) -> Times:
        return lambda op: relu if op.module == "2" else 1.0 if "conv" in op.name or "norm" in op.name else 0.0

    (found,) = judged(ShuffleNetG4, recorded(net(), 2, 4, 12, 12, ms=times(3.0)))
    assert found.details[0].rows[0][0] == "2"
    assert found.details[0].rows[0][3].startswith("2 elementwise operations")
    assert judged(ShuffleNetG4, recorded(net(), 2, 4, 12, 12, ms=times(0.5))) == []


def test_layers_have_the_time_of_both_passes() -> None:
    layers = {layer.name: layer for layer in heavy_layers(recorded(net(), 2, 4, 12, 12, ms=only("0", other=0.0)))}
    assert list(layers) == ["0"]
    assert layers["0"].share == pytest.approx(1.0)
    assert layers["0"].operations == 2  # the convolution and its backward pass; views compute nothing


@pytest.mark.parametrize("rule", ALL)
def test_small_layers_and_missing_tapes(rule: type[Rule]) -> None:
    outside = recorded(net(), 2, 4, 12, 12, ms=lambda op: 100.0 if not op.module else 0.001)
    assert judged(rule, outside) == []
    with pytest.raises(Abstain, match="tape"):
        rule().judge(make_evidence())
    outside.seconds_to_spend = 0.0
    with pytest.raises(Abstain, match="no time"):
        rule().judge(outside)


def test_operations_of_a_step_that_does_something_else_are_not_worth_a_word() -> None:
    evidence = recorded(nn.Sequential(nn.Conv2d(4, 4, 3), nn.ReLU()), 2, 4, 12, 12)
    assert heavy_layers(evidence)
    assert evidence.tape is not None
    whole = sum(evidence.tape.op_ms or [])
    evidence.steps = make_evidence({"forward": whole, "wait": 99 * whole}, jitter=0.0).steps
    assert heavy_layers(evidence) == []
