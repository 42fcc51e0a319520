"""The clock that is always on: assigns each moment of the training thread to one phase of a step.

    before = clock.switch(FORWARD)
    ...
    clock.switch(before)
    row = clock.take()      # nanoseconds by phase since the last take

Phases nest, as when an optimizer calls a closure that runs the model: the inner one takes the time. Switching does as
little as it can, since it runs in every step of the user's training.
"""

from collections.abc import Callable
from itertools import pairwise
from threading import get_ident
from time import perf_counter_ns
from typing import Any

from cordwood.doctor.evidence.evidence import PHASES

WAIT, TRANSFER, FORWARD, BACKWARD, OPTIMIZER, OTHER = range(len(PHASES))


class PhaseClock:
    """Where the training thread is, and what it has spent there since the last `take`."""

    __slots__ = ("around", "current", "nested", "now", "since", "spent", "thread", "timeline")

    def __init__(self) -> None:
        self.now: Callable[[], int] = perf_counter_ns  # another one where events are told of later
        self.thread: int | None = get_ident()  # None: detached, everything passes through
        self.current = OTHER
        self.around: list[int] = []  # ids of optimizers at work, and the phase around each: some call another one
        self.spent = [0] * len(PHASES)
        self.since = perf_counter_ns()
        self.nested = 0  # calls that were only passed through
        self.timeline: DeviceTimeline | None = None

    def switch(self, phase: int) -> int:
        """The training thread begins something, or goes back to what it did before; returns the phase until now."""
        now = self.now()
        before = self.current
        self.spent[before] += now - self.since
        self.current = phase
        self.since = now
        if self.timeline is not None:
            self.timeline.mark(phase)
        return before

    def leave_optimizers(self) -> None:
        """None can be at work: one that raised never said that it ended."""
        self.around.clear()
        self.switch(OTHER)

    def take(self) -> list[int]:
        """Nanoseconds by phase since the last call."""
        now = self.now()
        self.spent[self.current] += now - self.since
        self.since = now
        taken, self.spent = self.spent, [0] * len(PHASES)
        return taken

    def so_far(self) -> list[int]:
        """What `take` would give; the clock goes on."""
        now = self.now()
        self.spent[self.current] += now - self.since
        self.since = now
        return list(self.spent)

    def phase(self) -> str:
        """The name of the phase that the training thread is in."""
        return PHASES[self.current]

    def is_training_thread(self) -> bool:
        """Whether the caller is the thread that trains, and the clock is on."""
        return get_ident() == self.thread


class DeviceTimeline:
    """The same phases on the device's own time: events in its stream, asked for later, so nothing waits.

    The host only launches work, so its times for forward and backward say little where there is a device. An event is
    put into the stream at each change of phase; between two of them lies what the device did, or its idling.
    """

    def __init__(self, make_event: Callable[[], Any]) -> None:
        self._make_event = make_event
        self._spare: list[Any] = []
        self._open: list[tuple[int, Any]] = []
        self._waiting: list[tuple[int, list[tuple[int, Any]]]] = []  # row, its marks

    def mark(self, phase: int) -> None:
        """From here on the device works for this phase."""
        event = self._spare.pop() if self._spare else self._make_event()
        event.record()
        self._open.append((phase, event))

    def close(self, row: int) -> None:
        """The step whose times are kept in this row ends here; the next one begins with the same mark."""
        if not self._open:
            return
        phase = self._open[-1][0]
        self.mark(phase)
        self._waiting.append((row, self._open))
        self._open = [self._open[-1]]

    def discard(self) -> None:
        """What was marked since the last `close` belongs to no step."""
        self._spare.extend(event for _, event in self._open[:-1])
        self._open = self._open[-1:]

    def resolved(self) -> list[tuple[int, list[int]]]:
        """Rows whose events have all come by, with the device's nanoseconds by phase."""
        done = []
        while self._waiting and self._waiting[0][1][-1][1].query():
            row, marks = self._waiting.pop(0)
            spent = [0] * len(PHASES)
            for (phase, start), (_, end) in pairwise(marks):
                spent[phase] += int(start.elapsed_time(end) * 1e6)
            self._spare.extend(event for _, event in marks[:-1])
            done.append((row, spent))
        return done


def device_timeline() -> DeviceTimeline | None:
    """The timeline of the CUDA device in use; None without one. Does not initialise CUDA."""
    import torch

    if not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return None
    return DeviceTimeline(lambda: torch.cuda.Event(enable_timing=True))
