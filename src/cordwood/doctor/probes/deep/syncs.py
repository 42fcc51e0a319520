"""Times every call that takes values out of a tensor, by the user's line: ``.item()``, ``.cpu()``, ``print(loss)`` ...

    probe = SyncProbe()
    ...
    probe.finish(evidence, watched)
    evidence.syncs.calls

On a device such a call waits for all work that was queued before it. On the CPU there is nothing to wait for; what is
left is the work of the call itself, as in printing a large tensor.
"""

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from time import perf_counter_ns
from types import CodeType
from typing import Any

import torch

from cordwood.doctor.evidence.evidence import Evidence, SyncCall, SyncsSeen
from cordwood.doctor.evidence.findings import CodeLine
from cordwood.doctor.evidence.places import place_of, user_frame
from cordwood.doctor.probes.deep.base import DeepProbe, WatchedScript
from cordwood.doctor.probes.patches import Patches

_STEPS = range(8, 40)
_MANY_CALLS = 50  # in a step: to time as many slows it, so it is one that was watched closely
_MOST_CLOSE_STEPS = 8
_TORCH = str(Path(torch.__file__).parent) + os.sep

# What the user writes, by the method that it comes down to.
_METHODS = {
    "item": ".item()",
    "tolist": ".tolist()",
    "numpy": ".numpy()",
    "cpu": ".cpu()",
    "nonzero": "nonzero()",
    "__bool__": "bool()",
    "__float__": "float()",
    "__int__": "int()",
    "__index__": "use as an index",
    "__array__": "conversion to NumPy",
    "__repr__": "printing",
    "__str__": "printing",
    "__format__": "printing",
}


class SyncProbe(DeepProbe):
    """Replaces those methods during a step by ones that take the time."""

    signal = "syncs"
    disturbs = False

    def __init__(self) -> None:
        self._patches = Patches()
        self._thread: int | None = None  # None: everything passes through
        self._is_inside = False
        self._step = 0
        self._steps: list[int] = []
        self._calls = 0  # in the step at hand
        self._close: set[int] = set()  # steps that nothing but this has slowed
        self._close_left = _MOST_CLOSE_STEPS
        self._seen: dict[tuple[CodeType | None, int, str, str], SyncCall] = {}
        self._is_compiled = False
        self._failure = ""

    def wants(self, step: int) -> bool:
        return step in _STEPS and self._close_left > 0 and not self._is_compiled

    def is_over(self, step: int) -> bool:
        return step > _STEPS[-1]

    def begin(self, step: int, watched: WatchedScript) -> None:
        if watched.compiled:
            # torch.compile looks at these methods: replaced ones would be compiled in another way.
            self._is_compiled = True
            return
        self._step, self._thread, self._is_inside, self._calls = step, watched.thread(), False, 0
        try:
            for name, written in _METHODS.items():
                self._replace(torch.Tensor, name, written, watched)
            self._replace(torch, "nonzero", "nonzero()", watched)
            if torch.accelerator.is_available():
                self._replace(torch.Tensor, "to", ".to()", watched)
        except BaseException:
            self._patches.undo()
            raise

    def end(self, step: int, watched: WatchedScript) -> None:
        self._patches.undo()
        if self._thread is not None:
            self._thread = None
            self._steps.append(step)

    def finish(self, evidence: Evidence, watched: WatchedScript) -> None:
        if self._is_compiled:
            evidence.missing[self.signal] = (
                "torch.compile is in use: calls that take values from tensors cannot be timed without changing what is "
                "compiled"
            )
            return
        if self._failure:
            evidence.missing[self.signal] = self._failure
            return
        steps = set(self._steps)
        if evidence.steps is not None:
            steps &= {int(number) for number in evidence.steps.numbers} | self._close
        if not steps:
            evidence.missing[self.signal] = "no undisturbed training step was left to watch for taken values"
            return
        calls = [_within(call, steps) for call in self._seen.values()]
        evidence.syncs = SyncsSeen(len(steps), [call for call in calls if call.by_step])

    def _replace(self, owner: Any, name: str, written: str, watched: WatchedScript) -> None:
        self._patches.replace(owner, name, self._timed(getattr(owner, name), written, watched))

    def _timed(self, original: Callable[..., Any], written: str, watched: WatchedScript) -> Callable[..., Any]:
        @functools.wraps(original)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._is_inside or get_ident() != self._thread:
                return original(*args, **kwargs)
            self._is_inside = True
            began = perf_counter_ns()
            try:
                result = original(*args, **kwargs)
                took = perf_counter_ns() - began
            finally:
                self._is_inside = False
            try:
                self._note(written, args[0] if args else kwargs.get("input"), result, took, watched)
            except Exception as error:  # the user's call has succeeded: it must not fail because of us
                self._thread, self._close_left = None, 0
                self._failure = f"watching for taken values failed: {error!r}"
            return result

        return timed

    def _note(self, written: str, tensor: Any, result: Any, took: int, watched: WatchedScript) -> None:
        frame = sys._getframe(2)
        # What torch does inside itself is not for the user to change, and neither is what the loader does.
        if frame.f_code.co_filename.startswith(_TORCH) or watched.phase() == "wait":
            return
        # A subclass may have its own ways with every attribute.
        plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
        device = tensor.device.type if plain else "cpu"
        if written == ".to()" and (device == "cpu" or result.device.type != "cpu"):
            return
        self._calls += 1
        if self._calls == _MANY_CALLS:
            self._close_left -= 1
            if watched.disturb():
                self._close.add(self._step)
        found = user_frame(frame)
        code, line = (None, 0) if found is None else (found.f_code, found.f_lineno)
        key = (code, line, written, device)
        call = self._seen.get(key)
        if call is None:
            place: CodeLine | None = None if code is None else place_of(code, line)
            call = self._seen[key] = SyncCall(place, written, device)
        call.calls += 1
        call.milliseconds += took / 1e6
        call.elements = max(call.elements, tensor.numel() if plain else 0)
        call.by_step[self._step] = call.by_step.get(self._step, 0.0) + took / 1e6


def _within(call: SyncCall, steps: set[int]) -> SyncCall:
    """The call as it was in these steps; the number of calls is scaled with them."""
    by_step = {step: ms for step, ms in call.by_step.items() if step in steps}
    calls = round(call.calls * len(by_step) / len(call.by_step))
    return SyncCall(
        call.place, call.operation, call.device, calls, sum(by_step.values()), elements=call.elements, by_step=by_step
    )
