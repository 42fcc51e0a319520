"""Evidence made by hand, for tests of rules and reports that need no run.

evidence = make_evidence({"wait": 41.0, "forward": 10.0}, steps=60)
report = make_report([Finding(...)], evidence)
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cordwood.doctor.evidence.evidence import PHASES, Evidence, StepTimes
from cordwood.doctor.evidence.findings import Finding, Rule
from cordwood.doctor.report.report import Report, build_report
from cordwood.doctor.rules.judging import Outcome

COST = {
    "timers_ms_per_step": 0.012,
    "deep_steps": 5,
    "deep_seconds": 0.8,
    "start_seconds": 0.05,
    "analysis_seconds": 4.2,
    "share_of_steps": 0.0002,
}


def make_steps(count: int, jitter: float, phases: dict[str, float], first_waits: Sequence[float] = ()) -> StepTimes:
    """Steps whose phases take the given milliseconds, give or take `jitter` of them; always the same."""
    random = np.random.default_rng(7)
    means = np.array([phases.get(phase, 0.0) for phase in PHASES])
    times = means * (1 + jitter * random.standard_normal((count, len(PHASES))).clip(-3, 3))
    return StepTimes(
        times=times,
        count=count + 5,
        first_waits=np.array(first_waits, np.float64),
        numbers=np.arange(5, count + 5),
        left_out={"warm-up": 3, "watched closely": 2},
    )


def make_evidence(
    phases: dict[str, float] | None = None,
    *,
    steps: int = 60,
    jitter: float = 0.02,
    first_waits: Sequence[float] = (),
    **more: float,
) -> Evidence:
    """Evidence of a run with nothing but steps in it."""
    phases = {**(phases or {}), **more} or {
        "wait": 1.0,
        "forward": 20.0,
        "backward": 40.0,
        "optimizer": 4.0,
        "other": 1.0,
    }
    return Evidence(
        environment={"python": "3.11.2", "torch": "2.13.0", "cores": 2, "device": "cpu"},
        steps=make_steps(steps, jitter, phases, first_waits),
    )


class NamedRule(Rule):
    """A rule that has its texts and never says anything."""

    def __init__(self, name: str) -> None:
        self.id = name
        self.title = f"the title of {name}"
        self.measures = self.costs = self.wrong = self.cure = "Nothing."

    def judge(self, evidence: Evidence) -> list[Finding]:
        return []


def make_outcomes(findings: Sequence[Finding] = (), **others: dict[str, str]) -> list[Outcome]:
    """What the rules said: findings by their rules, and `passed`, `abstained` or `failed` rules with why."""
    by_rule: dict[str, list[Finding]] = {}
    for finding in findings:
        by_rule.setdefault(finding.rule, []).append(finding)
    outcomes = [Outcome(NamedRule(name), "found", "", tuple(found)) for name, found in by_rule.items()]
    for status, rules in others.items():
        outcomes += [Outcome(NamedRule(name), status, why, ()) for name, why in rules.items()]  # type: ignore[arg-type]
    return outcomes


def make_report(
    findings: Sequence[Finding] = (),
    evidence: Evidence | None = None,
    *,
    path: Path | None = None,
    cost: dict[str, Any] | None = None,
    **others: dict[str, str],
) -> Report:
    """The report of such a run."""
    others = others or {
        "passed": {"bloated-save": "1 save, nothing wasted"},
        "abstained": {"transfer": "no accelerator in use", "cudnn-benchmark": "no accelerator in use"},
    }
    return build_report(
        make_evidence() if evidence is None else evidence,
        make_outcomes(findings, **others),
        COST if cost is None else cost,
        "train.py --epochs 1",
        path=path,
    )
