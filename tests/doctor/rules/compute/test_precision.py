"""``precision`` replays where the hardware has a faster format, and is silent everywhere else."""

import platform
from typing import Any

import pytest
import torch
from torch import nn

from cordwood.doctor.evidence.evidence import Evidence, ModuleSeen
from cordwood.doctor.evidence.findings import Abstain, CodeLine
from cordwood.doctor.evidence.tape import Op, Tape, TensorMeta
from cordwood.doctor.measure import hardware
from cordwood.doctor.measure.pairs import Gain
from cordwood.doctor.replay.model import Difference, ModelReplay
from cordwood.doctor.rules.compute import precision
from cordwood.doctor.rules.compute.precision import Precision
from tests.doctor.support.evidences import make_evidence

CPU = torch.device("cpu")


def meta(dtype: torch.dtype, *shape: int) -> TensorMeta:
    return TensorMeta(1, shape, (1,) * len(shape), dtype, CPU, 4, 1, 0)


def op(name: str, *inputs: TensorMeta) -> Op:
    return Op(name, None, "forward", None, "", list(inputs), [], ((), {}), None, 1000)


def evidence_of(*ops: Op, calls: int = 65, **options: Any) -> Evidence:
    evidence = make_evidence({"forward": 40.0, "backward": 60.0}, jitter=0.0)
    evidence.tape = Tape(list(ops) or [op("aten::addmm", meta(torch.float32, 4, 4))], 7, {})
    arguments: Any = ((torch.ones(2, 3),), {})
    evidence.modules.append(ModuleSeen(nn.Linear(3, 4), CodeLine("train.py", 9), calls, arguments))
    for name, value in options.items():
        setattr(evidence, name, value)
    return evidence


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Gain, Difference | None]]:
    """What replays are to say, on hardware that has bfloat16; without them a replay is a mistake."""
    given: list[tuple[Gain, Difference | None]] = []
    monkeypatch.setattr(precision, "has_bfloat16", lambda device: True)
    monkeypatch.setattr(ModelReplay, "compare", lambda *arguments: given.pop()[0])
    monkeypatch.setattr(ModelReplay, "difference", lambda *arguments: given[-1][1])
    return given


def test_no_more_is_promised_than_the_passes_took(results: list[Any]) -> None:
    results.append((Gain(300.0, 10.0, 500.0, 200.0, 9), Difference("loss", 0.02, 2.5, 2.55)))
    (found,) = Precision().judge(evidence_of())
    assert found.saves_ms == pytest.approx(60.0, rel=0.01)  # of the 100 ms of both passes


def test_a_finding_has_the_gain_and_the_difference(results: list[Any]) -> None:
    results.append((Gain(30.0, 1.0, 80.0, 50.0, 9), Difference("loss", 0.02, 2.5, 2.55)))
    (found,) = Precision().judge(evidence_of())
    assert found.saves_ms == pytest.approx(30.0)
    assert found.spread_ms == pytest.approx(3.0)  # a tenth of the gain at least
    assert found.verified == "replay"
    assert found.level == "info"  # float32 is the custom on a processor
    assert found.place == CodeLine("train.py", 9)
    assert 'torch.autocast("cpu", dtype=torch.bfloat16)' in found.fix
    for word in ("Linear", "50.0 ms instead of 80.0 ms", "2.55 instead of 2.5 ", "2% apart"):
        assert word in found.message


def test_the_output_is_told_where_there_is_no_loss(results: list[Any]) -> None:
    results.append((Gain(30.0, 1.0, 80.0, 50.0, 9), Difference("output", 0.004)))
    (found,) = Precision().judge(evidence_of())
    assert "the output is 0.4% apart" in found.message


def test_several_calls_a_step_save_several_times(results: list[Any]) -> None:
    results.append((Gain(10.0, 1.0, 40.0, 30.0, 9), Difference("loss", 0.02, 2.5, 2.55)))
    (found,) = Precision().judge(evidence_of(calls=130))
    assert found.saves_ms == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("gain", "apart"),
    [
        (Gain(10.0, 4.0, 80.0, 70.0, 9), Difference("loss", 0.02, 2.5, 2.55)),  # within three spreads
        (Gain(2.0, 0.1, 80.0, 78.0, 9), Difference("loss", 0.02, 2.5, 2.55)),  # less than 3% of a step
        (Gain(-10.0, 0.1, 80.0, 90.0, 9), Difference("loss", 0.02, 2.5, 2.55)),
        (Gain(30.0, 0.1, 80.0, 50.0, 9), None),  # not finite
    ],
)
def test_what_is_not_worth_it_is_not_said(results: list[Any], gain: Gain, apart: Difference | None) -> None:
    results.append((gain, apart))
    assert Precision().judge(evidence_of()) == []


@pytest.mark.parametrize(
    "ops",
    [
        [op("aten::addmm", meta(torch.bfloat16, 4, 4))],
        [op("aten::convolution", meta(torch.float16, 1, 3, 4, 4)), op("aten::mm", meta(torch.float32, 4, 4))],
        [op("aten::_scaled_dot_product_flash_attention_for_cpu", meta(torch.bfloat16, 1, 3, 4, 4))],
        [op("aten::add.Tensor", meta(torch.float32, 4, 4))],  # nothing to gain
    ],
)
def test_autocast_is_seen_in_the_operations_not_in_the_parameters(results: list[Any], ops: list[Op]) -> None:
    assert Precision().judge(evidence_of(*ops)) == []


def test_it_abstains_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Abstain, match="no tape"):
        Precision().judge(make_evidence())
    with pytest.raises(Abstain, match="kept for a replay"):
        Precision().judge(evidence_of(modules=[]))
    with pytest.raises(Abstain, match="no time"):
        Precision().judge(evidence_of(seconds_to_spend=0.0))
    monkeypatch.setattr(precision, "has_bfloat16", lambda device: False)
    with pytest.raises(Abstain, match="a faster format"):
        Precision().judge(evidence_of())


def test_a_real_replay_with_emulated_numbers_has_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "has_bfloat16", lambda device: True)
    monkeypatch.setattr("cordwood.doctor.measure.pairs._FEWEST", 2)
    for found in Precision().judge(evidence_of(seconds_to_spend=0.001)):
        assert "apart" in found.message


@pytest.mark.parametrize(
    ("machine", "amx", "avx", "arm", "expected"),
    [
        ("x86_64", False, False, True, False),  # oneDNN says yes to AVX512 alone, where bfloat16 gains nothing
        ("x86_64", True, False, False, True),
        ("x86_64", False, True, False, True),
        ("aarch64", False, False, True, True),
        ("aarch64", False, False, False, False),
    ],
)
def test_processors_with_bfloat16(
    monkeypatch: pytest.MonkeyPatch, machine: str, amx: bool, avx: bool, arm: bool, expected: bool
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx, raising=False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx, raising=False)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(torch.ops, "mkldnn", type("Ops", (), {"_is_mkldnn_bf16_supported": staticmethod(lambda: arm)}))
    assert hardware.has_bfloat16(CPU) is expected


def test_names_that_torch_does_not_have_are_no_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        monkeypatch.delattr(torch.cpu, name, raising=False)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert not hardware.has_bfloat16(CPU)
    assert not hardware.tf32_is_off(CPU)
    assert not hardware.has_bfloat16(torch.device("meta"))


def test_devices_with_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = torch.device("cuda")
    for version, is_off in (((7, 5), False), ((8, 0), True), ((9, 0), True)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, version=version: version)
        assert hardware.tf32_is_off(cuda) is is_off
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: not including_emulation)
    assert hardware.has_bfloat16(cuda)
    before = torch.get_float32_matmul_precision()
    assert [way.name for way in precision._ways(cuda)] == ["bfloat16 autocast", "TF32"]
    with precision._tf32():
        assert torch.get_float32_matmul_precision() == "high"
        assert not hardware.tf32_is_off(cuda)
    assert torch.get_float32_matmul_precision() == before
