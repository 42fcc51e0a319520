"""A script under the doctor, in a process of its own, as the command does it.

report = examined(path, folder, seconds=10)     # the report's document
step_ms(report)                                 # of a training step, epoch starts included
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.harness.timing import MismatchError

LONGEST = 600  # seconds


def examined(script: Path, folder: Path, *, seconds: float) -> dict[str, Any]:
    """What the doctor reports of a script that runs in this folder; rules may spend so many seconds on trials each."""
    target = folder / "report.json"
    target.unlink(missing_ok=True)
    command = [sys.executable, "-m", "cordwood", "doctor", "--quiet", "--seconds", str(seconds), "--json", str(target)]
    done = subprocess.run([*command, str(script)], cwd=folder, capture_output=True, text=True, timeout=LONGEST)
    if done.returncode not in (0, 1) or not target.exists():
        raise MismatchError(f"{script.name} under the doctor ended with {done.returncode}: {done.stderr[-2000:]}")
    report: dict[str, Any] = json.loads(target.read_text())
    return report


def step_ms(report: dict[str, Any]) -> float:
    """Milliseconds of a step: the median of stretches of the run, and what the beginning of an epoch adds."""
    steps = report["steps"]
    return float(steps["typical_ms"]) + float(steps["first_wait_ms_per_step"] or 0.0)


def validation_ms(report: dict[str, Any]) -> float:
    """Milliseconds of validation, shared out among the training steps."""
    validation = report["validation"] or {"milliseconds": 0.0}
    return float(validation["milliseconds"]) / max(1, int(report["steps"]["count"]))


def above_information(report: dict[str, Any]) -> list[dict[str, Any]]:
    """The findings that would make somebody change a script."""
    return [finding for finding in report["findings"] if finding["level"] != "info"]
