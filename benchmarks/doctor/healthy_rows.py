"""Healthy scripts: how often the doctor says something that nobody needs to hear."""

import importlib.util
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.doctor.runs import above_information, examined, step_ms
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.timing import Spread
from tests.doctor.scripts.cases import HEALTHY

TITLE = "Healthy scripts"
KEYS = ("doctor-healthy",)
NEEDED = {"lightning_fit": "pytorch_lightning", "transformers_trainer": "transformers"}
ROUNDS = 5
SECONDS = 4.0


def measure(settings: Settings) -> Outcome:
    """Every script some times; a finding above information level in any of them is one too many."""
    table = Table(
        TITLE,
        [("script", "text"), ("a step, ms", "ms"), ("findings above information", "text"), ("information", "text"),
         ("the verdict", "text")],
    )  # fmt: skip
    rounds = 1 if settings.quick else ROUNDS
    told = 0
    for script in HEALTHY:
        needed = NEEDED.get(script.stem)
        if needed and importlib.util.find_spec(needed) is None:
            table.notes.append(f"Not measured: {script.stem} needs the module {needed}")
            continue
        reports = [_report(script, 1.0 if settings.quick else SECONDS) for _ in range(rounds)]
        loud = [_loud(report) for report in reports]
        told += sum(map(len, loud))
        quiet = [[each["rule"] for each in report["findings"] if each["level"] == "info"] for report in reports]
        seen = [step_ms(report) / 1e3 for report in reports if report["steps"] is not None]
        verdicts = dict.fromkeys(report["verdict"] for report in reports)
        table.add(
            script.stem, Spread.of(seen) if seen else None, _counted(loud), _counted(quiet), "; or ".join(verdicts)
        )
    table.notes.append(f"Each script is run {rounds} times; a finding that came in some runs only says in how many.")
    return Outcome([table], {KEYS[0]: Spread.exact(float(told))})


def _report(script: Path, seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return examined(script, Path(folder), seconds=seconds)


def _loud(report: dict[str, Any]) -> list[str]:
    """What nobody needs to hear; a run that was not understood is no run that passed."""
    if report["steps"] is None:
        return ["no training step was seen"]
    return [finding["rule"] for finding in above_information(report)]


def _counted(rules: list[list[str]]) -> str:
    """The rules of all runs, each with the number of runs unless that is all of them."""
    runs = Counter(rule for each in rules for rule in dict.fromkeys(each))
    return ", ".join(f"{rule} ({n} of {len(rules)})" if n < len(rules) else rule for rule, n in runs.items()) or "none"
