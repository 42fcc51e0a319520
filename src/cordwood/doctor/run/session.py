"""``cw.diagnose``: attaches probes, lets the user's training run, detaches the probes, and runs the rules.

    with cw.diagnose() as d:
        train()
    print(d.report)
    d.report.save("report.html")

While it runs, phases are timed in every step and deep probes watch a few; rules come afterwards, so that training is
never in their way. Everything is undone at the end, or after ``steps`` steps.
"""

import os
import threading
import warnings
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any

from torch import nn

from cordwood.common import PACKAGE
from cordwood.common.arguments import whole_number
from cordwood.common.forks import in_child
from cordwood.common.text import counted
from cordwood.doctor.evidence.evidence import Evidence
from cordwood.doctor.evidence.places import user_place
from cordwood.doctor.measure.environment import describe_environment
from cordwood.doctor.probes.deep.base import DeepProbe
from cordwood.doctor.probes.patches import Patches
from cordwood.doctor.probes.phases.compiles import CompileProbe
from cordwood.doctor.probes.phases.loaders import LoopProbe
from cordwood.doctor.probes.phases.modules import ModuleProbe
from cordwood.doctor.probes.phases.passes import PassProbe, TransferProbe
from cordwood.doctor.probes.phases.recorder import Recorder
from cordwood.doctor.probes.phases.saves import SaveProbe
from cordwood.doctor.rules.judging import Progress, judge
from cordwood.doctor.run.temp_folder import Folder
from cordwood.errors import DoctorError, UsageError

if TYPE_CHECKING:
    from cordwood.doctor.report.report import Report

SECONDS = 20.0  # that a rule may spend on replays and trials
_NEVER = 1 << 62
_MEMORY_FORMATS = "memory format"
_DOCTOR = str(PACKAGE / "doctor") + os.sep
_attached = threading.Lock()
_current: "Session | None" = None


@in_child
def _silence_in_child() -> None:
    """A forked child has the parent's patches: they pass everything through from its first moment on."""
    if _current is not None:
        _current._recorder.clock.thread = None


def after_fork() -> None:
    """Take out what a forked child inherited of its parent's session, so that one of its own can begin."""
    if _current is not None:
        _current.abandon()


def _check(model: Any, loader: Any, seconds: Any) -> None:
    """Refuse what nothing could be watched by, before training begins."""
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds < float("inf"):
        raise UsageError(f"seconds is {seconds!r}, but a number of seconds is expected, 0 or more")
    if model is not None and not isinstance(model, nn.Module):
        raise UsageError(f"model is of type {type(model).__name__}, but a torch.nn.Module is expected, or None")
    if loader is not None and not hasattr(type(loader), "__iter__"):
        raise UsageError(
            f"loader is of type {type(loader).__name__}, which cannot be iterated: what gives the batches is expected"
        )


class Session:
    """A diagnosis of what the process does between `attach` and `detach`."""

    def __init__(
        self,
        *,
        model: Any = None,
        loader: Any = None,
        steps: int | None = None,
        seconds: float = SECONDS,
        script: str = "",
        path: str | None = None,
    ) -> None:
        _check(model, loader, seconds)
        self._model = model
        self._loader = loader
        self._steps = None if steps is None else whole_number("steps", steps, 1)
        self._script = script
        self._path = path
        self.evidence = Evidence(seconds_to_spend=seconds)
        self._patches = Patches()
        self._recorder = Recorder(self.evidence, self._step_ended)
        self._recorder.leave = self.detach
        self._modules = ModuleProbe(self._recorder)
        self._passes = PassProbe(self._recorder)
        self._deep: list[DeepProbe] = []
        self._pending_probes: list[DeepProbe] = []  # those that may want to see another step
        self._active_probes: list[DeepProbe] = []
        self._folder: Folder | None = None
        self._deep_seconds = 0.0
        self._is_attached = False
        self._started = 0.0

    @property
    def steps_seen(self) -> int:
        """Training steps so far."""
        return self._recorder.tracker.count

    @property
    def saw_all(self) -> bool:
        """Whether no step can have come after those that were watched."""
        return self._steps is None or self.steps_seen < self._steps

    def attach(self) -> None:
        """Begin to watch. One session at a time in a process."""
        if not _attached.acquire(blocking=False):
            raise UsageError("a diagnosis is under way already: end it before another one begins")
        global _current
        _current = self
        start = perf_counter()
        self._is_attached = True
        try:
            self._folder = Folder(self)
            self._install()
        except BaseException as error:
            self.detach()
            if isinstance(error, Exception):
                raise DoctorError(f"the doctor could not attach itself: {type(error).__name__}: {error}") from error
            raise
        self._started = perf_counter() - start

    def _install(self) -> None:
        from cordwood.doctor.probes.deep.all_deep import fetch_probe, make_deep_probes

        self.evidence.environment.update(describe_environment())
        loops = LoopProbe(self._recorder)
        loops.starts = self._modules.widen
        loops.install(self._patches, self._loader)
        self._modules.install(self._patches, self._model)
        self._passes.install(self._patches)
        TransferProbe(self._recorder).install(self._patches)
        SaveProbe(self._recorder).install(self._patches)
        CompileProbe(self._recorder, self._modules.only_from_outside).install(self._patches)
        self._patches.replace(warnings, "showwarning", self._noting_warnings(warnings.showwarning))
        self._deep = make_deep_probes()
        self._pending_probes = list(self._deep)
        if self._folder is not None:
            try:
                fetch_probe(self._patches, self._folder.path, self._recorder.tracker.disturb)
            except DoctorError as error:
                self.evidence.missing["fetches"] = str(error)

    def _noting_warnings(self, original: Any) -> Any:
        def showwarning(message: Any, category: Any, filename: str, lineno: int, *others: Any, **named: Any) -> None:
            if self._is_attached:
                if _MEMORY_FORMATS in str(message):
                    self.evidence.warnings.append((str(message), user_place()))
                if filename.startswith(_DOCTOR):  # a probe stood between the user's line and torch
                    place = user_place()
                    filename, lineno = (filename, lineno) if place is None else (place.file, place.line)
            original(message, category, filename, lineno, *others, **named)

        return showwarning

    def _step_ended(self, number: int) -> bool:
        """Called between two steps; whether the next one is disturbed."""
        start = perf_counter()
        if self._active_probes:
            self._end_active_probes(number)
        if self._steps is not None and number + 1 >= self._steps:
            self.detach()
            return False
        for probe in self._pending_probes:
            if probe.wants(number + 1):
                self._active_probes.append(probe)
        if not self._active_probes:
            self._retire_probes(number + 1)
            return False
        disturbed = any(probe.disturbs for probe in self._active_probes)
        for probe in list(self._active_probes):
            self._safely(probe, "begin", number + 1, self._recorder.watched)
        self._deep_seconds += perf_counter() - start
        return disturbed

    def _retire_probes(self, number: int) -> None:
        """Deep probes that have seen enough are not asked again; without any, nobody listens to the ends of steps."""
        self._pending_probes = [probe for probe in self._pending_probes if not probe.is_over(number)]
        if not self._pending_probes:
            self._recorder.tracker.heard_from = _NEVER if self._steps is None else self._steps - 1

    def _end_active_probes(self, number: int) -> None:
        for probe in reversed(self._active_probes):
            self._safely(probe, "end", number, self._recorder.watched)
        self._active_probes = []

    def _safely(self, probe: DeepProbe, what: str, *arguments: Any) -> None:
        try:
            getattr(probe, what)(*arguments)
        except Exception as error:
            self.evidence.missing[probe.signal] = f"the doctor's own probe failed: {type(error).__name__}: {error}"
            self._deep = [other for other in self._deep if other is not probe]
            self._pending_probes = [other for other in self._pending_probes if other is not probe]
            if what == "begin":
                self._active_probes.remove(probe)

    def detach(self) -> None:
        """Undo everything: from here on the script runs as if the doctor had never been there."""
        if not self._is_attached:
            self._passes.left_over()
            return
        self._is_attached = False
        with self._recorder.guarded("steps"):
            self._recorder.rhythm.leave()
        self._recorder.clock.thread = None
        if self._active_probes:
            self._end_active_probes(self._recorder.tracker.count)
        for probe in self._deep:
            self._safely(probe, "let_go")
        self._patches.undo()
        global _current
        _current = None
        _attached.release()

    def abandon(self) -> None:
        """Detach without looking back: a child process neither needs nor owns what its parent has seen."""
        self._active_probes, self._deep = [], []
        self._folder = None
        self.detach()

    def report(self, progress: Progress | None = None) -> "Report":
        """Detach, let the rules judge, and tell. Takes as long as replays and trials need."""
        from cordwood.doctor.report.report import build_report

        self.detach()
        start = perf_counter()
        self._gather()
        outcomes = judge(self.evidence, progress=progress)
        cost = self._cost()
        cost["analysis_seconds"] = perf_counter() - start
        cost["seconds_a_rule"] = self.evidence.seconds_to_spend
        report = build_report(self.evidence, outcomes, cost, self._script, path=self._path)
        # Workers that persist end with their loader: who has none left of his own is not to have ours.
        for seen in self.evidence.loaders:
            seen.loader = None
        return report

    def _gather(self) -> None:
        from cordwood.doctor.probes.deep.all_deep import collect_fetches

        tracker = self._recorder.tracker
        self.evidence.steps = tracker.finish()
        if self.evidence.steps is None:
            self.evidence.missing.setdefault("steps", "no optimizer was seen stepping")
        elif tracker.batches:
            self.evidence.micro_batches = tracker.batches / tracker.count
        if tracker.skipped_updates:
            self._recorder.note(f"the gradient scaler skipped {counted(tracker.skipped_updates, 'optimizer step')}")
        for probe in self._deep:
            try:
                probe.finish(self.evidence, self._recorder.watched)
            except Exception as error:
                self.evidence.missing[probe.signal] = f"the doctor's own probe failed: {type(error).__name__}: {error}"
        if self._folder is not None:
            try:
                self.evidence.fetches = collect_fetches(self._folder.path, self.evidence)
            except Exception as error:
                self.evidence.missing["fetches"] = f"the doctor's own probe failed: {type(error).__name__}: {error}"
            self._folder.remove()
            self._folder = None

    def _cost(self) -> dict[str, float]:
        """What the doctor itself took; its timers are measured beside a stand-in for a step."""
        from cordwood.doctor.run.own_cost import cost_of_timers

        tracker, clock = self._recorder.tracker, self._recorder.clock
        timers = cost_of_timers(clock.nested, tracker.count)
        watched, milliseconds = tracker.watched_closely()
        quiet = self.evidence.steps
        known = quiet is not None and len(quiet.times) > 0
        step = quiet.mean_ms if quiet is not None and known else 0.0
        extra = max(0.0, milliseconds - watched * step) if known else 0.0
        return {
            "timers_ms_per_step": timers,
            "share_of_steps": timers / step if step else 0.0,
            "deep_steps": watched,
            "deep_seconds": self._deep_seconds + extra / 1e3,
            "start_seconds": self._started,
        }


class diagnose:  # noqa: N801 - used as a function is
    """Watch what is trained inside the block, then tell where the time went and what to change.

        with cw.diagnose() as d:
            train()
        print(d.report)
        d.report.save("report.html")            # or .json, .txt

    Nothing needs to be given. ``model`` helps where the script never calls the module itself; ``loader`` where batches
    come from an iterable of your own; ``steps`` ends the watching after so many training steps, and ``seconds`` is
    what a rule may spend on replays and trials after the block. Results are the same, bit for bit, as without it.
    """

    def __init__(
        self, model: Any = None, loader: Any = None, steps: int | None = None, *, seconds: float = SECONDS
    ) -> None:
        self._session = Session(model=model, loader=loader, steps=steps, seconds=seconds)
        self._report: Report | None = None
        self._has_begun = False
        self._raised = ""  # what ended the block before it was done

    def __enter__(self) -> "diagnose":
        if self._has_begun:
            raise UsageError("this diagnosis has had its block: make another one, with cw.diagnose() as d, for another")
        self._session.attach()
        self._has_begun = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.detach()
        if kind is not None and not (isinstance(error, SystemExit) and not error.code):
            self._raised = kind.__name__

    @property
    def report(self) -> "Report":
        """The report; the first time it is asked for, rules judge, which takes some seconds."""
        if self._report is None:
            if not self._has_begun:
                raise UsageError("the report is there after the `with` block, and that has not begun: with d: train()")
            if self._session._is_attached:
                raise UsageError("the report is there after the `with` block: what it tells of is still under way")
            self._report = self._session.report()
            if self._raised:
                self._report.tell_end(f"the block ended with {self._raised}", all_seen=self._session.saw_all)
        return self._report
