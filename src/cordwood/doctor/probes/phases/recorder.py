"""What all phase probes share: the clock, the step tracker, and the guarantee that the script goes on.

with recorder.guarded("steps"):
    ...                             # an exception in here is the doctor's own: noted, and the doctor leaves

What runs in every step writes the same as ``try`` and `broke`, which cost nothing while nothing is raised.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Any

from cordwood.doctor.evidence.evidence import FAILED, Evidence
from cordwood.doctor.probes.deep.base import WatchedScript
from cordwood.doctor.probes.phases.clock import PhaseClock
from cordwood.doctor.probes.phases.rhythm import Rhythm
from cordwood.doctor.probes.phases.step_tracker import StepTracker


class Recorder:
    """The one place that phase probes report to."""

    __slots__ = ("_guards", "clock", "evidence", "leave", "rhythm", "tracker", "watched")

    def __init__(self, evidence: Evidence, ended: Callable[[int], bool]) -> None:
        self.evidence = evidence
        self.clock = PhaseClock()
        self.rhythm = Rhythm(self.clock)
        self.rhythm.broke = lambda error: self.broke("steps", error)
        self.tracker = StepTracker(self.clock, self.rhythm, ended)
        self.watched = WatchedScript(
            phase=self.clock.phase,
            thread=lambda: self.clock.thread,
            modules=evidence.modules,
            loaders=evidence.loaders,
            compiled=evidence.compiled,
            disturb=self.tracker.disturb,
        )
        self.leave: Callable[[], object] = lambda: None  # what undoes all patches
        self._guards: dict[str, Guard] = {}

    def guarded(self, signal: str) -> "Guard":
        """Around the doctor's own work inside the user's calls: what it raises never reaches the script."""
        guard = self._guards.get(signal)
        if guard is None:
            guard = self._guards[signal] = Guard(self, signal)
        return guard

    def note(self, text: str) -> None:
        """Something that the reader of the report should know."""
        if text not in self.evidence.notes:
            self.evidence.notes.append(text)

    def broke(self, signal: str, error: BaseException) -> None:
        """The doctor itself failed here: say so in the report, undo everything, let the script go on."""
        why = f"{FAILED}: {type(error).__name__}: {error}"
        self.evidence.missing[signal] = why
        self.note(
            f"{why}; it let go of the script after {self.tracker.count} steps, and tells what it had seen ({signal})"
        )
        self.leave()


class Guard:
    """A context manager without state of its own, so one serves all, also within itself."""

    __slots__ = ("_recorder", "_signal")

    def __init__(self, recorder: Recorder, signal: str) -> None:
        self._recorder = recorder
        self._signal = signal

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: TracebackType | None) -> bool:
        if error is None or not isinstance(error, Exception):
            return False
        self._recorder.broke(self._signal, error)
        return True
