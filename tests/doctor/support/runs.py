"""Run a script under the doctor, or bare, in a process of its own.

    seen = examined(path, tmp_path)     # `python -m cordwood doctor --json ... path`
    seen.code, seen.report["findings"], seen.losses
    bare(path, tmp_path)                # the same losses, bit for bit
    run_preloaded(["train.py"], tmp_path)

One thread each: with two on a machine of two cores, tests that run at the same time would wait for one another.
"""

import functools
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.doctor.support.preloaded import THREADS, Done, Preloaded

# That a rule may spend on trials and replays. A busy machine needs longer measurements for the same certainty, so a
# test that the measurement decides repeats it with more time.
SECONDS = (1, 5, 40)


@dataclass(frozen=True)
class Seen:
    """How a run under the doctor ended."""

    code: int
    report: dict[str, Any]
    text: str  # the report that was printed
    losses: str

    @property
    def findings(self) -> list[dict[str, Any]]:
        """Those above information level."""
        return [finding for finding in self.report["findings"] if finding["level"] != "info"]


def examined(script: Path, folder: Path, seconds: float = SECONDS[0]) -> Seen:
    """What the doctor finds in a script, run in this folder."""
    report = folder / "report.json"
    command = ["-m", "cordwood", "doctor", "--seconds", str(seconds), "--json", str(report), str(script)]
    done = run_preloaded(command, folder)
    assert report.exists(), f"no report; the exit code is {done.code}\n{done.output}\n{done.errors}"
    return Seen(done.code, json.loads(report.read_text()), done.errors, losses_of(done.output))


def bare(script: Path, folder: Path) -> str:
    """The losses of the script without the doctor."""
    done = run_preloaded([str(script)], folder)
    assert done.code == 0, f"{done.output}\n{done.errors}"
    return losses_of(done.output)


def losses_of(output: str) -> str:
    """The line with the final losses, exact to the bit."""
    lines = [line for line in output.splitlines() if line.startswith("final loss ")]
    assert len(lines) == 1, output
    return lines[0]


@functools.cache
def _python() -> Preloaded:
    return Preloaded()  # ends with this process, which holds the pipe to it


def run_preloaded(command: list[str], folder: Path) -> Done:
    """``python command`` in this folder, without the time that importing torch takes."""
    return _python().run(command, folder)


def run_python(command: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    """A new process, in this folder."""
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=os.environ | THREADS, capture_output=True, text=True, timeout=280
    )
