"""Buffers the events of steps that are like the ones before, and passes them to the tracker together.

    # in a hook
    at = rhythm.at
    if rhythm.expected[at] == token:        # what comes here in every step: write the time down, and no more
        rhythm.times.append(perf_counter_ns())
        rhythm.at = rhythm.following[at]
    else:                                   # the long way
        tracker.backward()                  # ... which catches up first: rhythm.leave()
        rhythm.begin(token, BACKWARD, tracker.backward)

To follow a step takes some thirty calls. In a tight loop that is nothing; beside a step that fills the caches with its
own data each of them costs microseconds. Nearly all steps are like the one before, though, event by event, and what
the tracker makes of them can wait. An event that is not the expected one ends the rhythm: all that was written down is
told to the tracker first, at the times that were written, so that it never knows less than it would have. Hooks have
these few lines each for themselves, since a call would take longer than they do.
"""

from collections.abc import Callable
from itertools import cycle, islice
from time import perf_counter_ns
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cordwood.doctor.evidence.evidence import PHASES
from cordwood.doctor.probes.phases.clock import PhaseClock

OFF = 0  # where `at` is when nothing is expected
END = -1  # the token of leaving what the latest other event began
_FEWEST_ALIKE = 4  # steps in a row before the next is expected to be like them
_MOST_EVENTS = 256  # of a step
_MOST_STEPS = 256  # that are written down before they are told


class Event(NamedTuple):
    """What happens in a step, and how the tracker is told of it."""

    phase: int  # from here on
    tell: Callable[..., object] | None
    arguments: tuple[Any, ...]
    counted: Callable[[int], object] | None  # told how often it happened, where many steps are told of at once


class Tracker(Protocol):
    """Who is told of whole steps."""

    def can_repeat(self) -> bool:
        """Whether the step that ended last was one of many alike."""

    def repeat(self, rows: NDArray[np.int64]) -> None:
        """So many more of them: a row each, of nanoseconds by phase."""


class Rhythm:
    """What is expected of a step, and what came of it. Hooks keep the lists: they stay the same objects."""

    __slots__ = (
        "_alike",
        "_clock",
        "_events",
        "_is_telling",
        "_is_told",
        "_last",
        "_moment",
        "_pattern",
        "_tokens",
        "at",
        "broke",
        "expected",
        "following",
        "is_allowed",
        "most",
        "times",
        "tracker",
    )

    def __init__(self, clock: PhaseClock) -> None:
        self._clock = clock
        self.tracker: Tracker | None = None  # who knows how to add steps that are alike; None: all are told one by one
        self.broke: Callable[[Exception], object] = lambda error: None  # the tracker failed: told outside of any call
        self.is_allowed = True
        self.at = OFF
        self.expected: list[int | None] = [None]  # tokens of a step's events, behind one that no event has
        self.following = [OFF]  # where `at` goes from each place
        self.times: list[int] = []  # of the events since the rhythm began
        self.most = 0  # times to write down before the tracker is told
        self._pattern: list[Event] = []
        self._tokens: list[int] = []  # of the step at hand, while it goes the long way
        self._events: list[Event] = []
        self._last: list[int] = []  # tokens of the step before it
        self._alike = 0  # steps in a row
        self._is_telling = False
        self._moment = 0  # the time on the clock while the tracker is told
        self._is_told = False  # the tracker knows of the first event that was written down

    def begin(
        self,
        token: int,
        phase: int,
        tell: Callable[..., object] | None = None,
        *arguments: Any,
        counted: Callable[[int], object] | None = None,
    ) -> int:
        """An event that the tracker has been told of: the phase begins. Returns the one before."""
        clock, at = self._clock, self.at
        if at != OFF and self.expected[at] == token:  # the tracker was told that a step ends, and the rhythm began
            before = clock.current
            clock.current = phase
            self.times.append(perf_counter_ns())
            self.at = self.following[at]
            return before
        self.leave()
        if len(self._tokens) <= _MOST_EVENTS:
            self._tokens.append(token)
            self._events.append(Event(phase, tell, arguments, counted))
        return clock.switch(phase)

    def step_ended(self, unheard: int) -> None:
        """A step is over, and nobody but the tracker wants to know of the ends of so many from here on."""
        if self._is_telling:
            return
        tokens, events = self._tokens, self._events
        self._alike = self._alike + 1 if tokens == self._last else 0
        self._last, self._tokens, self._events = tokens, [], []
        if self._alike + 1 < _FEWEST_ALIKE or len(tokens) > _MOST_EVENTS or unheard < 1 or not self.is_allowed:
            return
        self._pattern = events
        self.expected[:] = [None, *tokens]
        self.following[:] = [OFF, *range(2, len(tokens) + 1), 1]
        self.most = min(_MOST_STEPS, unheard) * len(tokens)
        self._is_told = True
        self.at = 1

    def something_else_ended(self) -> None:
        """What lies behind was no step: a validation batch, or whatever is done between epochs."""
        if not self._is_telling:
            self._tokens, self._events = [], []

    def renew(self, old: int, new: int) -> None:
        """Where the one token was, the other is expected from here on: a loader that starts again is another object."""
        self.leave()
        self._last = [new if token == old else token for token in self._last]

    def interrupt(self) -> None:
        """Something happened that cannot be told of later: begin anew to look for what comes in every step."""
        self.leave()
        self._tokens, self._events, self._last = [], [], []
        self._alike = 0

    def leave(self) -> None:
        """Tell the tracker of all that was written down. From here on it is told of events as they come."""
        at, self.at = self.at, OFF
        if at == OFF:
            return
        times, length = self.times[:], len(self._pattern)
        self.times.clear()
        begun = at - 1
        torn = len(times) % length != begun  # something was raised between an event and its time
        if torn:
            begun = 0
            del times[len(times) - len(times) % length :]
        try:
            self._tell(times)
        except Exception as error:
            self.broke(error)
        if times and not begun:
            begun = length  # a whole step, which is over with what comes next
        self._tokens = [token for token in self.expected[1 : begun + 1] if token is not None]
        self._events = self._pattern[:begun]
        if torn:
            self.interrupt()

    def _tell(self, times: list[int]) -> None:
        length, clock = len(self._pattern), self._clock
        clock.now = lambda: self._moment
        self._is_telling = True
        try:
            ended = (len(times) - 1) // length  # steps behind which another one began
            self._tell_one_by_one(times[: length + 1], 0)
            if ended > 1 and self.tracker is not None and self.tracker.can_repeat():
                self.tracker.repeat(self._rows(times[length : ended * length + 1]))
                for event in self._pattern:
                    if event.counted is not None:
                        event.counted(ended - 1)
                clock.since = times[ended * length]
                self._tell_one_by_one(times[ended * length + 1 :], 1)
            else:
                self._tell_one_by_one(times[length + 1 :], 1)
        finally:
            self._is_telling = False
            clock.now = perf_counter_ns

    def _tell_one_by_one(self, times: list[int], start: int) -> None:
        switch = self._clock.switch
        for moment, event in zip(times, islice(cycle(self._pattern), start, None), strict=False):
            self._moment = moment
            if event.tell is not None and not self._is_told:
                event.tell(*event.arguments)
            self._is_told = False
            switch(event.phase)

    def _rows(self, times: list[int]) -> NDArray[np.int64]:
        """Nanoseconds by phase of whole steps, which begin with these times; the last one is the end of the last."""
        moments = np.array(times, np.int64)
        spent = (moments[1:] - moments[:-1]).reshape(-1, len(self._pattern))
        rows = np.zeros((len(spent), len(PHASES)), np.int64)
        for column, event in enumerate(self._pattern):
            rows[:, event.phase] += spent[:, column]
        return rows
