"""What the rule about a loader's settings says, with trials made up."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from cordwood.doctor.evidence.evidence import Evidence, LoaderSeen
from cordwood.doctor.evidence.findings import Abstain, CodeLine
from cordwood.doctor.measure.pairs import Gain
from cordwood.doctor.rules.data import workers as rule
from cordwood.doctor.rules.data.workers import Workers
from cordwood.doctor.trials.loader import Setting, SettingsTrial
from tests.doctor.support.evidences import make_evidence

MADE = CodeLine("train.py", 30, "main", "loader = DataLoader(data)")
ITERATED = CodeLine("train.py", 40, "main", "for batch in loader:")
GAIN = Gain(saves_ms=20.0, spread_ms=1.0, before_ms=50.0, after_ms=30.0, pairs=7)


def evidence_of(workers: int = 0, epochs: int = 1, wait: float = 30.0, **others: Any) -> Evidence:
    loader = DataLoader(TensorDataset(torch.arange(64.0)), num_workers=workers)
    evidence = make_evidence(wait=wait, forward=20.0, **others)
    evidence.loaders.append(LoaderSeen(loader, ITERATED, MADE, batches=60 * epochs, epochs=epochs, is_training=True))
    return evidence


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


@pytest.fixture
def trial(monkeypatch: pytest.MonkeyPatch) -> Callable[[SettingsTrial], dict[str, Any]]:
    def prepared(result: SettingsTrial) -> dict[str, Any]:
        asked: dict[str, Any] = {}

        def try_settings(loader: Any, **options: Any) -> SettingsTrial:
            asked.update(options)
            return result

        monkeypatch.setattr(rule, "try_settings", try_settings)
        return asked

    monkeypatch.setattr(rule, "try_settings", lambda *_, **__: pytest.fail("no trial was due"))
    monkeypatch.setattr(rule, "try_persistent", lambda *_, **__: pytest.fail("no trial was due"))
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    return prepared


Trial = Callable[[SettingsTrial], dict[str, Any]]


def better(gain: Gain | None = GAIN) -> SettingsTrial:
    tried = {Setting(0, None): 51.0, Setting(1, 2): 38.0, Setting(2, 2): 29.0}
    return SettingsTrial(Setting(0, None), Setting(2, 2), gain, tried, {Setting(4, 2): "RuntimeError: no"})


def test_a_measured_gain_is_told(trial: Trial) -> None:
    asked = trial(better())
    (finding,) = Workers().judge(evidence_of(jitter=0.0))
    assert asked["busy_ms"] == pytest.approx(20.0)
    assert asked["step_ms"] == pytest.approx(50.0)
    assert asked["seconds"] == 20.0
    assert finding.rule == "workers"
    assert finding.place == MADE
    assert finding.fix == "DataLoader(..., num_workers=2)"
    assert (finding.saves_ms, finding.spread_ms, finding.verified) == (20.0, 1.0, "trial")
    assert "num_workers=2 in place of num_workers=0" in finding.message
    (table,) = finding.details
    assert table.heads == ("setting", "a first look", "in 7 turns")
    assert table.rows == (
        ("num_workers=0", "51.0 ms", "50.0 ms"),
        ("num_workers=1, prefetch_factor=2", "38.0 ms", ""),
        ("num_workers=2, prefetch_factor=2", "29.0 ms", "30.0 ms"),
        ("num_workers=4, prefetch_factor=2", "RuntimeError: no", ""),
    )


def test_without_workers_a_loader_takes_no_settings_of_theirs(trial: Trial) -> None:
    found = better()
    found.current, found.best = Setting(2, 4), Setting(0, None)
    trial(found)
    evidence = evidence_of(2)
    evidence.loaders[0].loader = DataLoader(range(4), num_workers=2, prefetch_factor=4, persistent_workers=True)  # type: ignore[arg-type]
    (finding,) = Workers().judge(evidence)
    assert finding.fix == (
        "DataLoader(..., num_workers=0)    # without workers, and so without persistent_workers and prefetch_factor"
    )


@pytest.mark.parametrize(("workers", "saves"), [(0, 12.0), (1, 20.0)])
def test_no_more_is_promised_than_is_waited_where_nothing_competes(workers: int, saves: float, trial: Trial) -> None:
    found = better()
    found.current = Setting(workers, 2 if workers else None)
    trial(found)
    (finding,) = Workers().judge(evidence_of(workers, wait=12.0, jitter=0.0, backward=18.0))
    assert finding.saves_ms == pytest.approx(saves)


def test_workers_of_several_epochs_are_to_live_on(trial: Trial) -> None:
    trial(better())
    (finding,) = Workers().judge(evidence_of(epochs=3))
    assert finding.fix == "DataLoader(..., num_workers=2, persistent_workers=True)"


def test_a_step_of_several_batches_gains_several_times(trial: Trial) -> None:
    asked = trial(better(replace(GAIN, before_ms=12.5, after_ms=7.5, saves_ms=5.0, spread_ms=0.1)))
    evidence = evidence_of(jitter=0.0)
    evidence.micro_batches = 4.0
    (finding,) = Workers().judge(evidence)
    assert asked["step_ms"] == pytest.approx(12.5)
    assert finding.saves_ms == pytest.approx(20.0)
    assert finding.spread_ms == pytest.approx(0.5)


@pytest.mark.parametrize(
    "gain",
    [
        replace(GAIN, spread_ms=8.0),  # not beyond three spreads
        replace(GAIN, saves_ms=1.2, after_ms=48.8, spread_ms=0.01),  # less than 3% of a step
        replace(GAIN, saves_ms=1.5, after_ms=48.5, spread_ms=0.0),  # turns that agree by chance
        replace(GAIN, saves_ms=-3.0),
    ],
)
def test_small_or_doubtful_gains_are_not_told(trial: Trial, gain: Gain) -> None:
    trial(better(gain))
    assert Workers().judge(evidence_of()) == []


def test_the_best_may_be_what_is_there(trial: Trial) -> None:
    trial(SettingsTrial(Setting(0, None), Setting(0, None), None, {Setting(0, None): 50.0, Setting(1, 2): 60.0}))
    evidence = evidence_of()
    assert Workers().judge(evidence) == []
    assert evidence.notes == ["workers: tried num_workers 0, 1: the best is what you have"]


@pytest.mark.parametrize("disagree", [False, True])
def test_a_setting_that_turns_out_slower_is_no_doubt_about_what_is_there(trial: Trial, disagree: bool) -> None:
    trial(replace(better(replace(GAIN, saves_ms=-1.8, after_ms=51.8)), turns_disagree=disagree))
    evidence = evidence_of()
    assert Workers().judge(evidence) == []
    assert evidence.notes == ["workers: tried num_workers 0, 1, 2: the best is what you have"]


def test_iterators_for_every_batch_come_first(trial: Trial) -> None:
    evidence = evidence_of(workers=2, epochs=60)
    evidence.loaders[0].batches = 60
    with pytest.raises(Abstain, match="a new iterator is begun for every batch"):
        Workers().judge(evidence)


def test_turns_that_disagree_have_no_spread_to_tell(trial: Trial) -> None:
    unsure = better(replace(GAIN, saves_ms=20.0, spread_ms=20.0))
    evidence = evidence_of()
    trial(unsure)
    assert Workers().judge(evidence) == []
    assert "20.0 ± 20.0 ms faster" in evidence.notes[0]
    evidence = evidence_of()
    trial(replace(unsure, turns_disagree=True))
    assert Workers().judge(evidence) == []
    assert evidence.notes == [
        "workers: num_workers=2 is 20.0 ms faster than 50.0 ms in the middle of a trial's turns, but slower in some of "
        "them: too unsure to advise it"
    ]


def test_where_there_was_no_time_to_try_anything_nothing_is_known(trial: Trial) -> None:
    trial(SettingsTrial(Setting(0, None), Setting(0, None), None, {Setting(0, None): 50.0}))
    with pytest.raises(Abstain, match="took longer than the time"):
        Workers().judge(evidence_of())


@pytest.mark.parametrize(("before", "why"), [(20.0, "come from memory"), (100.0, "busier now")])
def test_a_trial_unlike_the_run_shows_nothing(trial: Trial, before: float, why: str) -> None:
    trial(better(replace(GAIN, before_ms=before, after_ms=before / 2, saves_ms=before / 2)))
    with pytest.raises(Abstain, match=why):
        Workers().judge(evidence_of())


def test_loaders_that_nobody_waits_for_are_not_tried(trial: Trial) -> None:
    assert Workers().judge(evidence_of(wait=0.9)) == []


def test_when_it_abstains(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Abstain, match="10 undisturbed training steps"):
        Workers().judge(evidence_of(steps=10))
    none = evidence_of()
    none.seconds_to_spend = 0.0
    with pytest.raises(Abstain, match="no time"):
        Workers().judge(none)
    stream = evidence_of()
    stream.loaders[0].loader = DataLoader(Stream())
    with pytest.raises(Abstain, match="IterableDataset"):
        Workers().judge(stream)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(Abstain, match="several ranks"):
        Workers().judge(evidence_of())


# ---- workers that live on --------------------------------------------------------------------------------------------

EPOCH = Gain(saves_ms=240.0, spread_ms=12.0, before_ms=300.0, after_ms=60.0, pairs=7)


def test_starting_workers_for_short_epochs_costs(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule, "try_persistent", lambda loader, **options: EPOCH)
    evidence = evidence_of(workers=2, epochs=5, wait=0.5, first_waits=[900.0, 250.0, 250.0, 250.0])
    (finding,) = Workers().judge(evidence)
    assert finding.fix == "DataLoader(..., num_workers=2, persistent_workers=True)"
    assert finding.place == MADE
    assert finding.saves_ms == pytest.approx(240.0 / 60)
    assert finding.spread_ms == pytest.approx(12.0 / 60)
    assert "each epoch of 60 steps" in finding.message


@pytest.mark.parametrize(
    ("workers", "epochs", "first_wait"),
    [(2, 5, 20.0), (2, 1, 200.0), (0, 5, 200.0)],
    ids=["cheap", "one epoch", "no workers"],
)
def test_where_starting_costs_nothing_there_is_no_trial(
    trial: Trial, workers: int, epochs: int, first_wait: float
) -> None:
    assert Workers().judge(evidence_of(workers=workers, epochs=epochs, wait=0.5, first_waits=[first_wait] * 5)) == []


def test_no_more_is_promised_than_all_waiting_of_an_epoch(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule, "try_persistent", lambda loader, **options: replace(EPOCH, saves_ms=1000.0))
    evidence = evidence_of(workers=2, epochs=5, wait=0.5, first_waits=[200.0] * 5)
    (finding,) = Workers().judge(evidence)
    assert evidence.steps is not None
    assert finding.saves_ms == pytest.approx((200.0 + 59 * evidence.steps.phase_ms("wait")) / 60)


def test_a_doubtful_gain_of_living_workers_is_not_told(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule, "try_persistent", lambda loader, **options: replace(EPOCH, spread_ms=100.0))
    assert Workers().judge(evidence_of(workers=2, epochs=5, wait=0.5, first_waits=[200.0] * 5)) == []
