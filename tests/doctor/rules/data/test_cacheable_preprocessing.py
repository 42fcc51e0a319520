"""``cacheable-preprocessing`` speaks of what was measured, and is silent where packing would be wrong."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import cordwood as cw
from cordwood.doctor.evidence.evidence import Evidence, LoaderSeen
from cordwood.doctor.evidence.findings import Abstain, CodeLine, Finding
from cordwood.doctor.measure.pairs import Gain
from cordwood.doctor.rules.data import cacheable_preprocessing as cacheable
from cordwood.doctor.rules.data.cacheable_preprocessing import CacheablePreprocessing
from cordwood.doctor.trials.pack import PackTrial
from tests.doctor.support.evidences import make_evidence


class Made(Dataset[Any]):
    transform: Any = None

    def __len__(self) -> int:
        return 40

    def __getitem__(self, number: int) -> Any:
        return torch.full((8,), float(number)), number


def trial(before: float = 50.0, after: float = 20.0, spread: float = 1.0, **others: Any) -> PackTrial:
    figures: dict[str, Any] = {"sample_ms": 3.0, "packed_ms": 3.0, "once_ms": 4.0, "collate_ms": 1.0, "packed": 40}
    figures |= {"store_bytes": 12_345_678.0, "batch_size": 10}
    return PackTrial(Gain(before - after, spread, before, after, 5), **(figures | others))


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> list[PackTrial]:
    """What a trial is to say; without one, a trial is a mistake."""
    results: list[PackTrial] = []

    def pretended(loader: Any, part: Any, numbers: Any, **options: Any) -> PackTrial:
        pretended.options = options  # type: ignore[attr-defined]
        return results.pop()

    monkeypatch.setattr(cacheable, "try_packed", pretended)
    return results


def evidence_of(loader: Any, wait: float = 30.0, rest: float = 20.0, **options: Any) -> Evidence:
    evidence = make_evidence({"wait": wait, "forward": rest}, jitter=0.0)
    evidence.loaders.append(LoaderSeen(loader, CodeLine("train.py", 7), is_training=True, batches=60))
    for name, value in options.items():
        setattr(evidence, name, value)
    return evidence


def judged(evidence: Evidence) -> list[Finding]:
    return CacheablePreprocessing().judge(evidence)


def test_a_finding_has_the_gain_the_size_and_the_change(trials: list[PackTrial]) -> None:
    trials.append(trial())
    (found,) = judged(evidence_of(DataLoader(Made(), batch_size=10, shuffle=True)))
    assert found.saves_ms == pytest.approx(30.0)
    assert found.spread_ms == pytest.approx(1.0)
    assert found.verified == "trial"
    assert found.level is None
    assert found.place == CodeLine("train.py", 7)
    for word in ("500 samples/s instead of 200", "12.3 MB", "40 samples", "3.00 ms a sample", "97%"):
        assert word in found.message
    assert 'cw.Loader(cw.open("train.cordwood"), batch_size=10, shuffle=True)' in found.fix
    assert 'cw.pack(loader.dataset, "train.cordwood")' in found.fix
    assert ("from batch to batch", "50.0 ms", "20.0 ms") in found.details[0].rows


def test_several_batches_a_step_save_several_times(trials: list[PackTrial]) -> None:
    trials.append(trial(before=12.5, after=5.0, spread=0.25))
    (found,) = judged(evidence_of(DataLoader(Made(), batch_size=10), micro_batches=4.0))
    assert found.saves_ms == pytest.approx(30.0)
    assert cacheable.try_packed.options["step_ms"] == pytest.approx(12.5)  # type: ignore[attr-defined]
    assert cacheable.try_packed.options["busy_ms"] == pytest.approx(5.0)  # type: ignore[attr-defined]


def test_a_slow_moment_in_the_trial_does_not_promise_more(trials: list[PackTrial]) -> None:
    trials.append(trial(before=100.0, after=40.0))
    (found,) = judged(evidence_of(DataLoader(Made(), batch_size=10)))
    assert found.saves_ms == pytest.approx(30.0)
    trials.append(trial(before=50.0, after=5.0))  # below what training itself takes
    (found,) = judged(evidence_of(DataLoader(Made(), batch_size=10)))
    assert found.saves_ms == pytest.approx(30.0)


@pytest.mark.parametrize(
    "result",
    [
        trial(after=48.9, spread=0.01),  # less than 3% of a step
        trial(after=45.0, spread=2.0),  # within three spreads
        trial(after=60.0),
        trial(packed_ms=0.1, collate_ms=9.0),  # it is not the preprocessing that costs
    ],
)
def test_what_is_not_worth_it_is_not_said(trials: list[PackTrial], result: PackTrial) -> None:
    trials.append(result)
    assert judged(evidence_of(DataLoader(Made(), batch_size=10))) == []
    assert trials == []


def test_no_trial_where_training_does_not_wait(trials: list[PackTrial]) -> None:
    assert judged(evidence_of(DataLoader(Made(), batch_size=10), wait=1.0, rest=49.0)) == []


def test_samples_in_memory_are_not_packed(trials: list[PackTrial]) -> None:
    assert judged(evidence_of(DataLoader(TensorDataset(torch.zeros(40, 3)), batch_size=10))) == []


def test_a_store_is_packed_already(trials: list[PackTrial], tmp_path: Path) -> None:
    with cw.Writer(tmp_path / "s.cordwood") as writer:
        writer.extend([{"x": torch.zeros(2)}] * 4)
    store = cw.open(tmp_path / "s.cordwood")
    assert judged(evidence_of(cw.Loader(store, batch_size=2))) == []
    assert judged(evidence_of(DataLoader(store, batch_size=2))) == []


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(range(3))


class Epochs(Made):
    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


class Random(Made):
    def __getitem__(self, number: int) -> Any:
        return torch.rand(3), number


@pytest.mark.parametrize(
    ("loader", "said"),
    [
        ([1, 2], "no torch DataLoader"),
        (DataLoader(Stream()), "IterableDataset"),
        (DataLoader(Epochs()), "knows of epochs"),
        (DataLoader(Random()), "another one each time"),
        (DataLoader(Made(), batch_sampler=[[1, 2], [3, 4]]), "batch_sampler"),
        (DataLoader(Made(), batch_size=None), "no batches"),
        (DataLoader(TensorDataset(torch.zeros(1, 3))), "fewer than two"),
    ],
)
def test_it_abstains_with_a_reason(trials: list[PackTrial], loader: Any, said: str) -> None:
    with pytest.raises(Abstain, match=said):
        judged(evidence_of(loader))


def test_it_abstains_without_time_or_steps(trials: list[PackTrial]) -> None:
    with pytest.raises(Abstain, match="no time"):
        judged(evidence_of(DataLoader(Made()), seconds_to_spend=0.0))
    few = make_evidence(steps=5)
    with pytest.raises(Abstain, match="at least 20"):
        judged(few)
    with pytest.raises(Abstain, match="no loader was seen"):
        judged(make_evidence({"wait": 30.0, "forward": 20.0}))


def test_it_abstains_where_the_disk_has_no_room(trials: list[PackTrial], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    trials.append(trial())
    with pytest.raises(Abstain, match=r"takes 12\.3 MB, and 1\.0 kB are free"):
        judged(evidence_of(DataLoader(Made(), batch_size=10)))


@pytest.mark.parametrize(("seconds", "count"), [(0.001, 8), (0.5, 4), (60.0, 2)])
def test_fewer_samples_are_fetched_if_they_take_long(
    monkeypatch: pytest.MonkeyPatch, seconds: float, count: int
) -> None:
    clock = iter([0.0, seconds])
    monkeypatch.setattr(cacheable, "perf_counter", lambda: next(clock))
    numbers = cacheable._numbers(Made())
    assert len(numbers) == count
    assert (numbers[0], numbers[-1]) == (0, 39)


class Images(Made):
    """Gives images of Pillow's before a random transform: always the same, but nothing that a store takes."""

    def __init__(self) -> None:
        self.transform = lambda image: torch.from_numpy(np.array(image)) + torch.rand(1)

    def __getitem__(self, number: int) -> Any:
        image: Any = Image.new("RGB", (4, 4), (number, 0, 0))
        return (image if self.transform is None else self.transform(image)), number


def test_what_cannot_be_packed_is_information(trials: list[PackTrial], monkeypatch: pytest.MonkeyPatch) -> None:
    for first, said in ((0.9, True), (0.3, False)):  # seconds of eight samples up to the transform, of 1.2 in all
        clock = iter([0.0, 0.1, 0.0, first, 1.0, 2.2])  # the first two: of one sample
        monkeypatch.setattr(cacheable, "perf_counter", lambda clock=clock: next(clock))
        found = judged(evidence_of(DataLoader(Images(), batch_size=10)))
        assert len(found) == said
        for finding in found:
            assert finding.level == "info"
            assert finding.saves_ms is None
            for word in ("without its transform", "75%", "112 ms of 150 ms", "no tensor"):
                assert word in finding.message


def test_iterators_for_every_batch_come_first(trials: list[PackTrial]) -> None:
    evidence = evidence_of(DataLoader(Made(), batch_size=10))
    evidence.loaders[0].epochs = evidence.loaders[0].batches = 60
    with pytest.raises(Abstain, match="a new iterator is begun for every batch"):
        judged(evidence)
