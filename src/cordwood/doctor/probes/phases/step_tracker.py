"""Decides which parts of a run are training steps, from its batches, passes and optimizers.

    tracker.batch_wanted(seen)      # next() of a loader is called
    tracker.batch_came(seen, first)
    tracker.updates(id(optimizer))

A step ends where the loader is asked for a batch after an optimizer has stepped: so gradient accumulation, several
optimizers and closures need no special care. Without a loader it ends where an optimizer is about to step again.
Between two batches with forward passes and nothing learned lies validation.
"""

from array import array
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cordwood.doctor.evidence.evidence import PHASES, LoaderSeen, StepTimes
from cordwood.doctor.probes.phases.clock import WAIT, PhaseClock
from cordwood.doctor.probes.phases.rhythm import Rhythm

_WARM_UP = 3
_MOST_ROWS = 20_000
_RARE = 3  # steps for one with validation within
_SETTLED = 8  # steps, before any is taken to be like those before it
_MOSTLY = 2  # times as many
_STEPS_ON_ONE_BATCH = 64  # more of them: somebody trains on one batch, so optimizers tell the steps
_QUIET, _FIRST, _DISTURBED, _WARMING, _LATE = range(5)
_NO_END = "end not seen"
_WHY = {
    _FIRST: "with the first batch of an epoch",
    _DISTURBED: "watched closely",
    _WARMING: "warm-up",
    _LATE: "beginning not seen",
}


class StepTracker:
    """Cuts the clock's time into steps. ``ended`` is called with the number of each step that is over.

    Who tells it of something has it told first of what was only written down: see `Rhythm`.
    """

    __slots__ = (
        "_asked",
        "_batches",
        "_before_validation",
        "_clock",
        "_first_waits",
        "_forwards",
        "_has_begun",
        "_has_learned_since",
        "_is_exhausted",
        "_is_first",
        "_is_late",
        "_kinds",
        "_learns",
        "_may_learn",
        "_numbers",
        "_optimizers",
        "_repeated",
        "_rhythm",
        "_rows",
        "_stride",
        "_updates",
        "_validates",
        "_validations",
        "batches",
        "count",
        "ended",
        "heard_from",
        "is_disturbed",
        "settled_at",
        "skipped_updates",
        "stretch",
        "validation_ended",
        "without_forward",
    )

    def __init__(self, clock: PhaseClock, rhythm: Rhythm, ended: Callable[[int], bool]) -> None:
        self._clock = clock
        self._rhythm = rhythm
        rhythm.tracker = self
        self._repeated = 0  # one more than the batches of the step that ended last, if others may be like it
        self.ended = ended
        self.heard_from = 0  # the first step at whose end it is to be called
        self.settled_at = _SETTLED  # the first step after which others are taken to be like those before them
        self._rows = array("q")
        self._numbers = array("q")
        self._kinds = array("b")
        self._stride = 1  # every which step is kept: grows in long runs, so that memory does not
        self._first_waits: list[tuple[LoaderSeen | None, int]] = []
        self.count = 0
        self.batches = 0  # that training took
        self.is_disturbed = True  # the first step of all is never whole
        self.skipped_updates = 0  # by a gradient scaler
        # Told the milliseconds, and whether only the modules in eval mode were validated.
        self.validation_ended: Callable[[float, bool], object] = lambda milliseconds, in_eval_mode: None
        self.without_forward: Callable[[], object] = lambda: None  # a step or a batch had no call of a module
        self._has_begun = False
        self._is_first = False
        self._optimizers: set[int] = set()
        self._updates = 0
        self._batches = 0
        self._learns = False  # there was a backward pass since the last border
        self._forwards = 0
        self._may_learn = False  # one of them in train mode with gradients on
        self._asked: list[LoaderSeen] = []  # for batches, since the last border
        self._is_late = False  # the step at hand began when no loader gave a batch any more
        self.stretch = 0  # of time between two borders, counted
        self._is_exhausted = False  # the last thing that was heard of a loader is its end
        self._before_validation: list[int] | None = None  # what was spent before validation within a step
        self._has_learned_since = False
        self._validates = False  # within this step
        self._validations = 0  # within steps, so far

    @property
    def stepped(self) -> int:
        """Training steps so far, with the one at hand if its optimizer has stepped."""
        return self.count + bool(self._optimizers)

    def batch_wanted(self, seen: LoaderSeen | None) -> None:
        """A loader is asked for a batch: here steps begin and end."""
        self._rhythm.leave()
        if self._optimizers and (self._batches or self._is_late):
            self._end_step()
        elif self._optimizers or not self._goes_on(seen):
            self._end_something_else()
        self._has_begun = True
        self._is_exhausted = False
        if seen is not None and seen not in self._asked:
            self._asked.append(seen)

    def _goes_on(self, seen: LoaderSeen | None) -> bool:
        """Whether this is one batch of several before the optimizer steps."""
        if self._forwards:
            return self._learns or (self._may_learn and self.is_for_training())
        # Several loaders may give a batch each; one that gives two, and nothing is done with them, is only read.
        return self._learns or (self._batches > 0 and seen not in self._asked)

    def batch_came(self, seen: LoaderSeen | None, first: bool, nanoseconds: int) -> None:
        """A batch has arrived; `nanoseconds` is the waiting with the loader's start, for first batches."""
        self._batches += 1
        if seen is not None:
            seen.batches += 1
        if first:
            self._is_first = True
            if len(self._first_waits) < _MOST_ROWS:
                self._first_waits.append((seen, nanoseconds))

    def exhausted(self) -> None:
        """A loader had no batch left: what comes now is not fed by it."""
        self._rhythm.leave()
        self._batches = 0
        self._asked.clear()
        self._is_exhausted = True

    def forward(self, may_learn: bool, validates: bool = False) -> None:
        """A module is called; ``validates``: one that training knows, now in eval mode."""
        self._rhythm.leave()
        self._forwards += 1
        if may_learn:
            self._may_learn = True
            if self._before_validation is not None:
                self._end_validation()
        elif validates and not self._validates:
            self._validates = True
            self._validations += 1
            # What is done in every step belongs to it.
            if _RARE * self._validations <= self.count + _RARE:
                self._before_validation = self._clock.so_far()
                self._has_learned_since = False

    def _end_validation(self) -> None:
        """Validation in the midst of a step takes nothing of it."""
        before, self._before_validation = self._before_validation, None
        if before is not None:
            milliseconds = (sum(self._clock.take()) - sum(before)) / 1e6
            self._clock.spent = before
            if not self._has_learned_since:  # else gradients were wanted, as attacks and saliency maps do
                self.validation_ended(milliseconds, True)

    def backward(self) -> None:
        """A backward pass begins."""
        self._rhythm.leave()
        self._learns = self._has_learned_since = True
        for seen in self._asked:
            seen.is_training = True

    def updates(self, key: int) -> None:
        """The optimizer with this id is about to step."""
        self._rhythm.leave()
        if self._has_learned_since:
            self._before_validation = None  # no validation: a model that is trained in eval mode
        self._updates += 1
        if not self._has_begun:
            # Nobody knows where this step began: it is not one of those that are counted.
            self._clock.take()
            self._forget()
            self._has_begun = True
        elif self._is_exhausted:
            # Some loaders fetch a batch ahead, and the last one is trained on after their end.
            self._is_late, self._is_exhausted = True, False
        elif key in self._optimizers and (not self._batches or self._updates > _STEPS_ON_ONE_BATCH):
            self._end_step()
        if self._clock.thread is not None:  # else the end of that step was the end of watching
            self._optimizers.add(key)

    def disturb(self) -> bool:
        """Something of the doctor's slows the step at hand: it does not count. Whether it had counted until now."""
        if not self._clock.is_training_thread():  # it slows a loader that reads ahead
            return False
        self._rhythm.leave()
        counted, self.is_disturbed = not self.is_disturbed, True
        return counted

    def finish(self) -> StepTimes | None:
        """The steps that nothing disturbed; None if no step was seen at all."""
        self._rhythm.leave()
        open_at_end = self._count_last()
        if not self.count:
            return None
        self._resolve()
        rows = np.frombuffer(self._rows, np.int64).reshape(-1, len(PHASES)) / 1e6 if self._rows else np.zeros((0, 6))
        kinds = np.frombuffer(self._kinds, np.int8) if self._kinds else np.zeros(0, np.int8)
        numbers = np.frombuffer(self._numbers, np.int64) if self._numbers else np.zeros(0, np.int64)
        quiet = kinds == _QUIET
        first = kinds == _FIRST
        if first.sum() > _MOSTLY * max(quiet.sum(), 1):  # epochs of a batch or two: first batches are the usual ones
            quiet = quiet | first
            kinds = np.where(first, _QUIET, kinds)
        left_out = {why: int((kinds == kind).sum()) for kind, why in _WHY.items() if (kinds == kind).any()}
        return StepTimes(
            times=rows[quiet].copy(),
            count=self.count,
            first_waits=np.array([ns for seen, ns in self._first_waits if seen is None or seen.is_training]) / 1e6,
            numbers=numbers[quiet].copy(),
            left_out=left_out | ({_NO_END: 1} if open_at_end else {}),
        )

    def _count_last(self) -> bool:
        """Whether an optimizer has stepped since the last border: that was a step, though nobody saw where it ends."""
        is_step = bool(self._optimizers) and bool(self._batches or self._is_late or not self.batches)
        if is_step:
            self.count += 1
            self.batches += self._batches
            self._forget()
        return is_step

    def watched_closely(self) -> tuple[int, float]:
        """How many steps the doctor slowed by looking closely, and all milliseconds of them."""
        width = len(PHASES)
        rows = [index for index, kind in enumerate(self._kinds) if kind == _DISTURBED]
        return len(rows), sum(sum(self._rows[row * width : (row + 1) * width]) for row in rows) / 1e6

    def _end_step(self) -> None:
        if self._before_validation is not None:
            self._end_validation()
        if not self._forwards:
            self.without_forward()
        row = self._clock.take()
        number = self.count
        is_plain = self._forwards and not (self._validates or self._is_first or self._is_late)
        self._repeated = 1 + self._batches if is_plain and self._clock.timeline is None else 0
        if number % self._stride == 0:
            self._keep(number, row)
        elif self._clock.timeline is not None:
            self._clock.timeline.discard()
        self.count += 1
        self.batches += self._batches
        self._forget()
        settled = number >= self.settled_at and self._clock.timeline is None
        self._rhythm.step_ended(self.heard_from - self.count if settled else 0)
        self.is_disturbed = False
        if number >= self.heard_from:
            self.is_disturbed = self.ended(number)
            # What the end of a step costs the doctor itself belongs to no step.
            self._clock.take()

    def can_repeat(self) -> bool:
        """Whether the step that ended last was one of many alike."""
        return self._repeated > 0

    def repeat(self, rows: NDArray[np.int64]) -> None:
        """So many more of them: a row each, of nanoseconds by phase. Who counts calls and batches is told elsewhere."""
        numbers = np.arange(self.count, self.count + len(rows))
        kept = numbers % self._stride == 0
        self._rows.frombytes(rows[kept].tobytes())
        self._numbers.frombytes(numbers[kept].tobytes())
        self._kinds.extend([_QUIET] * int(kept.sum()))
        self.count += len(rows)
        self.batches += len(rows) * (self._repeated - 1)
        self.stretch += len(rows)
        if len(self._kinds) >= _MOST_ROWS:
            self._thin_out()

    def _keep(self, number: int, row: list[int]) -> None:
        kind = _QUIET
        if number < _WARM_UP:
            kind = _WARMING
        elif self.is_disturbed:
            kind = _DISTURBED
        elif self._is_first:
            kind = _FIRST
        elif self._is_late:
            kind = _LATE
        timeline = self._clock.timeline
        if timeline is not None:
            timeline.close(len(self._kinds))
            self._resolve()
        self._rows.extend(row)
        self._numbers.append(number)
        self._kinds.append(kind)
        if len(self._kinds) >= _MOST_ROWS and timeline is None:
            self._thin_out()

    def _resolve(self) -> None:
        timeline = self._clock.timeline
        if timeline is None:
            return
        for row, spent in timeline.resolved():
            # Waiting for data is the host's: the device only idles then.
            start = row * len(PHASES)
            spent[WAIT] = self._rows[start + WAIT]
            self._rows[start : start + len(PHASES)] = array("q", spent)

    def _thin_out(self) -> None:
        self._stride *= 2
        keep = [index for index, number in enumerate(self._numbers) if number % self._stride == 0]
        width = len(PHASES)
        self._rows = array("q", (value for i in keep for value in self._rows[i * width : (i + 1) * width]))
        self._numbers = array("q", (self._numbers[i] for i in keep))
        self._kinds = array("b", (self._kinds[i] for i in keep))

    def _end_something_else(self) -> None:
        """What lies behind is no training: a validation batch, or whatever is done between epochs."""
        spent = self._clock.take()
        if self._clock.timeline is not None:
            self._clock.timeline.discard()
        if self._batches and self._forwards:
            self.validation_ended(sum(spent) / 1e6, False)
        elif self._batches:
            self.without_forward()
        self._rhythm.something_else_ended()
        self._forget()

    def is_for_training(self) -> bool:
        """Whether the batches at hand may be training's: nobody knows before the first step is over."""
        if not self.count or not self._asked:
            return True
        for seen in self._asked:  # noqa: SIM110 - it runs in every step, and a generator would be a call more
            if seen.is_training:
                return True
        return False

    def _forget(self) -> None:
        self._optimizers.clear()
        self._updates = self._batches = self._forwards = 0
        self._learns = self._may_learn = self._is_first = self._is_late = self._validates = False
        self.stretch += 1
        self._before_validation = None
        self._asked.clear()
