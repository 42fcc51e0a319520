"""The base class of deep probes, which watch a few sampled steps closely.

    class Counting(DeepProbe):
        signal = "counts"

        def wants(self, step): return step in (4, 7)
        def is_over(self, step): return step > 7
        def begin(self, step, watched): ...
        def end(self, step, watched): ...
        def finish(self, evidence, watched): evidence.counts = ...

A probe that raises is switched off, and the report says what is missing: the user's script goes on.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

from cordwood.doctor.evidence.evidence import Evidence, LoaderSeen, ModuleSeen


@dataclass
class WatchedScript:
    """What the session knows of the script, for deep probes to read."""

    phase: Callable[[], str]  # of the training thread, now: one of PHASES
    thread: Callable[[], int | None]  # the training thread's identity
    modules: list[ModuleSeen] = field(default_factory=list)
    loaders: list[LoaderSeen] = field(default_factory=list)
    compiled: list[str] = field(default_factory=list)  # what torch.compile was used on
    disturb: Callable[[], bool] = lambda: True  # the step at hand does not count; whether it had counted until then
    _optimizers: list["ref[Any]"] = field(default_factory=list, init=False)

    @property
    def optimizers(self) -> list[Any]:
        """Those that were seen stepping, and that the script still has."""
        return [optimizer for each in self._optimizers if (optimizer := each()) is not None]

    def note_optimizer(self, optimizer: Any) -> None:
        """One steps for the first time. It is not kept alive: some scripts make a new one for every few steps."""
        self._optimizers = [each for each in self._optimizers if each() is not None]
        self._optimizers.append(ref(optimizer))


class DeepProbe(ABC):
    """One thing to look at; begin and end come in pairs, in the training thread, at the borders of a step."""

    signal: str  # the attribute of Evidence that it fills
    disturbs: bool = False  # whether the steps that it watches must be left out of the statistics

    @abstractmethod
    def wants(self, step: int) -> bool:
        """Whether to watch this training step (counted from 0). Asked at the start of every step, so it is cheap."""

    def is_over(self, step: int) -> bool:
        """Whether it wants neither this step nor any later one, and need not be asked again."""
        return False

    @abstractmethod
    def begin(self, step: int, watched: WatchedScript) -> None:
        """The step begins."""

    @abstractmethod
    def end(self, step: int, watched: WatchedScript) -> None:
        """The same step has ended."""

    def let_go(self) -> None:
        """No step comes any more: end what runs beside the script. A report may be asked for later, or never."""
        return

    @abstractmethod
    def finish(self, evidence: Evidence, watched: WatchedScript) -> None:
        """All watching is over: fill the signal, or say in ``evidence.missing`` why there is none."""
