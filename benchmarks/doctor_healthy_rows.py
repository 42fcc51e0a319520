"""Healthy scripts: how often the doctor says something that nobody needs to hear."""

import importlib.util
import tempfile
from pathlib import Path

from benchmarks.doctor_runs import above_information, examined, step_ms
from benchmarks.harness import Spread
from benchmarks.outcome import Outcome, Settings, Table
from tests.doctor.cases import HEALTHY

TITLE = "Healthy scripts"
KEYS = ("doctor-healthy",)
NEEDED = {"lightning_fit": "pytorch_lightning", "transformers_trainer": "transformers"}
SECONDS = 4.0


def measure(settings: Settings) -> Outcome:
    """Every script once; a finding above information level is one too many."""
    table = Table(
        TITLE,
        [("script", "text"), ("a step, ms", "ms"), ("findings above information", "text"), ("information", "text"),
         ("the verdict", "text")],
    )  # fmt: skip
    told = 0
    for script in HEALTHY:
        needed = NEEDED.get(script.stem)
        if needed and importlib.util.find_spec(needed) is None:
            table.notes.append(f"Not measured: {script.stem} needs the module {needed}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            report = examined(script, Path(folder), seconds=1.0 if settings.quick else SECONDS)
        if report["steps"] is None:
            told += 1
            table.add(script.stem, None, "no training step was seen", "", report["verdict"])
            continue
        loud = above_information(report)
        told += len(loud)
        table.add(
            script.stem,
            step_ms(report) / 1e3,
            ", ".join(finding["rule"] for finding in loud) or "none",
            ", ".join(finding["rule"] for finding in report["findings"] if finding not in loud) or "none",
            report["verdict"],
        )
    return Outcome([table], {KEYS[0]: Spread.exact(float(told))})
