"""``cudnn-benchmark``, by evidence made by hand: there is no device here."""

from typing import Any

import pytest
import torch

from cordwood.doctor.evidence.evidence import Evidence, TransferCall
from cordwood.doctor.evidence.findings import Abstain, CodeLine
from cordwood.doctor.evidence.tape import Op, Tape, TensorMeta
from cordwood.doctor.measure.pairs import Gain
from cordwood.doctor.rules.compute import cudnn_benchmark
from cordwood.doctor.rules.compute.cudnn_benchmark import CudnnBenchmark
from tests.doctor.support.evidences import make_evidence

CUDA, CPU = torch.device("cuda"), torch.device("cpu")


def op(name: str, device: torch.device = CUDA, line: int = 5) -> Op:
    meta = TensorMeta(1, (8, 3, 32, 32), (1, 1, 1, 1), torch.float32, device, 4, 1, 0)
    return Op(name, None, "forward", CodeLine("net.py", line), "conv", [meta], [], ((), {}), None, 1000)


def evidence_of(*ops: Op, share: float = 0.5, **options: Any) -> Evidence:
    evidence = make_evidence({"forward": 40.0, "backward": 60.0}, jitter=0.0)
    taken = list(ops) or [op("aten::add.Tensor"), op("aten::convolution", line=9)]
    evidence.tape = Tape(taken, 7, {}, **options)
    evidence.tape.op_ms = [1 - share, *[share] * (len(taken) - 1)]
    return evidence


@pytest.fixture
def gains(monkeypatch: pytest.MonkeyPatch) -> list[Gain]:
    results: list[Gain] = []

    def pretended(before: Any, after: Any, seconds: float) -> Gain:
        assert (before(), after()) == (1.0, 2.0)
        return results.pop()

    class Pretended:
        def run(self) -> list[float]:
            return [2.0 if torch.backends.cudnn.benchmark else 1.0]

    monkeypatch.setattr(cudnn_benchmark, "measure_pair", pretended)
    monkeypatch.setattr(cudnn_benchmark, "replayable", lambda tape: Pretended())
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)
    return results


def test_a_finding_with_the_gain_of_the_replay(gains: list[Gain]) -> None:
    gains.append(Gain(20.0, 1.0, 70.0, 50.0, 9))
    (found,) = CudnnBenchmark().judge(evidence_of())
    assert found.saves_ms == 20.0
    assert found.verified == "replay"
    assert found.place == CodeLine("net.py", 9)
    assert "cudnn.benchmark = True" in found.fix
    assert "50.0 ms instead of 70.0 ms" in found.message
    assert torch.backends.cudnn.benchmark is False


@pytest.mark.parametrize("gain", [Gain(20.0, 10.0, 70.0, 50.0, 9), Gain(1.0, 0.1, 70.0, 69.0, 9)])
def test_a_small_or_unsure_gain_is_not_said(gains: list[Gain], gain: Gain) -> None:
    gains.append(gain)
    assert CudnnBenchmark().judge(evidence_of()) == []


@pytest.mark.parametrize(
    "evidence",
    [
        evidence_of(has_constant_shapes=False),
        evidence_of(share=0.02),
        evidence_of(op("aten::mm"), op("aten::convolution", CPU)),
    ],
    ids=["shapes vary", "small share", "no convolution on the device"],
)
def test_silence_without_a_replay(gains: list[Gain], evidence: Evidence) -> None:
    assert CudnnBenchmark().judge(evidence) == []


@pytest.mark.parametrize("setting", ["benchmark", "deterministic"])
def test_settings_that_answer_the_question(gains: list[Gain], setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, setting, True)
    assert CudnnBenchmark().judge(evidence_of()) == []


def test_it_abstains_with_a_reason(gains: list[Gain]) -> None:
    with pytest.raises(Abstain, match="no accelerator in use"):
        CudnnBenchmark().judge(make_evidence())
    with pytest.raises(Abstain, match="no accelerator in use"):
        CudnnBenchmark().judge(evidence_of(op("aten::add.Tensor", CPU), op("aten::convolution", CPU)))
    late = evidence_of()
    late.seconds_to_spend = 0.0
    with pytest.raises(Abstain, match="no time"):
        CudnnBenchmark().judge(late)
    compiled = make_evidence()
    compiled.transfers.append(TransferCall(None, 3))
    compiled.missing["tape"] = "torch.compile is in use"
    with pytest.raises(Abstain, match="compile"):
        CudnnBenchmark().judge(compiled)
