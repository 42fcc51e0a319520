"""What is kept from step to step is found with its line; what lives for a while is not."""

import gc
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
import torch

from cordwood.doctor.evidence.evidence import Evidence
from cordwood.doctor.probes.deep import memory
from cordwood.doctor.probes.deep.memory import MemoryProbe
from tests.doctor.support.watching import make_watched, watch

WEIGHT = torch.ones(4, requires_grad=True)


def a_loss() -> torch.Tensor:
    return (WEIGHT * 2).sum()


def looked_at(step: Callable[[int], Any], steps: int = 30) -> Evidence:
    """As `watch`, with the step's variables still there when the probe looks."""
    return watch(MemoryProbe(), step, steps)


def test_a_list_of_losses() -> None:
    losses: list[torch.Tensor] = []

    def step(number: int) -> None:
        losses.append(a_loss())

    seen = looked_at(step).memory
    assert seen is not None
    [kept] = seen.leaks
    assert kept.name == "losses"
    assert kept.tensors_a_step == pytest.approx(1.0)
    assert kept.nodes_a_step == pytest.approx(2.0)  # the sum and the product; the weight's own node is shared
    assert len(losses) == 30


@pytest.mark.parametrize(("steps", "emptied"), [(40, False), (50, True), (100, True)])
def test_what_is_emptied_after_each_epoch_is_told_so(steps: int, emptied: bool) -> None:
    """Epochs of 32 steps: at the fourth look, after step 46, there are fewer again."""
    probe, watched, evidence = MemoryProbe(), make_watched(), Evidence()
    outputs: list[torch.Tensor] = []
    total: Any = 0
    for number in range(steps):
        if number % 32 == 0:
            outputs, total = [], 0
        outputs.append(WEIGHT * 2)
        total += a_loss()
        if probe.wants(number):
            probe.begin(number, watched)
            probe.end(number, watched)
    probe.finish(evidence, watched)
    assert evidence.memory is not None
    found = {kept.name: (kept.was_emptied, kept.elements) for kept in evidence.memory.leaks}
    assert found == {"outputs": (emptied, 4), "total": (emptied, 1)}


def test_later_looks_are_taken_only_where_something_grows() -> None:
    probe = MemoryProbe()
    watch(probe, lambda number: a_loss(), 30)
    assert not probe.wants(46)
    assert probe.is_over(27)


def test_the_line_is_named() -> None:
    probe, watched, evidence = MemoryProbe(), make_watched(), Evidence()
    losses = []
    total = torch.zeros(())
    running: Any = 0
    for number in range(30):
        losses.append(a_loss())
        total = total + a_loss()
        running += a_loss()
        if probe.wants(number):
            probe.begin(number, watched)
            probe.end(number, watched)
    probe.finish(evidence, watched)
    assert evidence.memory is not None
    found = {kept.name: kept.place.source for kept in evidence.memory.leaks if kept.place is not None}
    assert found == {
        "losses": "losses.append(a_loss())",
        "total": "total = total + a_loss()",
        "running": "running += a_loss()",
    }
    assert evidence.memory.steps == 20


class Recorder:
    def __init__(self) -> None:
        self.history: dict[str, list[torch.Tensor]] = {"loss": []}

    def record(self, loss: torch.Tensor) -> None:
        self.history["loss"].append(loss)


def test_an_object_that_records() -> None:
    recorder = Recorder()
    seen = looked_at(lambda number: recorder.record(a_loss())).memory
    assert seen is not None
    [kept] = seen.leaks
    assert kept.name == "recorder.history['loss']"
    assert kept.place is not None
    assert kept.place.source == 'self.history["loss"].append(loss)'


def test_numbers_detached_tensors_and_what_is_cleared_are_no_leak() -> None:
    numbers, detached, recent = [], [], deque(maxlen=100)  # type: ignore[var-annotated]
    episode: list[torch.Tensor] = []
    constant = a_loss()

    def step(number: int) -> None:
        loss = a_loss()
        numbers.append(loss.item())
        detached.append(loss.detach())
        recent.append(loss)
        episode.append(loss)
        if number % 4 == 3:
            episode.clear()

    seen = looked_at(step).memory
    assert seen is not None
    assert seen.leaks == []
    assert constant.requires_grad


def test_lists_of_changing_length_are_no_leak() -> None:
    lengths = {6: 3, 16: 9, 26: 14}
    outputs: list[torch.Tensor] = []

    def step(number: int) -> None:
        outputs[:] = [a_loss() for _ in range(lengths.get(number, 5))]

    seen = looked_at(step).memory
    assert seen is not None
    assert seen.leaks == []


def test_what_outlives_a_step_is_told() -> None:
    probe, watched, evidence = MemoryProbe(), make_watched(), Evidence()
    for number in range(30):
        output = WEIGHT.repeat(1000) * 1
        if probe.wants(number):
            probe.end(number, watched)
    probe.finish(evidence, watched)
    assert evidence.memory is not None
    assert ("output", output.untyped_storage().nbytes()) in [(name, size) for name, _, size in evidence.memory.alive]


def test_looking_keeps_nothing_alive() -> None:
    probe, watched = MemoryProbe(), make_watched()
    loss = a_loss()
    known = weakref.ref(loss)
    probe.end(6, watched)
    del loss
    gc.collect()
    assert known() is None


def test_growth_of_the_process_counts_only_if_it_is_steady() -> None:
    def looks(*sizes: int | None) -> list[memory.MemorySnapshot]:
        return [memory.MemorySnapshot(6 + 10 * index, {}, size) for index, size in enumerate(sizes)]

    assert memory._clear_growth(looks(0, 10_000_000, 21_000_000)) == pytest.approx(1_050_000)
    assert memory._clear_growth(looks(0, 30_000_000, 31_000_000)) == 0.0
    assert memory._clear_growth(looks(0, 1_000, 2_000)) == 0.0
    assert memory._clear_growth(looks(None, None, None)) == 0.0


def test_a_script_without_source_is_not_said_to_be_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cordwood.doctor.code.tensor_holders.is_users", lambda code: False)
    evidence = looked_at(lambda number: None)
    assert evidence.memory is None
    assert "source cannot be read" in evidence.missing["memory"]


def test_a_run_that_is_too_short_says_so() -> None:
    evidence = looked_at(lambda number: None, steps=10)
    assert evidence.memory is None
    assert "fewer than 17 training steps" in evidence.missing["memory"]
