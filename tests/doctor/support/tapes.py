"""Tapes of steps that tests write down themselves.

tape = record(step)         # the step runs twice, as in a session: the second time is kept
"""

import threading
from collections.abc import Callable

import torch

from cordwood.doctor.evidence.evidence import Evidence
from cordwood.doctor.evidence.tape import Tape
from cordwood.doctor.probes.deep.base import WatchedScript
from cordwood.doctor.probes.deep.tape import STEPS, TapeProbe


def watch(step: Callable[[], object], times: int = 2, phase: Callable[[], str] = lambda: "forward") -> Evidence:
    """What is known after a step was watched so many times."""
    watched = WatchedScript(phase=phase, thread=threading.get_ident)
    probe = TapeProbe()
    for number in STEPS[:times]:
        probe.begin(number, watched)
        try:
            step()
        finally:
            probe.end(number, watched)
    evidence = Evidence()
    probe.finish(evidence, watched)
    return evidence


def record(step: Callable[[], object], times: int = 2) -> Tape:
    """The tape of a step."""
    tape = watch(step, times).tape
    assert tape is not None
    return tape


def record_passes(loss_of: Callable[[], torch.Tensor]) -> Tape:
    """The tape of a forward pass, up to a loss, and of the backward pass behind it, each in its phase."""
    phases = ["forward"]

    def step() -> None:
        loss = loss_of()
        phases[0] = "backward"
        loss.backward()

    tape = watch(step, 1, lambda: phases[0]).tape
    assert tape is not None
    return tape


def line_of(tape: Tape, source: str) -> int:
    """The line in the test's own file with this source, as an operation's place tells it."""
    return next(op.place.line for op in tape.ops if op.place is not None and source in op.place.source)
