"""Runs checks one after another; whatever one of them raises, the next one runs.

    def tensors_stay_equal(setting: Setting) -> str:
        assert torch.equal(...), "what was found, and what was expected"
        return "a figure for the report"

A check passes when it returns, fails on AssertionError, is skipped on `SkippedCheck`, and any other exception is an
error.
"""

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch


class SkippedCheck(Exception):  # noqa: N818 - it is no error
    """The check makes no sense on this device; the message says why."""


@dataclass(frozen=True)
class Setting:
    """What a check works with: a device, a folder for its files, and texts that the report shows in full."""

    device: torch.device
    folder: Path
    texts: dict[str, str] = field(default_factory=dict)

    @property
    def copies_in_background(self) -> bool:
        """Whether Cordwood copies to this kind of device on a stream of its own."""
        return self.device.type not in ("cpu", "mps")

    def work(self, milliseconds: float) -> Callable[[], None]:
        """A function that queues work on the device which takes about that long; on the CPU, next to nothing."""
        side = 64 if self.device.type == "cpu" else 1024
        left = torch.rand(side, side, device=self.device)
        out = torch.empty_like(left)
        torch.mm(left, left, out=out)  # the first call loads libraries
        one = self.timed(lambda: [torch.mm(left, left, out=out) for _ in range(10)]) / 10
        count = 1 if self.device.type == "cpu" else max(1, round(milliseconds / one))

        def queue() -> None:
            for _ in range(count):
                torch.mm(left, left, out=out)

        return queue

    def timed(self, function: Callable[[], object]) -> float:
        """Milliseconds until the device has done what the function queues."""
        self.wait()
        began = time.perf_counter()
        function()
        self.wait()
        return (time.perf_counter() - began) * 1e3

    def wait(self) -> None:
        """Until the device has done everything."""
        if self.device.type != "cpu":
            torch.accelerator.synchronize(self.device)


Check = Callable[[Setting], str]
Verdict = Literal["PASS", "FAIL", "SKIP", "ERROR"]


@dataclass(frozen=True)
class CheckResult:
    """What came of one check."""

    name: str
    verdict: Verdict
    note: str  # a figure, or in one line what is wrong
    seconds: float
    trace: str = ""

    def __str__(self) -> str:
        return f"{self.verdict:5} {self.seconds:6.1f} s  {self.name}" + (f": {self.note}" if self.note else "")


def run_checks(
    checks: Sequence[Check], setting: Setting, tell: Callable[[str], object] = lambda line: None
) -> list[CheckResult]:
    """Run them all; each is named before it begins, so that one that hangs is known."""
    results = []
    for check in checks:
        tell(f"... {check.__name__}")
        results.append(_run(check, setting))
        tell(str(results[-1]))
    return results


def _run(check: Check, setting: Setting) -> CheckResult:
    began = time.perf_counter()
    verdict: Verdict = "PASS"
    trace = ""
    try:
        note = check(setting)
    except SkippedCheck as reason:
        verdict, note = "SKIP", str(reason)
    except Exception as error:
        verdict = "FAIL" if isinstance(error, AssertionError) else "ERROR"
        said = str(error).strip()
        note = (said.splitlines()[0] if said else "") if verdict == "FAIL" else f"{type(error).__name__}: {said:.200}"
        trace = traceback.format_exc()
    return CheckResult(check.__name__, verdict, " ".join(note.split()), time.perf_counter() - began, trace)
