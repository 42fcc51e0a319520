"""``cudnn-benchmark``: convolutions of fixed shapes, while cuDNN does not search for its fastest algorithm."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from cordwood.common.numbers import milliseconds, percent
from cordwood.doctor.evidence.evidence import Evidence
from cordwood.doctor.evidence.findings import MEDIUM_SHARE, Abstain, Finding, Rule
from cordwood.doctor.evidence.tape import Op, Tape
from cordwood.doctor.measure.pairs import measure_pair
from cordwood.doctor.replay.replay import Replay, op_times, replayable

_CONVOLUTIONS = ("aten::convolution", "aten::convolution_backward", "aten::cudnn_convolution")
_LEAST_SHARE = 0.05  # of the time of all operations


class CudnnBenchmark(Rule):
    """Speaks where a replayed step is faster with cuDNN's own search."""

    id = "cudnn-benchmark"
    title = "cuDNN's choice of algorithms"
    measures = (
        "Convolutions on a CUDA device that take at least 5% of the time of operations, with the same shapes in both "
        "recorded steps, and `torch.backends.cudnn.benchmark` off. The step is replayed with it off and on, in turns."
    )
    costs = "Without the search cuDNN chooses by a rule of thumb, and may miss the fastest way for the shapes at hand."
    wrong = (
        "Where shapes vary, every new one is searched for again, which takes longer than it saves; where results must "
        "be repeatable (`cudnn.deterministic`), the choice may differ from run to run. Both keep it silent. Without a "
        "CUDA device in use it abstains. It was tested with evidence made by hand, and on no device."
    )
    cure = "```py\ntorch.backends.cudnn.benchmark = True\n```\n\nonce, before training."

    def judge(self, evidence: Evidence) -> list[Finding]:
        if not evidence.transfers and not any(_on_cuda(op) for op in (evidence.tape.ops if evidence.tape else ())):
            raise Abstain("no accelerator in use: cuDNN has nothing to do")
        steps = evidence.need_steps()
        tape: Tape = evidence.need("tape")
        convolutions = [op for op in tape.ops if _is_convolution(op)]
        if not convolutions or torch.backends.cudnn.benchmark or not tape.has_constant_shapes or _must_repeat():
            return []
        evidence.need_seconds()
        times = op_times(tape)
        share = sum(ms for op, ms in zip(tape.ops, times, strict=True) if _is_convolution(op)) / max(sum(times), 1e-9)
        if share < _LEAST_SHARE:
            return []
        replay = replayable(tape)
        gain = measure_pair(
            lambda: _replayed(replay, benchmark=False),
            lambda: _replayed(replay, benchmark=True),
            evidence.seconds_to_spend / 2,
        )
        if not gain.is_sure or gain.saves_ms < MEDIUM_SHARE * steps.mean_ms:
            return []
        message = (
            f"convolutions take {percent(share)} of the time of operations, always with the same shapes. With cuDNN's "
            f"search for the fastest algorithm the operations of a step take {milliseconds(gain.after_ms)} instead of "
            f"{milliseconds(gain.before_ms)}"
        )
        return [
            Finding(
                rule=self.id,
                message=message,
                fix="torch.backends.cudnn.benchmark = True  # once, before training",
                place=next((op.place for op in convolutions if op.place is not None), None),
                saves_ms=gain.saves_ms,
                spread_ms=gain.spread_ms,
                verified="replay",
            )
        ]


def _is_convolution(op: Op) -> bool:
    return op.name.startswith(_CONVOLUTIONS) and _on_cuda(op)


def _on_cuda(op: Op) -> bool:
    return any(meta.device.type == "cuda" for meta in op.inputs)


def _must_repeat() -> bool:
    return torch.backends.cudnn.deterministic or torch.are_deterministic_algorithms_enabled()


def _replayed(replay: Replay, *, benchmark: bool) -> float:
    with _benchmark(benchmark):
        return sum(replay.run())


@contextmanager
def _benchmark(on: bool) -> Iterator[None]:
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = on
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before
