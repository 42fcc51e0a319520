"""Writing a step down: everything is on the tape, nothing is changed by it, nothing is left behind."""

import copy
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.modules import module as hooks
from torch.utils._python_dispatch import _get_current_dispatch_mode

from cordwood.doctor.evidence.evidence import Evidence
from cordwood.doctor.probes.deep import dispatch_mode
from cordwood.doctor.probes.deep.base import WatchedScript
from cordwood.doctor.probes.deep.tape import STEPS, TapeProbe
from tests.doctor.support.tapes import line_of, record, watch


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = functional.dropout(self.norm(self.conv(images)).relu_(), 0.5, self.training)
        return self.head(features.mean((2, 3)))  # type: ignore[no-any-return]


def training(optimizer: Callable[..., torch.optim.Optimizer], **options: Any) -> tuple[Net, Callable[[], None]]:
    torch.manual_seed(1)
    net = Net()
    steps = optimizer(net.parameters(), lr=0.1, **options)
    images, labels = torch.randn(6, 3, 8, 8), torch.randint(5, (6,))

    def step() -> None:
        loss = functional.cross_entropy(net(images), labels)
        steps.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        steps.step()

    return net, step


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [(torch.optim.SGD, {"momentum": 0.9}), (torch.optim.Adam, {"foreach": True}), (torch.optim.AdamW, {"fused": True})],
)
def test_results_are_the_same_bit_for_bit(optimizer: Any, options: dict[str, Any]) -> None:
    net, step = training(optimizer, **options)
    for _ in range(4):
        step()
    bare, generator = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    net, step = training(optimizer, **options)
    step()
    record(step)
    step()
    assert torch.equal(torch.get_rng_state(), generator)
    for name, values in net.state_dict().items():
        assert torch.equal(values, bare[name]), name


def test_every_operation_is_there_with_its_module_and_its_line() -> None:
    _, step = training(torch.optim.SGD)
    tape = record(step)
    assert tape.has_constant_shapes
    assert tape.step == STEPS[1]
    by_name = {op.name: op for op in tape.ops}
    assert by_name["aten::native_batch_norm"].module == "norm"
    assert tape.classes["norm"] == "BatchNorm2d"
    convolution = by_name["aten::convolution"]
    assert (convolution.module, convolution.is_direct) == ("conv", False)
    assert [meta.shape for meta in convolution.inputs] == [(6, 3, 8, 8), (4, 3, 3, 3), (4,)]
    assert [meta.shape for meta in convolution.outputs] == [(6, 4, 6, 6)]
    assert by_name["aten::relu_"].is_direct
    assert by_name["aten::relu_"].inputs == by_name["aten::relu_"].outputs
    assert by_name["aten::nll_loss_forward"].module == ""
    assert tape.loss == by_name["aten::nll_loss_forward"].outputs[0].number


def test_a_backward_operation_belongs_to_the_line_and_module_of_its_forward_one() -> None:
    _, step = training(torch.optim.SGD)
    tape = record(step)
    backward = next(op for op in tape.ops if op.name == "aten::convolution_backward")
    assert backward.phase == "backward"
    assert backward.module == "conv"
    assert backward.place is not None
    assert "self.norm(self.conv(images))" in backward.place.source


def test_several_roots_are_told_apart() -> None:
    first, second = nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 2))
    other, loss = Net().eval(), nn.MSELoss()
    images = torch.zeros(1, 3, 4, 4)

    def step() -> None:
        out = second(first(torch.ones(1, 2)))
        loss(out, out)
        other(images)

    modules = {op.module for op in record(step).ops}
    assert {"Sequential#1.0", "Sequential#2.0", "Net.conv", "Net", "MSELoss"} <= modules


def test_lists_outputs_factories_and_aliases_are_followed() -> None:
    tensors = [torch.ones(3), torch.ones(2)]

    def step() -> None:
        torch._foreach_add_(tensors, 1.0)
        out = torch.empty(3)
        torch.mul(tensors[0], 2, out=out)
        out.view(3, 1).data.t().add_(1)

    tape = record(step)
    each = {op.name: op for op in tape.ops}
    assert len(each["aten::_foreach_add_.Scalar"].inputs) == 2
    made = each["aten::empty.memory_format"].outputs[0]
    assert each["aten::mul.out"].outputs == [made]
    assert each["aten::add_.Tensor"].inputs[0].storage == made.storage
    assert each["aten::add_.Tensor"].inputs[0].shape == (1, 3)
    assert set(tape.leaves) == {meta.number for meta in each["aten::_foreach_add_.Scalar"].inputs}


def test_a_tensor_that_autograd_saved_is_known_again() -> None:
    x = torch.randn(4, 4, requires_grad=True)

    def step() -> None:
        x.exp().sum().backward()
        x.grad = None

    tape = record(step)
    made = next(op for op in tape.ops if op.name == "aten::exp").outputs[0]
    product = next(op for op in tape.ops if op.name == "aten::mul.Tensor" and op.phase == "backward")
    assert made in product.inputs
    assert [leaf.meta.shape for leaf in tape.leaves.values()] == [(4, 4)]


def test_what_came_back_to_an_earlier_look_is_another_tensor() -> None:
    x = torch.randn(3, 2)

    def step() -> None:
        again = x.t().t()
        again.exp()
        x.sin()

    tape = record(step)
    first = tape.ops[0].inputs[0]
    assert tape.ops[1].outputs[0].number != first.number
    assert tape.ops[2].inputs[0].number == tape.ops[1].outputs[0].number


def test_arrays_are_known_with_the_line_that_took_them_over() -> None:
    table = np.ones((3, 2), np.float32)
    older = torch.from_numpy(table)

    def step() -> None:
        extra = torch.from_numpy(table.T)
        other = torch.as_tensor(table)
        extra + other.t()
        older * 2

    tape = record(step)
    arrays = {leaf.place.line: leaf for leaf in tape.leaves.values() if leaf.place is not None}
    line = line_of(tape, "extra + other.t()")
    assert [arrays[line - 2].meta.stride, arrays[line - 1].meta.stride] == [(1, 2), (2, 1)]
    assert all(leaf.is_numpy for leaf in arrays.values())
    old = next(leaf for leaf in tape.leaves.values() if leaf.place is None)
    assert (old.is_kept, old.is_numpy) == (True, False)
    assert not arrays[line - 2].is_kept


def test_leaves_that_live_on_are_told_from_those_of_a_step() -> None:
    weight, batches = torch.ones(2), iter([torch.zeros(2), torch.zeros(2)])
    tape = record(lambda: weight + next(batches))
    assert [leaf.is_kept for leaf in tape.leaves.values()] == [True, False]
    assert [leaf.is_kept for leaf in record(lambda: weight * 2, times=1).leaves.values()] == [False]


def test_integers_are_kept_whole_and_of_others_a_sample() -> None:
    positions, values = torch.arange(6).view(2, 3).t(), torch.arange(1000.0).view(10, 100).t()

    def step() -> None:
        positions + 1
        values + 1

    leaves = list(record(step).leaves.values())
    assert leaves[0].values is not None
    assert leaves[0].values.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert leaves[1].values is None
    assert leaves[1].sample is not None
    assert leaves[1].sample.numel() <= 256
    assert {*leaves[1].sample.tolist()} < {*range(1000)}


def test_no_tensor_outlives_the_step() -> None:
    alive: list[Any] = []

    def step() -> None:
        made = torch.randn(3, 3).exp()
        alive.append(weakref.ref(made))
        alive.append(weakref.ref(made.untyped_storage()))

    tape = record(step)
    gc.collect()
    assert [reference() for reference in alive] == [None] * 4
    assert tape.ops


def test_shapes_that_vary_are_noticed() -> None:
    sizes = iter((3, 4))
    tape = record(lambda: torch.ones(next(sizes)) + 1)
    assert not tape.has_constant_shapes
    assert tape.earlier_places == frozenset(op.place for op in tape.ops if op.place is not None)


def test_data_loading_is_not_on_the_tape() -> None:
    phase = "wait"

    def step() -> None:
        nonlocal phase
        phase = "wait"
        batch = torch.ones(3) + 1
        phase = "forward"
        batch.exp()

    tape = watch(step, phase=lambda: phase).tape
    assert tape is not None
    assert [op.name for op in tape.ops] == ["aten::exp"]
    assert len(tape.leaves) == 1


def sparse() -> object:
    return torch.eye(3).to_sparse() * 2


def two_in_one() -> object:
    from torch.testing._internal.two_tensor import TwoTensor

    return TwoTensor(torch.ones(3), torch.ones(3)) + 1


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (sparse, "layout torch.sparse_coo"),
        (two_in_one, "of the type TwoTensor"),
        (lambda: torch.ones(3, dtype=torch.complex64).conj() + 1, "conjugated"),
        (lambda: torch.ones(3, device="meta") + 1, "meta"),
    ],
)
def test_what_cannot_be_made_again_ends_the_taping_and_not_the_step(step: Callable[[], object], why: str) -> None:
    done = []
    evidence = watch(lambda: done.append(step()))
    assert len(done) == 2
    assert evidence.tape is None
    assert why in evidence.missing["tape"]


def test_too_many_operations_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch_mode, "MOST_OPS", 3)
    x = torch.ones(2)
    assert watch(lambda: [x + 1 for _ in range(3)]).tape is not None
    assert watch(lambda: [x + 1 for _ in range(4)]).missing["tape"] == "a step has more than 3 operations"


def test_a_failure_of_the_doctor_does_not_reach_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch_mode, "is_users", lambda code: 1 / 0)
    evidence = watch(lambda: torch.ones(2) + 1)
    assert evidence.missing["tape"] == "the doctor failed: ZeroDivisionError: division by zero"


def test_compiled_code_is_left_alone() -> None:
    watched = WatchedScript(phase=lambda: "forward", thread=lambda: None, compiled=["Net"])
    probe = TapeProbe()
    probe.begin(4, watched)
    assert _get_current_dispatch_mode() is None
    probe.end(4, watched)
    evidence = Evidence()
    probe.finish(evidence, watched)
    assert "torch.compile is in use (Net)" in evidence.missing["tape"]


def test_training_that_ends_early_says_so() -> None:
    evidence = Evidence()
    TapeProbe().finish(evidence, WatchedScript(phase=lambda: "other", thread=lambda: None))
    assert evidence.missing["tape"] == "training ended before step 4"


def state_of_torch() -> list[Any]:
    return [
        torch.from_numpy,
        torch.as_tensor,
        torch.asarray,
        dict(hooks._global_forward_hooks),
        dict(hooks._global_forward_pre_hooks),
        dict(hooks._global_forward_hooks_always_called),
        _get_current_dispatch_mode(),
    ]


def test_everything_is_undone_also_when_the_step_raises() -> None:
    before = state_of_torch()

    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("mine")

    def step() -> None:
        Broken()(torch.ones(2) + 1)

    with pytest.raises(RuntimeError, match="mine"):
        watch(step)
    assert state_of_torch() == before
    probe = TapeProbe()
    watched = WatchedScript(phase=lambda: "forward", thread=lambda: None)
    probe.begin(4, watched)
    torch.ones(2) + 1
    evidence = Evidence()
    probe.finish(evidence, watched)  # a script that ends in the middle of a step
    assert state_of_torch() == before
    assert evidence.tape is not None


def test_a_mode_that_the_step_leaves_behind_stays() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    watched = WatchedScript(phase=lambda: "forward", thread=lambda: None)
    probe = TapeProbe()
    probe.begin(4, watched)
    counter.__enter__()
    probe.end(4, watched)
    torch.ones(2, 3) @ torch.ones(3, 4)
    counter.__exit__(None, None, None)
    assert counter.get_total_flops() == 2 * 2 * 3 * 4
    assert _get_current_dispatch_mode() is None
