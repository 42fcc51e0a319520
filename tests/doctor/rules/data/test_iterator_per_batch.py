"""What the rule about iterators says, with trials made up."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from cordwood.doctor.evidence.evidence import Evidence, LoaderSeen
from cordwood.doctor.evidence.findings import Abstain, CodeLine
from cordwood.doctor.measure.pairs import Gain
from cordwood.doctor.rules.data import iterator_per_batch as rule
from cordwood.doctor.rules.data.iterator_per_batch import IteratorPerBatch, one_iterator
from tests.doctor.support.evidences import make_evidence

DRAWN = CodeLine("train.py", 40, "main", "x, y = next(iter(loader))")
GAIN = Gain(saves_ms=120.0, spread_ms=3.0, before_ms=150.0, after_ms=30.0, pairs=7)
DATA = TensorDataset(torch.arange(64.0))


@pytest.fixture(autouse=True)
def trials(monkeypatch: pytest.MonkeyPatch) -> list[Gain]:
    prepared: list[Gain] = []

    def try_one_iterator(loader: Any, **options: Any) -> Gain:
        assert prepared, "no trial was due"
        return prepared.pop()

    monkeypatch.setattr(rule, "try_one_iterator", try_one_iterator)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    return prepared


def evidence_of(
    workers: int = 2, wait: float = 100.0, other: float = 30.0, epochs: int = 60, batches: int = 60, **options: Any
) -> Evidence:
    options = {"batch_size": 8, "shuffle": True, "num_workers": workers, **options}
    evidence = make_evidence({"wait": wait, "forward": 150.0 - wait - other, "other": other}, jitter=0.0)
    seen = LoaderSeen(DataLoader(DATA, **options), DRAWN, batches=batches, epochs=epochs, is_training=True)
    evidence.loaders.append(seen)
    return evidence


def test_the_fault_is_named_with_its_cure(trials: list[Gain]) -> None:
    trials.append(GAIN)
    (found,) = IteratorPerBatch().judge(evidence_of())
    assert (found.rule, found.verified, found.level, found.place) == ("iterator-per-batch", "trial", None, DRAWN)
    assert found.saves_ms == pytest.approx(120.0)  # starting them is waiting, stopping them is not: both are saved
    assert found.message.startswith(
        "a new iterator is begun for every batch: 60 iterators for 60 batches, and its 2 workers are started and "
        "stopped each time (stopping them counts as everything else). With one iterator"
    )
    assert "take 30.0 ms, not 150 ms: tried with your own loader, 7 times in turns" in found.message
    assert "batches = endless(loader)  # once, before the loop" in found.fix
    assert "that alone is no cure" in found.fix


def test_workers_that_live_on_are_no_cure(trials: list[Gain]) -> None:
    trials.append(GAIN)
    (found,) = IteratorPerBatch().judge(evidence_of(persistent_workers=True))
    assert "prepared ahead is thrown away each time" in found.message
    assert "started" not in found.message
    assert "persistent_workers" not in found.fix


def test_without_workers_only_the_waiting_can_be_saved(trials: list[Gain]) -> None:
    trials.append(GAIN)
    (found,) = IteratorPerBatch().judge(evidence_of(workers=0))
    assert found.saves_ms == pytest.approx(100.0)
    assert "workers" not in found.message
    assert "same first batch" not in found.message
    trials.append(replace(GAIN, saves_ms=3.0, after_ms=147.0, spread_ms=0.1))  # beginning anew costs next to nothing
    assert IteratorPerBatch().judge(evidence_of(workers=0)) == []
    trials.append(replace(GAIN, spread_ms=50.0))
    assert IteratorPerBatch().judge(evidence_of(workers=0)) == []


def test_the_same_batch_again_and_again_is_told_of(trials: list[Gain]) -> None:
    trials.append(GAIN)
    (found,) = IteratorPerBatch().judge(evidence_of(shuffle=False))
    assert "Nothing is shuffled, so all of them give the same first batch" in found.message


@pytest.mark.parametrize(
    "others",
    [
        {"epochs": 1},
        {"epochs": 30},  # left after two batches
        {"epochs": 9, "batches": 9},  # once in a while
        {"batch_size": 64},  # one batch is the whole epoch
        {"wait": 2.0},
    ],
    ids=["one", "some batches", "few", "short epochs", "no waiting"],
)
def test_what_is_not_meant_passes_without_a_trial(others: dict[str, Any]) -> None:
    assert IteratorPerBatch().judge(evidence_of(**others)) == []


def test_when_it_abstains(monkeypatch: pytest.MonkeyPatch) -> None:
    none = evidence_of()
    none.seconds_to_spend = 0.0
    with pytest.raises(Abstain, match="no time"):
        IteratorPerBatch().judge(none)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(Abstain, match="several ranks"):
        IteratorPerBatch().judge(evidence_of())


def test_the_code_has_the_name_of_the_users_loader_and_runs(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("for step in range(60):\n    x, y = next(iter(train_loader))\n")
    loader = DataLoader(DATA, batch_size=48)
    code = one_iterator(LoaderSeen(loader, CodeLine(str(script), 2)))
    assert "for batch in train_loader:" in code
    names: dict[str, Any] = {"train_loader": loader}
    exec(code, names)
    assert [len(batch) for (batch,) in (names["batch"], next(names["batches"]), next(names["batches"]))] == [48, 16, 48]
