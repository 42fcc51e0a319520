"""Validation that builds graphs which nobody walks back."""

import copy
from time import perf_counter
from typing import Any

import torch

from cordwood.doctor.evidence import Evidence, ValidationSeen
from cordwood.doctor.findings import Abstain, Finding, Rule
from cordwood.doctor.modelreplay import are_of_a_transform
from cordwood.doctor.pairs import Gain, measure_pair
from cordwood.doctor.wording import milliseconds

_AT_LEAST = 2  # batches
_MOST = 0.5  # of them: a few that are unlike the rest are something else


class EvalWithoutNoGrad(Rule):
    """Replays a validation batch with and without gradients."""

    id = "eval-without-no-grad"
    title = "validation builds graphs"
    measures = (
        "Batches of a loader with forward passes and no backward pass are validation. It speaks if their outputs carry "
        "a graph, and replays one batch both ways to tell what `torch.no_grad()` saves in time and memory."
    )
    costs = (
        "With gradients on, every layer keeps its inputs for a backward pass that never comes: memory as in training, "
        "so a smaller batch fits, and the time to fill that memory. A sum of losses keeps all graphs of the epoch."
    )
    wrong = (
        "Attacks and saliency maps need gradients in evaluation; these call backward, so their batches are not counted "
        "as validation."
    )
    cure = "Put `with torch.no_grad():` (or `torch.inference_mode()`) around the validation loop."

    def judge(self, evidence: Evidence) -> list[Finding]:
        if not evidence.validation:
            raise Abstain("no validation was seen: no loader's batches that nothing was learned from")
        findings = []
        for seen in evidence.validation:
            builds = seen.with_gradients >= max(_AT_LEAST, _MOST * seen.batches)
            if builds and any(p.requires_grad for p in seen.module.parameters()):
                findings.append(_finding(self.id, seen, evidence))
        return findings


def _finding(rule: str, seen: ValidationSeen, evidence: Evidence) -> Finding:
    gain = _replayed(seen, evidence.seconds_to_spend)
    steps = evidence.steps.count if evidence.steps is not None else 0
    told, saves, spread = "", None, None
    if gain is not None and gain.saves_ms > 3 * gain.spread_ms:
        before, after = milliseconds(gain.before_ms), milliseconds(gain.after_ms)
        told = f"; without, a batch takes {after} in place of {before}" if before != after else ""
        if steps:
            saves = gain.saves_ms * seen.with_gradients / steps
            spread = gain.spread_ms * seen.with_gradients / steps
    return Finding(
        rule=rule,
        message=(
            f"{seen.with_gradients} of {seen.batches} validation batches built a graph for a backward pass that never "
            f"comes, and kept every layer's inputs in memory for it{told}"
        ),
        fix="with torch.no_grad():\n    ...  # the validation loop",
        place=seen.place,
        saves_ms=saves,
        spread_ms=spread,
        verified="replay" if saves is not None else "measured",
        level="medium" if saves is None or evidence.steps is None or saves < 0.1 * evidence.steps.mean_ms else "high",
    )


def _replayed(seen: ValidationSeen, seconds: float) -> Gain | None:
    """One batch with and without gradients; None if it cannot be run again."""
    if seen.arguments is None or are_of_a_transform(seen.arguments) or seconds <= 0:
        return None
    try:
        module = copy.deepcopy(seen.module).eval()
    except Exception:  # whatever a user's module does when it is copied: no replay, no figure
        return None
    arguments, options = seen.arguments
    results: list[Any] = []

    def run(gradients: bool) -> float:
        start = perf_counter()
        with torch.set_grad_enabled(gradients):
            results.append(module(*arguments, **options))
        elapsed = perf_counter() - start
        results.clear()
        return 1e3 * elapsed

    return measure_pair(lambda: run(True), lambda: run(False), min(seconds, 2.0))
