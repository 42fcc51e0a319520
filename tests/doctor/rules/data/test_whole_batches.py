"""What the rule about whole batches says, with trials made up."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from cordwood.doctor.evidence.evidence import Evidence, LoaderSeen
from cordwood.doctor.evidence.findings import Abstain, CodeLine
from cordwood.doctor.measure.pairs import Gain
from cordwood.doctor.rules.data import whole_batches as rule
from cordwood.doctor.rules.data.whole_batches import WholeBatches
from cordwood.doctor.trials.loader import Setting
from cordwood.doctor.trials.whole_batches import WholeTrial
from tests.doctor.support.evidences import make_evidence

MADE = CodeLine("<cell>", 30, "main", "loader = DataLoader(data)")
GAIN = Gain(saves_ms=3.0, spread_ms=0.1, before_ms=4.0, after_ms=1.0, pairs=7)
DATA = TensorDataset(torch.arange(64.0))


@pytest.fixture(autouse=True)
def trials(monkeypatch: pytest.MonkeyPatch) -> list[WholeTrial]:
    prepared: list[WholeTrial] = []

    def try_whole_batches(loader: Any, **options: Any) -> WholeTrial:
        assert prepared, "no trial was due"
        assert options["busy_ms"] < options["step_ms"]
        return prepared.pop()

    monkeypatch.setattr(rule, "try_whole_batches", try_whole_batches)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    return prepared


def evidence_of(loader: Any = None, wait: float = 3.2, epochs: int = 1) -> Evidence:
    evidence = make_evidence({"wait": wait, "forward": 4.0 - wait}, jitter=0.0)
    loader = DataLoader(DATA, batch_size=8, shuffle=True, drop_last=True) if loader is None else loader
    evidence.loaders.append(LoaderSeen(loader, None, MADE, batches=60, epochs=epochs, is_training=True))
    return evidence


def test_a_measured_gain_is_told_with_the_code(trials: list[WholeTrial]) -> None:
    trials.append(WholeTrial(GAIN, Setting(0, None)))
    (found,) = WholeBatches().judge(evidence_of())
    assert (found.rule, found.verified, found.level, found.place) == ("whole-batches", "trial", None, MADE)
    assert found.saves_ms == pytest.approx(3.0)
    assert found.spread_ms == pytest.approx(0.1)
    assert "take 1.00 ms, not 4.00 ms: tried with your own loader, 7 times" in found.message
    assert "without workers" not in found.message
    assert "batch_size=8, drop_last=True), batch_size=None)" in found.fix


def test_no_more_is_promised_than_is_waited(trials: list[WholeTrial]) -> None:
    trials.append(WholeTrial(GAIN, Setting(0, None)))
    (found,) = WholeBatches().judge(evidence_of(wait=1.0))
    assert found.saves_ms == pytest.approx(1.0)
    trials.append(WholeTrial(GAIN, Setting(0, None)))  # workers take cores from training, too
    (found,) = WholeBatches().judge(evidence_of(DataLoader(DATA, batch_size=8, num_workers=2), wait=1.0))
    assert found.saves_ms == pytest.approx(3.0)
    assert "Indexed as a whole, without workers, the same batch" in found.message


@pytest.mark.parametrize(
    "gain",
    [
        replace(GAIN, spread_ms=1.1),  # within three spreads
        replace(GAIN, saves_ms=0.39, after_ms=3.61, spread_ms=0.001),  # less than a tenth of a step
        replace(GAIN, saves_ms=-1.0, after_ms=5.0),
    ],
)
def test_small_or_doubtful_gains_are_not_told(trials: list[WholeTrial], gain: Gain) -> None:
    trials.append(WholeTrial(gain, Setting(0, None)))
    assert WholeBatches().judge(evidence_of()) == []


def test_what_is_not_meant_passes_without_a_trial() -> None:
    assert WholeBatches().judge(evidence_of(wait=0.1)) == []
    assert WholeBatches().judge(evidence_of(DataLoader(DATA, batch_size=8, collate_fn=list))) == []
    assert WholeBatches().judge(evidence_of(DataLoader(list(range(64)), batch_size=8))) == []  # type: ignore[arg-type]


def test_when_it_abstains(trials: list[WholeTrial], monkeypatch: pytest.MonkeyPatch) -> None:
    none = evidence_of()
    none.seconds_to_spend = 0.0
    with pytest.raises(Abstain, match="no time"):
        WholeBatches().judge(none)
    with pytest.raises(Abstain, match="a new iterator is begun for every batch"):
        WholeBatches().judge(evidence_of(epochs=60))
    trials.append(WholeTrial(replace(GAIN, before_ms=40.0), Setting(0, None)))
    with pytest.raises(Abstain, match="shows nothing"):
        WholeBatches().judge(evidence_of())
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(Abstain, match="several ranks"):
        WholeBatches().judge(evidence_of())
