"""``eval-without-no-grad``: validation that builds graphs without a backward pass."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from cordwood.common.numbers import milliseconds
from cordwood.common.text import human
from cordwood.doctor.evidence.evidence import Evidence, ValidationSeen
from cordwood.doctor.evidence.findings import MEDIUM_SHARE, Abstain, Finding, Rule, level_of_share
from cordwood.doctor.measure.pairs import Gain, measure_pair
from cordwood.doctor.replay.model import replayable_copy

_AT_LEAST = 2  # batches
_MOST = 0.5  # of them: a few that are unlike the rest are something else


class EvalWithoutNoGrad(Rule):
    """Replays a validation batch with and without gradients."""

    id = "eval-without-no-grad"
    title = "validation builds graphs"
    measures = (
        "Batches of a loader with forward passes and no backward pass are validation. It speaks if their outputs carry "
        "a graph, and replays one batch both ways to tell what `torch.no_grad()` saves in memory, and in time where "
        "that is at least 3% of a step and beyond three spreads: less depends on which memory is free just then."
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


@dataclass(frozen=True)
class Replayed:
    """A validation batch, with and without gradients."""

    kept_bytes: int  # by the graph, beside what is in memory anyway
    gain: Gain


def _finding(rule: str, seen: ValidationSeen, evidence: Evidence) -> Finding:
    replayed = _replayed(seen, evidence.seconds_to_spend)
    told, saves, spread, level = "", None, None, level_of_share(MEDIUM_SHARE)
    if replayed is not None and replayed.kept_bytes:
        told = f": {human(replayed.kept_bytes)} for each batch"
    if replayed is not None and evidence.steps is not None:
        gain = replayed.gain
        calls = max(seen.calls, seen.batches) / seen.batches
        a_step = seen.with_gradients * calls / max(evidence.steps.count, 1)
        share = gain.saves_ms * a_step / max(evidence.steps.mean_ms, 1e-9)
        if gain.is_sure and share >= MEDIUM_SHARE:
            told += f"; without, a batch takes {milliseconds(gain.after_ms)} in place of {milliseconds(gain.before_ms)}"
            saves, spread, level = gain.saves_ms * a_step, gain.spread_ms * a_step, level_of_share(share)
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
        verified="replay" if replayed is not None else "measured",
        level=level,
    )


def _replayed(seen: ValidationSeen, seconds: float) -> Replayed | None:
    """One batch with and without gradients; None if it cannot be run again: then the finding has fewer figures."""
    if seen.arguments is None or seconds <= 0:
        return None
    arguments, options = seen.arguments
    try:
        module = replayable_copy(seen.module, seen.arguments).eval()

        def run(gradients: bool) -> float:
            start = perf_counter()
            with torch.set_grad_enabled(gradients):
                result = module(*arguments, **options)
            del result  # on the clock: a graph that nobody walks back takes its time to be let go, too
            return 1e3 * (perf_counter() - start)

        kept = _bytes_kept(lambda: run(True), module, seen.arguments)
        return Replayed(kept, measure_pair(lambda: run(True), lambda: run(False), min(seconds, 2.0)))
    except Exception:  # whatever a user's module does when it is copied, or called outside its script
        return None


def _bytes_kept(call: Callable[[], object], module: torch.nn.Module, arguments: Any) -> int:
    """What a call keeps for a backward pass, beside parameters, buffers and its arguments."""
    there = [*module.parameters(), *module.buffers(), *tree_leaves(arguments)]
    storages = {_storage(tensor) for tensor in there if isinstance(tensor, torch.Tensor)}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if _storage(tensor) not in storages:
            kept[_storage(tensor)] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        call()
    return sum(kept.values())


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
