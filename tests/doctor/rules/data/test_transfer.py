"""``transfer``, by evidence made by hand: there is no device here."""

from typing import Any

import pytest
import torch

from cordwood.doctor.evidence.evidence import Evidence, TransferCall
from cordwood.doctor.evidence.findings import Abstain, CodeLine
from cordwood.doctor.measure.pairs import Gain
from cordwood.doctor.rules.data import transfer
from cordwood.doctor.rules.data.transfer import Transfer
from cordwood.doctor.trials import copy
from tests.doctor.support.evidences import make_evidence

HERE = CodeLine("train.py", 12)
STEPS = 65  # make_evidence counts five more than it measures


def evidence_of(*calls: TransferCall, ms: float = 20.0) -> Evidence:
    evidence = make_evidence({"transfer": ms, "forward": 100.0 - ms}, jitter=0.0)
    evidence.transfers.extend(calls)
    return evidence


def call(
    copies: int = 2, nbytes: int = 4 << 20, ms: float = 10.0, unpinned: bool = True, blocking: bool = True
) -> TransferCall:
    """A line, by what it does in a step."""
    count = copies * STEPS
    return TransferCall(HERE, count, nbytes * count, ms * STEPS, count * unpinned, count * blocking)


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> tuple[list[Gain], list[dict[str, Any]]]:
    gains: list[Gain] = []
    asked: list[dict[str, Any]] = []

    def pretended(device: torch.device, **options: Any) -> Gain:
        asked.append(options)
        return gains.pop()

    monkeypatch.setattr(transfer, "try_copies", pretended)
    monkeypatch.setattr(transfer, "_device", lambda: torch.device("cuda"))
    return gains, asked


def test_memory_that_is_not_pinned(trials: Any) -> None:
    gains, asked = trials
    gains.append(Gain(3.0, 0.1, 4.0, 1.0, 9))
    (found,) = Transfer().judge(evidence_of(call()))
    assert found.saves_ms == pytest.approx(6.0)  # two copies a step
    assert found.spread_ms == pytest.approx(0.2)
    assert found.place == HERE
    assert found.verified == "trial"
    assert "pin_memory=True" in found.fix
    assert "4.2 MB" in found.message
    assert asked[0]["change"] == "pinned"
    assert asked[0]["nbytes"] == 4 << 20
    assert asked[0]["count"] == 1


def test_many_small_copies(trials: Any) -> None:
    gains, asked = trials
    gains.append(Gain(8.0, 0.1, 9.0, 1.0, 9))
    (found,) = Transfer().judge(evidence_of(call(copies=40, nbytes=256)))
    assert found.saves_ms == pytest.approx(8.0)  # all forty of them were tried
    assert "torch.stack" in found.fix
    assert (asked[0]["change"], asked[0]["count"]) == ("together", 40)


def test_no_more_is_promised_than_the_line_takes(trials: Any) -> None:
    gains, _ = trials
    gains.append(Gain(300.0, 0.1, 400.0, 100.0, 9))
    (found,) = Transfer().judge(evidence_of(call(ms=15.0)))
    assert found.saves_ms == pytest.approx(15.0)


def test_pinned_copies_that_wait_are_information(trials: Any) -> None:
    (found,) = Transfer().judge(evidence_of(call(unpinned=False)))
    assert found.level == "info"
    assert found.saves_ms is None
    assert "non_blocking=True" in found.fix
    assert "10% of a step" in found.message
    (found,) = Transfer().judge(evidence_of(call(unpinned=False, ms=120.0)))
    assert "120 ms, 100% of a step" in found.message  # the steps with it were slower than the mean


@pytest.mark.parametrize(
    ("gain", "made"),
    [
        (Gain(3.0, 2.0, 4.0, 1.0, 9), call()),  # within three spreads
        (Gain(1.0, 0.1, 4.0, 3.0, 9), call()),  # less than 3% of a step
        (None, call(unpinned=False, blocking=False)),
        (None, call(ms=1.0)),  # a line that takes next to nothing
    ],
)
def test_what_is_not_worth_it_is_not_said(trials: Any, gain: Gain | None, made: TransferCall) -> None:
    gains, _ = trials
    gains.extend([gain] if gain else [])
    assert Transfer().judge(evidence_of(made)) == []
    assert gains == []


def test_a_small_share_of_a_step_needs_no_trial(trials: Any) -> None:
    assert Transfer().judge(evidence_of(call(), ms=4.0)) == []


def test_it_abstains_with_a_reason() -> None:
    with pytest.raises(Abstain, match="no accelerator in use"):
        Transfer().judge(make_evidence())
    with pytest.raises(Abstain, match="no accelerator in use"):
        Transfer().judge(evidence_of(call()))  # copies were seen, but there is no device to try them
    late = evidence_of(call())
    late.seconds_to_spend = 0.0
    with pytest.raises(Abstain, match="no time"):
        Transfer().judge(late)


@pytest.mark.parametrize(("change", "number", "sizes"), [("pinned", 3, {64}), ("together", 1, {192})])
def test_copies_are_tried_both_ways(monkeypatch: pytest.MonkeyPatch, change: Any, number: int, sizes: set[int]) -> None:
    """The trial itself, with a host that stands for a device."""
    seen: list[tuple[int, set[int], bool]] = []

    def copied(tensors: list[torch.Tensor], device: torch.device, *, non_blocking: bool) -> float:
        seen.append((len(tensors), {tensor.nbytes for tensor in tensors}, non_blocking))
        return 2.0 if seen[-1] == (3, {64}, False) else 0.5

    monkeypatch.setattr(copy, "_copied", copied)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor.clone())
    gain = copy.try_copies(torch.device("cpu"), nbytes=64, count=3, change=change, seconds=0.0)
    assert gain.saves_ms == 1.5
    assert (number, sizes, change == "pinned") in seen


def test_a_measurement_waits_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = []
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda device: waited.append(device))
    assert copy._copied([torch.zeros(8)], torch.device("cpu"), non_blocking=True) > 0
    assert len(waited) == 1 + copy._REPEATED
