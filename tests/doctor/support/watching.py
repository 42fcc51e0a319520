"""Drives a deep probe over training steps of a test, as a session does, and gives the evidence.

evidence = watch(SyncProbe(), step, steps=40)
"""

import threading
from collections.abc import Callable, Iterable

from cordwood.doctor.evidence.evidence import Evidence, ModuleSeen
from cordwood.doctor.probes.deep.base import DeepProbe, WatchedScript


def make_watched(
    phase: Callable[[], str] = lambda: "other", modules: Iterable[object] = (), optimizers: Iterable[object] = ()
) -> WatchedScript:
    """What a session would know of a script that trains in this thread."""
    identity = threading.get_ident()
    watched = WatchedScript(phase, lambda: identity, [ModuleSeen(module, None) for module in modules])
    for optimizer in optimizers:
        watched.note_optimizer(optimizer)
    return watched


def watch(
    probe: DeepProbe,
    step: Callable[[int], object],
    steps: int,
    watched: WatchedScript | None = None,
    evidence: Evidence | None = None,
) -> Evidence:
    """The evidence after so many steps."""
    watched = watched or make_watched()
    evidence = evidence or Evidence()
    for number in range(steps):
        wanted = probe.wants(number)
        if wanted:
            probe.begin(number, watched)
        step(number)
        if wanted:
            probe.end(number, watched)
    probe.finish(evidence, watched)
    return evidence
