"""A copy of a model is replayed; the model itself is not touched."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from cordwood.doctor.evidence.evidence import ModuleSeen
from cordwood.doctor.evidence.findings import Abstain
from cordwood.doctor.evidence.tape import Tape
from cordwood.doctor.replay import model as modelreplay
from cordwood.doctor.replay.model import Mode, ModelReplay
from tests.doctor.support.tapes import record_passes

LOWER = Mode(forward=lambda: torch.autocast("cpu", dtype=torch.bfloat16))
LABELS = torch.tensor([0, 2, 1, 2])
TARGETS = torch.ones(4, 3)


class Net(nn.Module):
    def __init__(self, result: Callable[[torch.Tensor], Any] = lambda x: x) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(8, 3)
        self.result = result
        self.types: list[torch.dtype] = []

    def forward(self, x: torch.Tensor) -> Any:
        x.add_(1)  # as people do
        hidden = self.first(x)
        self.types.append(hidden.dtype)
        return self.result(self.last(self.drop(functional.relu(self.norm(hidden)))))


def seen_of(module: nn.Module) -> ModuleSeen:
    return ModuleSeen(module, None, training_calls=10, arguments=((torch.linspace(0, 1, 24).reshape(4, 6),), {}))


def recorded(model: nn.Module, loss_of: Callable[[Any], torch.Tensor]) -> Tape:
    return record_passes(lambda: loss_of(model(torch.linspace(0, 1, 24).reshape(4, 6))))


@pytest.fixture(autouse=True)
def one_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cordwood.doctor.measure.pairs._FEWEST", 3)


def test_a_call_inside_a_transform_of_torch_func_is_not_replayed() -> None:
    kept: list[torch.Tensor] = []

    def loss(x: torch.Tensor) -> torch.Tensor:
        kept.append(x.detach())
        return x.sum()

    torch.func.vmap(torch.func.grad(loss))(torch.ones(4, 6))
    seen = ModuleSeen(Net(), None, training_calls=10, arguments=((kept[0],), {}))
    with pytest.raises(Abstain, match=r"inside `torch\.func`"):
        ModelReplay(seen)


def test_nothing_of_the_model_changes() -> None:
    torch.manual_seed(0)
    model = Net()
    seen = seen_of(model)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    arguments = seen.arguments[0][0].clone()  # type: ignore[index]
    random = torch.get_rng_state()
    replay = ModelReplay(seen)
    gain = replay.compare(Mode(), LOWER, seconds=0.0)
    replay.difference(Mode(), LOWER, None)
    assert gain.pairs == 3
    assert min(gain.before_ms, gain.after_ms) > 0
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(seen.arguments[0][0], arguments)  # type: ignore[index]
    assert torch.equal(torch.get_rng_state(), random)
    assert model.types == []


def test_both_ways_are_run_with_a_backward_pass() -> None:
    replay = ModelReplay(seen_of(Net()))
    replay.compare(Mode(), LOWER, seconds=0.0)
    assert {torch.float32, torch.bfloat16} == set(replay._module.types)  # type: ignore[arg-type]
    assert all(parameter.grad is not None for parameter in replay._module.parameters())


def test_settings_for_both_passes_are_there_in_both() -> None:
    inside = [False]
    during = []

    class Around:
        def __enter__(self) -> None:
            inside[0] = True

        def __exit__(self, *error: object) -> None:
            inside[0] = False

    class Watching(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            during.append(("forward", inside[0]))
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            during.append(("backward", inside[0]))
            return gradient

    replay = ModelReplay(seen_of(Net(Watching.apply)))
    replay._timed(Mode(around=Around))
    assert during == [("forward", True), ("backward", True)]
    assert inside == [False]


def test_the_same_is_no_difference() -> None:
    apart = ModelReplay(seen_of(Net())).difference(Mode(), Mode(), None)
    assert apart is not None
    assert apart.of == "output"
    assert apart.relative == 0.0


def test_the_difference_of_outputs() -> None:
    apart = ModelReplay(seen_of(Net())).difference(Mode(), LOWER, None)
    assert apart is not None
    assert apart.of == "output"
    assert 0 < apart.relative < 0.1


class Output:
    def __init__(self, loss: torch.Tensor) -> None:
        self.loss = loss


@pytest.mark.parametrize(
    "result",
    [
        lambda x: functional.cross_entropy(x, LABELS),
        lambda x: {"loss": functional.cross_entropy(x, LABELS), "logits": x},
        lambda x: Output(functional.cross_entropy(x, LABELS)),
    ],
    ids=["alone", "dict", "attribute"],
)
def test_a_loss_that_the_model_returns(result: Callable[[torch.Tensor], Any]) -> None:
    apart = ModelReplay(seen_of(Net(result))).difference(Mode(), LOWER, None)
    assert apart is not None
    assert apart.of == "loss"
    assert apart.before == pytest.approx(1.1, abs=1.0)
    assert apart.before != apart.after


@pytest.mark.parametrize(
    "loss_of",
    [
        lambda x: functional.cross_entropy(x, LABELS),
        lambda x: nn.CrossEntropyLoss()(x, LABELS),
        lambda x: functional.nll_loss(functional.log_softmax(x, -1), LABELS) / 2,
        lambda x: x.sum() + LABELS.sum() * x.mean() + (x * 2).relu().sum(),
    ],
    ids=["function", "module", "several", "used often"],
)
def test_the_loss_by_the_operations_of_the_recorded_step(loss_of: Callable[[Any], torch.Tensor]) -> None:
    model = Net()
    tape = recorded(model, loss_of)
    replay = ModelReplay(seen_of(model))
    apart = replay.difference(Mode(), LOWER, tape)
    assert apart is not None
    assert apart.of == "loss"
    with torch.no_grad():
        assert apart.before == pytest.approx(float(loss_of(replay._output(Mode()))), rel=1e-6)
        assert apart.after == pytest.approx(float(loss_of(replay._output(LOWER).float())), rel=1e-6)


@pytest.mark.parametrize(
    "loss_of",
    [
        lambda x: functional.mse_loss(x, TARGETS),  # floats are not kept
        lambda x: functional.mse_loss(x, torch.rand(4, 3)),
        lambda x: functional.mse_loss(x, torch.rand_like(x)) + 1,
    ],
    ids=["floats", "random", "random like it"],
)
def test_a_loss_that_cannot_be_computed_again(loss_of: Callable[[Any], torch.Tensor]) -> None:
    model = Net()
    apart = ModelReplay(seen_of(model)).difference(Mode(), LOWER, recorded(model, loss_of))
    assert apart is not None
    assert apart.of == "output"


def test_what_is_not_finite_is_no_difference() -> None:
    overflowing = Net(lambda x: x * (1e39 if x.dtype is torch.bfloat16 else 1.0))
    assert ModelReplay(seen_of(overflowing)).difference(Mode(), LOWER, None) is None


def test_models_that_cannot_be_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Abstain, match="small enough"):
        ModelReplay(ModuleSeen(Net(), None, arguments=None))
    hooked = Net()
    hooked.first.register_forward_hook(lambda module, given, result: None)
    with pytest.raises(Abstain, match="hooks"):
        ModelReplay(seen_of(hooked))
    uncopyable = Net()
    uncopyable.stream = (each for each in range(3))  # type: ignore[assignment]
    with pytest.raises(Abstain, match="cannot be copied"):
        ModelReplay(seen_of(uncopyable))
    with pytest.raises(Abstain, match="nothing to differentiate"):
        ModelReplay(seen_of(Net(lambda x: x.argmax()))).compare(Mode(), LOWER, 0.0)
    monkeypatch.setattr(modelreplay, "_MEMORY_SHARE", 0.0)
    with pytest.raises(Abstain, match="too large"):
        ModelReplay(seen_of(Net()))
