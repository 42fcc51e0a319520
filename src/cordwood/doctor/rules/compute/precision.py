"""``precision``: matrix products and convolutions in float32 where the hardware has something faster."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from cordwood.common.numbers import milliseconds, percent
from cordwood.doctor.evidence.evidence import Evidence, ModuleSeen, StepTimes
from cordwood.doctor.evidence.findings import MEDIUM_SHARE, Abstain, Detail, Finding, Rule
from cordwood.doctor.evidence.tape import Tape
from cordwood.doctor.measure.hardware import has_bfloat16, tf32_is_off
from cordwood.doctor.measure.pairs import Gain
from cordwood.doctor.replay.model import Difference, Mode, ModelReplay

_HEAVY = (
    "aten::mm",
    "aten::addmm",
    "aten::bmm",
    "aten::baddbmm",
    "aten::linear",
    "aten::convolution",
    "aten::_convolution",
    "aten::mkldnn_convolution",
    "aten::cudnn_convolution",
    "aten::_scaled_dot_product",
)
_LOWER = (torch.bfloat16, torch.float16)
_LEAST_SPREAD = 0.1  # of the gain: the rest of a step runs beside the replayed passes, and changes with them
_MOST_MODULES = 3  # that are replayed: a generator, a discriminator ...


@dataclass(frozen=True)
class _Way:
    """Another precision to try."""

    name: str
    mode: Mode
    fix: str


class Precision(Rule):
    """Speaks where a replayed step is faster in another precision."""

    id = "precision"
    title = "float32 where the hardware has a faster format"
    measures = (
        "The matrix products and convolutions of a recorded step, by the types of what they work on: parameters stay "
        "float32 with autocast, too, and tell nothing. If all are float32, and the processor or device has bfloat16 or "
        "TF32, a forward and a backward pass of a copy of the model are replayed both ways, in turns, and the results "
        "compared."
    )
    costs = (
        "Hardware with units for bfloat16 or TF32 does several times as many products a second in these formats, and "
        "bfloat16 halves what is read and written."
    )
    wrong = (
        "Where results must be those of float32, stay there; the finding shows how far the loss, or the output, is "
        "apart. It is the one change here that does not keep them, so where float32 is the custom, on a processor, it "
        "is for information only; on accelerators, which are made for lower precision, its level is that of the gain. "
        "Without such units lower precision is emulated and slow, so nothing is tried. Models that are "
        "compiled, or have hooks of the script's own, are not replayed."
    )
    cure = (
        "Run the forward pass and the loss under autocast; the backward pass follows by itself.\n\n"
        '```py\nwith torch.autocast("cpu", dtype=torch.bfloat16):\n    loss = criterion(model(x), y)\n'
        "loss.backward()\n```\n\n"
        'On CUDA devices `torch.set_float32_matmul_precision("high")` allows TF32.'
    )

    def judge(self, evidence: Evidence) -> list[Finding]:
        steps = evidence.need_steps()
        tape: Tape = evidence.need("tape")
        types = _types(tape)
        if not types or types & set(_LOWER):
            return []
        seen = [module for module in evidence.modules if module.training_calls and module.arguments is not None]
        if not seen:
            raise Abstain("no call of a model in training was kept for a replay")
        evidence.need_seconds()
        seen = sorted(seen, key=lambda module: -_size(module))[:_MOST_MODULES]
        if not any(_ways(next(module.module.parameters()).device) for module in seen):
            raise Abstain("neither processor nor device has a faster format than float32 for matrix products")
        found = (self._replayed(module, tape, steps, evidence.seconds_to_spend / len(seen)) for module in seen)
        return [finding for finding in found if finding is not None]

    def _replayed(self, seen: ModuleSeen, tape: Tape, steps: StepTimes, seconds: float) -> Finding | None:
        replay = ModelReplay(seen)
        ways = _ways(replay.device)
        tried: list[tuple[_Way, Gain, Difference]] = []
        for way in ways:
            apart = replay.difference(Mode(), way.mode, tape)
            if apart is not None:  # else it is not finite: nothing to advise
                tried.append((way, replay.compare(Mode(), way.mode, seconds / (len(ways) + 1)), apart))
        sure = [each for each in tried if each[1].is_sure]
        if not sure:
            return None
        way, gain, apart = max(sure, key=lambda each: each[1].saves_ms)
        calls = seen.training_calls / steps.count
        # A replay may take longer than the passes of the run did: more than these took, nothing can save.
        passes = steps.phase_ms("forward") + steps.phase_ms("backward")
        calls *= min(1.0, passes / (gain.before_ms * calls)) if gain.before_ms * calls else 1.0
        if gain.saves_ms * calls < MEDIUM_SHARE * steps.mean_ms:
            return None
        name = type(seen.module).__name__
        return Finding(
            rule=self.id,
            message=(
                f"{name} works in float32. With {way.name} a forward and a backward pass take "
                f"{milliseconds(gain.after_ms)} instead of {milliseconds(gain.before_ms)}; {_apart(apart)}"
            ),
            fix=way.fix,
            place=seen.place,
            saves_ms=gain.saves_ms * calls,
            spread_ms=max(gain.spread_ms * calls, _LEAST_SPREAD * gain.saves_ms * calls),
            verified="replay",
            details=(_figures(tried),),
            level="info" if replay.device.type == "cpu" else None,
        )


def _types(tape: Tape) -> set[torch.dtype]:
    """What matrix products and convolutions of the step work on."""
    return {
        meta.dtype
        for op in tape.ops
        if op.name.startswith(_HEAVY)
        for meta in op.inputs
        if meta.dtype.is_floating_point and len(meta.shape) > 1
    }


def _size(seen: ModuleSeen) -> int:
    return sum(parameter.numel() for parameter in seen.module.parameters())


def _ways(device: torch.device) -> list[_Way]:
    ways = []
    if has_bfloat16(device):
        kind = device.type
        fix = f'with torch.autocast("{kind}", dtype=torch.bfloat16):\n    ...  # forward pass and loss\nloss.backward()'
        mode = Mode(forward=lambda: torch.autocast(kind, dtype=torch.bfloat16))
        ways.append(_Way("bfloat16 autocast", mode, fix))
    if tf32_is_off(device):
        ways.append(_Way("TF32", Mode(around=_tf32), 'torch.set_float32_matmul_precision("high")'))
    return ways


@contextmanager
def _tf32() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _apart(apart: Difference) -> str:
    if apart.of == "loss":
        return f"the loss is {apart.after:.5g} instead of {apart.before:.5g} ({percent(apart.relative)} apart)"
    return f"the output is {percent(apart.relative)} apart (the loss could not be computed from it)"


def _figures(tried: list[tuple[_Way, Gain, Difference]]) -> Detail:
    rows: list[Any] = [
        (
            way.name,
            milliseconds(gain.before_ms),
            milliseconds(gain.after_ms),
            f"{percent(apart.relative)} of the {apart.of}",
        )
        for way, gain, apart in tried
    ]
    return Detail("forward and backward pass, replayed", ("format", "float32", "in it", "difference"), tuple(rows))
