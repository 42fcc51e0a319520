"""The rule speaks of gains that were measured, and of nothing else. Times are given here, not measured."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from cordwood.doctor.evidence.evidence import Evidence
from cordwood.doctor.evidence.findings import Abstain, CodeLine
from cordwood.doctor.evidence.tape import Tape
from cordwood.doctor.measure.pairs import Gain
from cordwood.doctor.replay import layout_trial
from cordwood.doctor.replay.replay import Replay
from cordwood.doctor.rules.compute.non_contiguous import NonContiguous
from tests.doctor.support.evidences import make_evidence
from tests.doctor.support.tapes import record

table = np.ones((4, 6), np.float32)
batch, other = torch.randn(6, 4), torch.randn(6, 4)
Comparing = Callable[[Replay, Replay, float], Gain]


def step() -> None:
    extra = torch.from_numpy(table.T)
    added = batch + extra
    turned = other.t()
    turned.exp().sin()
    added.exp()


def evidence_of(tape: Tape, **phases: float) -> Evidence:
    """Every operation takes 10 ms."""
    tape.op_ms = [10.0] * len(tape.ops)
    for op in tape.ops:
        op.nanoseconds = 10_000_000
    evidence = make_evidence(phases or {"wait": 20.0, "forward": 60.0, "other": 20.0}, jitter=0.0)
    evidence.tape = tape
    return evidence


def gains(monkeypatch: pytest.MonkeyPatch, of: Callable[[Replay], float], spread: float = 0.5) -> list[float]:
    """Replaces measuring: what a program saves is told by its changes. Gives the seconds that were asked for."""
    asked = []

    def compare(before: Replay, after: Replay, seconds: float) -> Gain:
        asked.append(seconds)
        saves = of(after) - of(before)
        return Gain(saves, spread, 60.0, 60.0 - saves, 9)

    monkeypatch.setattr(layout_trial, "compare", compare)
    return asked


def leaf_numbers(tape: Tape) -> set[int]:
    return {number for number, leaf in tape.leaves.items() if leaf.is_numpy}


def test_a_measured_gain_is_told_with_line_users_and_both_cures(monkeypatch: pytest.MonkeyPatch) -> None:
    tape = record(step)
    gains(monkeypatch, lambda program: 25.0 if leaf_numbers(tape) <= set(program.changes) else 0.0)
    (finding,) = NonContiguous().judge(evidence_of(tape))
    assert finding.rule == "non-contiguous"
    assert finding.place is not None
    assert finding.place.source == "extra = torch.from_numpy(table.T)"
    assert (finding.saves_ms, finding.spread_ms, finding.verified) == (25.0, 0.5, "replay")
    assert "a transposed tensor (6x4, strides (1, 6)) is made here" in finding.message
    assert f"operations in line {finding.place.line + 1} are slow with it" in finding.message
    assert "60.0 ms of a step's operations become 35.0 ms with a contiguous copy, the copy included" in finding.message
    assert "extra = torch.from_numpy(table.T).contiguous()" in finding.fix.splitlines()
    assert "extra = torch.from_numpy(np.ascontiguousarray(table.T))" in finding.fix.splitlines()
    details = {detail.title: detail for detail in finding.details}
    assert details["the step's operations, replayed in turns"].rows == (("as it is", "60.00"), ("contiguous", "35.00"))
    assert ("(6, 4)", "(1, 6)", "float32") in details["the tensors"].rows


def test_nothing_is_said_without_a_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = gains(monkeypatch, lambda program: -5.0 * len(program.changes))
    assert NonContiguous().judge(evidence_of(record(step))) == []
    assert len(asked) == 2  # both lines were looked at, none of them twice


@pytest.mark.parametrize(("saves", "spread"), [(2.9, 0.1), (25.0, 9.0)])
def test_small_and_unsure_gains_are_not_told(monkeypatch: pytest.MonkeyPatch, saves: float, spread: float) -> None:
    gains(monkeypatch, lambda program: saves if program.changes else 0.0, spread)
    assert NonContiguous().judge(evidence_of(record(step))) == []


def test_a_gain_that_does_not_come_again_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([30.0, 30.0, 0.0, 0.0, 0.0])
    monkeypatch.setattr(layout_trial, "compare", lambda before, after, seconds: Gain(next(looks), 0.1, 60.0, 30.0, 9))
    assert NonContiguous().judge(evidence_of(record(step))) == []


def test_gains_of_several_lines_are_measured_on_top_of_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    tape = record(step)

    def saves(program: Replay) -> float:
        arrays = leaf_numbers(tape) <= set(program.changes)
        turned = bool(set(program.changes) - leaf_numbers(tape))
        return 20.0 if arrays and turned else 15.0 if arrays else 10.0 if turned else 0.0

    gains(monkeypatch, saves)
    first, second = NonContiguous().judge(evidence_of(tape))
    assert (first.saves_ms, second.saves_ms) == (15.0, 5.0)
    assert all(detail.title != "the replay beside the run" for detail in second.details)
    assert second.place is not None
    assert second.place.source == "turned = other.t()"
    assert second.fix == "turned = other.t().contiguous()"


def test_images_get_the_better_of_the_two_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    images = torch.randn(2, 5, 4, 3)

    def images_step() -> None:
        turned = images.permute(0, 2, 3, 1)
        turned.exp()

    worth = {torch.contiguous_format: 5.0, torch.channels_last: 20.0}
    gains(monkeypatch, lambda program: sum(worth[each] for each in program.changes.values()))
    (finding,) = NonContiguous().judge(evidence_of(record(images_step)))
    assert finding.saves_ms == 20.0
    assert finding.fix == "turned = images.permute(0, 2, 3, 1).to(memory_format=torch.channels_last)"
    assert "with a channels last copy" in finding.message


def test_a_format_that_a_later_view_does_not_allow_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    images = torch.randn(2, 4, 5, 3)

    def images_step() -> None:
        turned = images.permute(0, 1, 3, 2)
        turned.exp().view(8, 3, 5)

    tape = record(images_step)
    formats: list[torch.memory_format] = []

    def compare(before: Replay, after: Replay, seconds: float) -> Gain:
        formats.extend(after.changes.values())
        return Gain(0.0, 0.1, 60.0, 60.0, 9)

    monkeypatch.setattr(layout_trial, "compare", compare)
    assert NonContiguous().judge(evidence_of(tape)) == []
    assert formats == [torch.contiguous_format]


def test_lines_of_a_single_step_are_no_gain_per_step(monkeypatch: pytest.MonkeyPatch) -> None:
    gains(monkeypatch, lambda program: 25.0 if program.changes else 0.0)
    tape = record(step)
    assert tape.earlier_places
    tape.earlier_places = frozenset()
    assert NonContiguous().judge(evidence_of(tape)) == []


def test_what_is_too_small_to_matter_is_not_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = gains(monkeypatch, lambda program: 25.0)
    tape = record(step)
    evidence = evidence_of(tape)
    tape.op_ms = [0.1] * len(tape.ops)
    for op in tape.ops:
        op.nanoseconds = 100_000
    assert NonContiguous().judge(evidence) == []
    assert asked == []


def test_a_replay_slower_than_the_run_is_scaled_down_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    gains(monkeypatch, lambda program: 20.0 if program.changes else 0.0)
    tape = record(step)
    first = NonContiguous().judge(evidence_of(tape, wait=50.0, forward=30.0))[0]
    assert first.saves_ms == pytest.approx(10.0)
    assert first.spread_ms == pytest.approx(0.25)
    assert first.details[-1].rows == (("replayed, the same operations took more: all figures are times 0.50",),)
    with pytest.raises(Abstain, match="no picture of it"):
        NonContiguous().judge(evidence_of(tape, forward=15.0))


def test_a_replay_faster_than_a_busy_run_is_scaled_up(monkeypatch: pytest.MonkeyPatch) -> None:
    gains(monkeypatch, lambda program: 20.0 if program.changes else 0.0)
    tape = record(step)
    evidence = evidence_of(tape, forward=150.0)
    for op in tape.ops:
        op.nanoseconds = 200_000_000 // len(tape.ops)
    finding = NonContiguous().judge(evidence)[0]
    assert finding.saves_ms is not None
    assert finding.spread_ms is not None
    assert finding.saves_ms == pytest.approx(20.0 * 150 / 60)
    # What was replayed is within three spreads of what is told.
    assert 3 * finding.spread_ms == pytest.approx(finding.saves_ms - 20.0)
    assert finding.details[-1].rows[-1] == ("replayed, the same operations took less: all figures are times 2.50",)


def test_a_run_far_slower_than_the_replay_promises_no_more_than_was_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    gains(monkeypatch, lambda program: 20.0 if program.changes else 0.0)
    tape = record(step)
    evidence = evidence_of(tape, forward=348.0)
    for op in tape.ops:
        op.nanoseconds = 400_000_000 // len(tape.ops)
    finding = NonContiguous().judge(evidence)[0]
    assert (finding.saves_ms, finding.spread_ms) == (20.0, 0.5)
    told = "the operations took 5.8 times as long in the run"
    assert finding.details[-1].rows == ((f"{told}: the figures are those of the replay, the least that it saves",),)


def test_a_replay_that_is_a_small_part_of_the_step_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    gains(monkeypatch, lambda program: 20.0 if program.changes else 0.0)
    found = NonContiguous().judge(evidence_of(record(step), forward=60.0, other=100.0))
    assert found[0].saves_ms == 20.0
    told = "operations are 60.0 ms of 160.0 ms of a step; the rest is Python, or waiting for the device"
    assert found[0].details[-1].rows == ((told,),)


def test_the_warning_of_torch_is_attached(monkeypatch: pytest.MonkeyPatch) -> None:
    gains(monkeypatch, lambda program: 20.0 if program.changes else 0.0)
    evidence = evidence_of(record(step))
    evidence.warnings = [("Mixed memory format inputs detected", CodeLine("train.py", 7))] * 2
    detail = NonContiguous().judge(evidence)[0].details[-1]
    assert detail.rows == (("train.py:7", "Mixed memory format inputs detected"),)


def made_elsewhere() -> torch.Tensor:
    return torch.randn(4, 6).t()


def test_a_tensor_older_than_the_step_is_mended_once(monkeypatch: pytest.MonkeyPatch) -> None:
    gains(monkeypatch, lambda program: 20.0 if program.changes else 0.0)
    older = made_elsewhere()
    (finding,) = NonContiguous().judge(evidence_of(record(lambda: (batch + older).exp())))
    assert "that was made before the step" in finding.message
    assert "the copy made once" in finding.message
    assert finding.fix.splitlines() == [
        "tensor = tensor.contiguous()  # once, before the loop",
        "# or, if it comes from a NumPy array:",
        "array = np.ascontiguousarray(array)  # before torch.from_numpy(array)",
    ]
    assert finding.place is not None
    assert "(batch + older).exp()" in finding.place.source


def test_it_abstains_without_a_tape_steps_or_time() -> None:
    evidence = evidence_of(record(step))
    evidence.seconds_to_spend = 0.0
    with pytest.raises(Abstain, match="no time was given"):
        NonContiguous().judge(evidence)
    evidence = make_evidence()
    evidence.missing["tape"] = "torch.compile is in use"
    with pytest.raises(Abstain, match=r"torch\.compile is in use"):
        NonContiguous().judge(evidence)
    evidence = evidence_of(record(step))
    assert evidence.steps is not None
    evidence.steps = replace(evidence.steps, times=evidence.steps.times[:3])
    with pytest.raises(Abstain, match="3 undisturbed"):
        NonContiguous().judge(evidence)
