"""Trials of layouts with given times: what is measured on top of what, and what there is no time for."""

import pytest
import torch

from cordwood.doctor.evidence.tape import Tape
from cordwood.doctor.measure.pairs import Gain
from cordwood.doctor.replay import layout_trial
from cordwood.doctor.replay.layout_trial import LayoutTrial
from cordwood.doctor.replay.layouts import suspects
from cordwood.doctor.replay.replay import Replay
from tests.doctor.support.evidences import make_steps
from tests.doctor.support.tapes import record

one, other = torch.randn(6, 4), torch.randn(6, 4)


@pytest.fixture
def tape() -> Tape:
    """Two transposed tensors; all operations took 60 ms in the run."""

    def step() -> None:
        first = one.t()
        second = other.t()
        first.exp()
        second.exp()

    tape = record(step)
    for op in tape.ops:
        op.nanoseconds = 60_000_000 // len(tape.ops)
    return tape


def saving(before: Replay, after: Replay, seconds: float) -> Gain:
    """The first change of 60 ms of operations saves 40, the second 5."""
    left = {0: 60.0, 1: 20.0, 2: 15.0}
    took, takes = left[len(before.changes)], left[len(after.changes)]
    return Gain(took - takes, 0.1, took, takes, 9)


def test_a_step_that_is_mended_in_part_is_not_taken_for_a_busy_machine(
    tape: Tape, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout_trial, "compare", saving)
    trial = LayoutTrial(tape, make_steps(20, 0.0, {"forward": 60.0}))
    first, second = trial.proofs(suspects(tape, [10.0] * len(tape.ops)), seconds=60.0)
    assert [first.gain.saves_ms, first.scale] == pytest.approx([40.0, 1.0])
    assert [second.gain.saves_ms, second.scale] == pytest.approx([5.0, 1.0])
    assert trial.not_tried == 0


def test_without_time_the_first_suspect_is_looked_at_and_the_others_are_counted(
    tape: Tape, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout_trial, "compare", saving)
    trial = LayoutTrial(tape, make_steps(20, 0.0, {"forward": 60.0}))
    proofs = trial.proofs(suspects(tape, [10.0] * len(tape.ops)), seconds=0.0)
    assert len(proofs) == 1
    assert trial.not_tried == 1


@pytest.mark.parametrize(("saved", "told"), [(5.0, False), (7.0, True)])
def test_a_convolution_must_save_a_tenth_of_a_step(saved: float, told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    images, weights = torch.randn(2, 5, 7, 3), torch.randn(4, 3, 3, 3)
    tape = record(lambda: torch.conv2d(images.transpose(1, 3), weights))
    for op in tape.ops:
        op.nanoseconds = 60_000_000 // len(tape.ops)
    monkeypatch.setattr(layout_trial, "compare", lambda *_: Gain(saved, 0.1, 60.0, 60.0 - saved, 9))
    trial = LayoutTrial(tape, make_steps(20, 0.0, {"forward": 60.0}))
    found = trial.proofs(suspects(tape, [30.0] * len(tape.ops)), seconds=60.0)
    assert bool(found) == told


@pytest.mark.parametrize(
    ("saved", "elsewhere", "told"),
    [(3.0, 2.5, 2.5), (3.0, 4.0, 3.0), (3.0, 1.0, None), (3.0, -1.0, None), (30.0, 1.0, 30.0)],
)
def test_a_little_gain_must_be_there_wherever_tensors_lie(
    saved: float, elsewhere: float, told: float | None, tape: Tape, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a step of 60 ms 1.8 must be saved; a gain that is twice that and more is not asked for again."""
    places: list[int] = []

    def compared(before: Replay, after: Replay, seconds: float) -> Gain:
        if id(before.leaves) not in places:
            places.append(id(before.leaves))
        gain = saved if places.index(id(before.leaves)) == 0 else elsewhere
        return Gain(gain, 0.1, 60.0, 60.0 - gain, 9)

    monkeypatch.setattr(layout_trial, "compare", compared)
    trial = LayoutTrial(tape, make_steps(20, 0.0, {"forward": 60.0}))
    (suspect, *_) = suspects(tape, [10.0] * len(tape.ops))
    found = trial.proofs([suspect], seconds=60.0)
    assert [proof.gain.saves_ms for proof in found] == ([] if told is None else pytest.approx([told]))
