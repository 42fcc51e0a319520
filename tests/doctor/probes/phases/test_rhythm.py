"""What is written down and told later must come to the same as what is told at once: tried on loops of all kinds."""

from collections.abc import Callable
from contextlib import ExitStack, nullcontext, suppress
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cordwood.doctor.evidence.evidence import Evidence
from cordwood.doctor.probes.patches import Patches
from cordwood.doctor.probes.phases.loaders import LoopProbe
from cordwood.doctor.probes.phases.modules import ModuleProbe
from cordwood.doctor.probes.phases.passes import PassProbe
from cordwood.doctor.probes.phases.recorder import Recorder
from cordwood.doctor.probes.phases.rhythm import OFF
from cordwood.doctor.probes.phases.step_tracker import StepTracker

NEVER = 1 << 62
CLOCKS = ("clock", "rhythm", "loaders", "modules", "passes")


class Batches:
    """A loader of the user's own. One that keeps its iterator does as DataLoader does with persistent workers."""

    def __init__(self, loop: "Loop", keeps: bool) -> None:
        self._loop = loop
        self._kept = BatchIterator(loop) if keeps else None

    def __iter__(self) -> "BatchIterator":
        iterator = self._kept or BatchIterator(self._loop)
        iterator.over = False
        return iterator


class BatchIterator:
    def __init__(self, loop: "Loop") -> None:
        self._loop = loop
        self.over = False

    def __next__(self) -> str:
        self._loop.idle(3)
        self._loop.fetched()
        if self.over:
            raise StopIteration
        return "a batch"


class Loop:
    """A script's loop whose every call takes the time that it is told to take, watched by real hooks."""

    def __init__(self, *, in_rhythm: bool, heard_from: int = NEVER, keeps: bool = False) -> None:
        self.now = 0
        self.heard: list[tuple[int, int]] = []
        self.fetched: Callable[[], object] = lambda: None
        self._undone = ExitStack()
        for name in CLOCKS:
            self._undone.enter_context(patch(f"cordwood.doctor.probes.phases.{name}.perf_counter_ns", lambda: self.now))
        self.recorder = Recorder(Evidence(), self._hear)
        self.recorder.rhythm.is_allowed = in_rhythm
        self.recorder.tracker.heard_from = heard_from
        modules, passes, loops = ModuleProbe(self.recorder), PassProbe(self.recorder), LoopProbe(self.recorder)
        self.recorder.tracker.validation_ended = modules._validated
        self.call = modules.timing(self._work)
        self.call_and_do = modules.timing(lambda module, inside: inside())
        self.walk = passes.timing_backward(self._work)
        self.walk_and_fail = passes.timing_backward(self._fail)
        self.before, self.after = passes.before, passes.after
        self.nets = [torch.nn.PReLU(), torch.nn.PReLU(), torch.nn.ReLU()]
        self.optimizers = [torch.optim.SGD([torch.zeros(1)], lr=0.0) for _ in range(2)]
        patches = Patches()
        self._undone.callback(patches.undo)
        self.loaders = [Batches(self, keeps), Batches(self, keeps)]
        loops.install(patches, self.loaders[0])
        self.iterators = [iter(loader) for loader in self.loaders]

    def _hear(self, number: int) -> bool:
        self.heard.append((number, self.now))
        return False

    def __enter__(self) -> "Loop":
        return self

    def __exit__(self, *error: object) -> None:
        self.recorder.rhythm.leave()
        self._undone.close()

    def idle(self, nanoseconds: int) -> None:
        """The script does something of its own."""
        self.now += nanoseconds

    def _work(self, *arguments: Any) -> None:
        self.now += arguments[-1]

    def _fail(self) -> None:
        self.now += 2
        raise ZeroDivisionError

    def batch(self, which: int = 0) -> None:
        next(self.iterators[which])
        self.idle(1)

    def forward(self, which: int = 0, *, training: bool = True, gradients: bool = True) -> None:
        self.nets[which].training = training
        with nullcontext() if gradients else torch.no_grad():
            self.call(self.nets[which], 5)

    def backward(self) -> None:
        self.walk(7)

    def update(self, which: int = 0, inside: Callable[[], None] | None = None) -> None:
        self.before(self.optimizers[which], (), {})
        self.idle(11)
        if inside is not None:
            inside()
        self.after(self.optimizers[which], (), {})

    def step(self) -> None:
        self.batch()
        self.forward()
        self.backward()
        self.update()

    def accumulated(self) -> None:
        for _ in range(2):
            self.batch()
            self.forward()
            self.backward()
        self.update()

    def adversarial(self) -> None:
        self.batch()
        for which in range(2):
            self.forward(0, training=which == 0)
            self.forward(1)
            self.forward(2)
            self.backward()
            self.update(which)

    def with_closure(self) -> None:
        self.batch()
        self.update(0, inside=self._closure)

    def _closure(self) -> None:
        self.forward()
        self.backward()

    def without_loader(self) -> None:
        self.forward()
        self.backward()
        self.update()

    def without_module(self) -> None:
        self.batch()
        self.idle(2)
        self.backward()
        self.update()

    def with_teacher(self) -> None:
        self.batch()
        self.forward(1, training=False, gradients=False)
        self.forward()
        self.backward()
        self.update()

    def within_a_module(self) -> None:
        """A module that trains another one when it is called, for as many steps as it takes."""

        def train() -> None:
            for _ in range(6):
                self.step()

        self.call_and_do(self.nets[2], train)

    def validation(self) -> None:
        for _ in range(3):
            self.batch(1)
            self.forward(training=False, gradients=False)

    def end_of_epoch(self) -> None:
        self.iterators[0].over = True
        with suppress(StopIteration):
            self.batch()
        self.iterators[0] = iter(self.loaders[0])

    def failing(self) -> None:
        """A batch that is left out, since memory does not suffice for it."""
        self.batch()
        self.forward()
        with suppress(ZeroDivisionError):
            self.walk_and_fail()

    def disturbing(self) -> None:
        """A step whose batch was fetched under a profile."""
        self.fetched = self.recorder.tracker.disturb
        self.batch()
        self.fetched = lambda: None
        self.forward()
        self.backward()
        self.update()


KINDS = (
    "step",
    "accumulated",
    "adversarial",
    "with_closure",
    "without_loader",
    "without_module",
    "with_teacher",
    "within_a_module",
    "validation",
    "end_of_epoch",
    "failing",
    "disturbing",
)


def gone_through(pieces: list[tuple[str, int]], *, in_rhythm: bool, keeps: bool = False) -> tuple[Loop, int]:
    """The loop after so many of each piece, and how many events at most were written down and not told yet."""
    written = 0
    with Loop(in_rhythm=in_rhythm, keeps=keeps) as loop:
        for name, times in pieces:
            for _ in range(times):
                getattr(loop, name)()
                loop.idle(1)
                written = max(written, len(loop.recorder.rhythm.times))
    return loop, written


def seen_by(loop: Loop) -> dict[str, Any]:
    """All that rules could read of it."""
    tracker, evidence = loop.recorder.tracker, loop.recorder.evidence
    steps = tracker.finish()
    return {
        "times": None if steps is None else steps.times.tolist(),
        "numbers": None if steps is None else steps.numbers.tolist(),
        "left out": None if steps is None else steps.left_out,
        "first waits": None if steps is None else steps.first_waits.tolist(),
        "count": tracker.count,
        "batches": tracker.batches,
        "loaders": [(seen.batches, seen.epochs, seen.is_training) for seen in evidence.loaders],
        "modules": [seen.training_calls for seen in loop.recorder.watched.modules],
        "validation": [
            (seen.batches, seen.milliseconds, seen.with_gradients, seen.in_train_mode) for seen in evidence.validation
        ],
        "missing": evidence.missing,
    }


@given(
    st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from((1, 2, 6, 40))), min_size=1, max_size=6), st.booleans()
)
def test_a_loop_in_rhythm_is_seen_as_it_is_without(pieces: list[tuple[str, int]], keeps: bool) -> None:
    pieces = [("step", 12), *pieces]
    with_rhythm, _ = gone_through(pieces, in_rhythm=True, keeps=keeps)
    without, written = gone_through(pieces, in_rhythm=False, keeps=keeps)
    assert written == 0
    assert not with_rhythm.recorder.evidence.missing
    assert seen_by(with_rhythm) == seen_by(without)


def test_steps_that_are_alike_are_written_down_and_told_in_time() -> None:
    for kind, events in (("step", 8), ("accumulated", 14), ("without_loader", 6), ("with_closure", 8)):
        loop, written = gone_through([(kind, 300)], in_rhythm=True)
        assert 255 * events < written <= 256 * events, kind
        steps = loop.recorder.tracker.finish()
        assert steps is not None
        assert len(np.unique(steps.times[3:], axis=0)) == 1, kind


@pytest.mark.parametrize("keeps", [False, True])
def test_the_first_step_of_an_epoch_is_all_that_goes_the_long_way(keeps: bool) -> None:
    with Loop(in_rhythm=True, keeps=keeps) as loop:
        for _ in range(3):
            for _ in range(20):
                loop.step()
            loop.validation()
            loop.end_of_epoch()
        written = []
        for _ in range(4):
            loop.step()
            written.append(len(loop.recorder.rhythm.times))
    assert written == [0, 8, 16, 24]


def test_somebody_who_listens_hears_of_the_very_step() -> None:
    ends = []
    with Loop(in_rhythm=True, heard_from=100) as loop:
        for _ in range(102):
            loop.step()
            ends.append(loop.now)
    assert loop.heard == [(100, ends[100])]


def test_something_raised_between_an_event_and_its_time_costs_that_step_only() -> None:
    with Loop(in_rhythm=True) as loop:
        for _ in range(40):
            loop.step()
        assert loop.recorder.rhythm.at != OFF
        loop.recorder.rhythm.times.append(loop.now)
        for _ in range(40):
            loop.step()
    assert not loop.recorder.evidence.missing
    assert 78 <= loop.recorder.tracker.count <= 80


def test_a_tracker_that_fails_is_told_of_and_the_script_goes_on() -> None:
    left = []
    with Loop(in_rhythm=True) as loop:
        loop.recorder.leave = lambda: left.append(True)
        for _ in range(40):
            loop.step()
        with patch.object(StepTracker, "repeat", side_effect=ZeroDivisionError):
            loop.validation()
    assert left
    assert "ZeroDivisionError" in loop.recorder.evidence.missing["steps"]
