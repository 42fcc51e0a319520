"""Runs all rules, one after another: each returns findings, passes, abstains or fails, with a reason.

    outcomes = judge(evidence)

A rule that breaks is told of and harms no other: what it would have said is missing, not "passed".
"""

import math
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from cordwood.doctor.evidence.findings import CURES_OF_WAITING, STARVED, Abstain, Finding, Rule
from cordwood.doctor.measure.quiet_stdout import nothing_on_stdout
from cordwood.doctor.rules import ALL_RULES

if TYPE_CHECKING:
    from cordwood.doctor.evidence.evidence import Evidence

Progress = Callable[[str, int, int], object]
Status = Literal["found", "passed", "abstained", "failed", "silenced"]
_ITERATORS, _WHOLE, _WORKERS = "iterator-per-batch", "whole-batches", "workers"
_MOST_OF_IT = 0.5  # of the waiting: a cure that saves less leaves the rest to be told of


@dataclass(frozen=True)
class Outcome:
    """What came of one rule."""

    rule: Rule
    status: Status
    why: str = ""
    findings: tuple[Finding, ...] = ()


def judge(
    evidence: "Evidence", rules: Sequence[type[Rule]] = ALL_RULES, progress: Progress | None = None
) -> list[Outcome]:
    """Ask every rule. Random generators are as before afterwards, whatever rules replay; what the user's code prints
    when it is called once more is not shown; Ctrl-C ends the judging.

    ``progress`` is told of each rule before it is asked, and how many there are: replays and trials take their time.
    """
    outcomes: list[Outcome] = []
    with _generators_kept(), nothing_on_stdout():
        try:
            for rule in rules:
                if progress is not None:
                    progress(rule.id, len(outcomes) + 1, len(rules))
                outcomes.append(_ask(rule(), evidence))
        except KeyboardInterrupt:
            # What was measured in hours is not lost with the trials: the rest is left out, and said so.
            left = rules[len(outcomes) :]
            outcomes += [Outcome(rule(), "abstained", "interrupted before it could judge") for rule in left]
    return _claimed_once(outcomes)


def _ask(rule: Rule, evidence: "Evidence") -> Outcome:
    try:
        findings = tuple(rule.judge(evidence))
    except Abstain as reason:
        return Outcome(rule, "abstained", str(reason))
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome(
            rule, "failed", f"{type(error).__name__}: {error} ({where.filename.rsplit('/', 1)[-1]}:{where.lineno})"
        )
    return Outcome(rule, "found" if findings else "passed", "", findings)


def _claimed_once(outcomes: list[Outcome]) -> list[Outcome]:
    """Waiting that a measured cure promises to save is not promised twice; where trials of cures show no gain, it is
    told as information: nothing that the doctor knows of would save it. Workers that save less than whole batches do
    are not worth it: whole batches leave them next to nothing to do."""
    cures = [outcome for outcome in outcomes if outcome.rule.id in CURES_OF_WAITING]
    cured = max((found.saves_ms or 0.0 for outcome in cures for found in outcome.findings), default=0.0)
    if any(outcome.rule.id == _ITERATORS and outcome.findings for outcome in cures):
        cured = math.inf  # the waiting is told with the very same cure, and that one is proven
    hopeless = len(cures) == len(CURES_OF_WAITING) and all(outcome.status == "passed" for outcome in cures)
    whole = max(
        (found.saves_ms or 0.0 for each in cures if each.rule.id == _WHOLE for found in each.findings), default=0.0
    )
    settle = {
        STARVED: lambda found: _settled(found, cured, hopeless),
        _WORKERS: lambda found: _information(found) if 0.0 < (found.saves_ms or 0.0) <= whole else found,
    }
    return [
        replace(outcome, findings=tuple(map(settle[outcome.rule.id], outcome.findings)))
        if outcome.rule.id in settle
        else outcome
        for outcome in outcomes
    ]


def _settled(found: Finding, cured_ms: float, hopeless: bool) -> Finding:
    if hopeless:
        return _information(found)
    if found.saves_ms is None or cured_ms < _MOST_OF_IT * found.saves_ms:
        return found
    return replace(found, saves_ms=None, spread_ms=None)


def _information(found: Finding) -> Finding:
    return replace(found, saves_ms=None, spread_ms=None, level="info")


@contextmanager
def _generators_kept() -> Iterator[None]:
    import random

    import numpy as np
    import torch

    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.get_rng_state()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(cpu)
        if devices is not None:
            torch.cuda.set_rng_state_all(devices)
