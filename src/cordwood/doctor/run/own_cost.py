"""Measures what the doctor's own timers cost.

A loop that does nothing else would find all of their code in the caches, and tell a tenth of what they cost beside a
training step. So a stand-in for a step runs with and without them, in turns, and other memory is read in between.
"""

from collections.abc import Callable
from statistics import median
from time import perf_counter_ns
from typing import Any

import numpy as np
import torch

from cordwood.doctor.evidence.evidence import Evidence
from cordwood.doctor.probes.phases.loaders import LoopProbe
from cordwood.doctor.probes.phases.modules import ModuleProbe
from cordwood.doctor.probes.phases.passes import PassProbe
from cordwood.doctor.probes.phases.recorder import Recorder

_TURNS = 41
_NEVER = 1 << 62
_OTHER_BYTES = 8 << 20  # that are read between two turns: more than the caches next to a core hold


def cost_of_timers(nested: int, steps: int) -> float:
    """Milliseconds a step, where so many calls in all were passed through, beside one of each kind that is timed."""
    if not steps:
        return 0.0
    calls = round(nested / steps)
    bare, timed = _stand_in(calls, timed=False), _stand_in(calls, timed=True)
    other = np.zeros(_OTHER_BYTES, np.uint8)
    beyond = []
    for _ in range(_TURNS):
        took = []
        for step in (bare, timed):
            other.sum()
            begin = perf_counter_ns()
            step()
            took.append(perf_counter_ns() - begin)
        beyond.append(took[1] - took[0])
    return max(0.0, median(beyond) / 1e6)


def _stand_in(nested: int, *, timed: bool) -> Callable[[], None]:
    """A step that asks for a batch, calls a module, walks back and updates, and does nothing in all of these."""
    # This module has a parameter, and draws no random number for it: the user's are as they were.
    module, optimizer, batches = torch.nn.PReLU(), torch.optim.SGD([torch.zeros(1)], lr=0.0), _Batches()
    batch: Callable[..., Any] = _nothing
    inner = backward = before = after = batch

    def forward(model: Any) -> None:
        for _ in range(nested):
            inner(model)

    call: Callable[..., Any] = forward
    if timed:
        recorder = Recorder(Evidence(), lambda number: False)
        recorder.tracker.heard_from = _NEVER
        modules, passes = ModuleProbe(recorder), PassProbe(recorder)
        batch, backward = LoopProbe(recorder).timing_next(_nothing), passes.timing_backward(_nothing)
        inner, call = modules.timing(_nothing), modules.timing(forward)
        before, after = passes.before, passes.after

    def step() -> None:
        batch(batches)
        call(module)
        backward()
        before(optimizer, (), {})
        after(optimizer, (), {})

    return step


class _Batches:
    """Stands for a loader's iterator."""


def _nothing(*arguments: Any, **options: Any) -> None:
    return None
