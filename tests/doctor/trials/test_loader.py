"""A loader tried with other settings. What is decided from times is tested with times made up."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    TensorDataset,
)

from cordwood.doctor.evidence.findings import Abstain
from cordwood.doctor.measure.stand_in_step import Consumer
from cordwood.doctor.trials import loader as loadertrial
from cordwood.doctor.trials.loader import (
    Setting,
    SettingsTrial,
    as_in_the_run,
    candidates,
    check_can_try,
    index_batches,
    iteration_ms,
    setting_of,
    trial_loader,
    try_persistent,
    try_settings,
)


class Uncopied(Dataset[torch.Tensor]):
    """Large: whoever copies it has done something wrong."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([index, int(torch.rand(()) < 2)])

    def __deepcopy__(self, memo: Any) -> "Uncopied":
        raise AssertionError("the dataset was copied")


def test_candidates_go_up_to_the_number_of_cores() -> None:
    assert candidates(Setting(0, None), 2) == [Setting(1, 2), Setting(2, 2)]
    assert [each.num_workers for each in candidates(Setting(0, None), 6)] == [1, 2, 4, 6]
    assert candidates(Setting(2, 4), 2) == [Setting(0, None), Setting(1, 4)]
    assert candidates(Setting(1, 2), 1) == [Setting(0, None)]


def test_settings_as_code() -> None:
    assert Setting(0, None).code() == "num_workers=0"
    assert Setting(2, 2).code() == "num_workers=2"
    assert Setting(2, 4).code() == "num_workers=2, prefetch_factor=4"
    assert setting_of(DataLoader(Uncopied(), num_workers=1, prefetch_factor=5)) == Setting(1, 5)
    assert setting_of(DataLoader(Uncopied())) == Setting(0, None)


# ---- copies ----------------------------------------------------------------------------------------------------------


def test_indices_are_the_samplers_and_the_sampler_is_not_touched() -> None:
    generator = torch.Generator().manual_seed(5)
    loader = DataLoader(Uncopied(), batch_size=3, shuffle=True, generator=generator)
    before = generator.get_state()
    batches = index_batches(loader, 9)  # more than an epoch of seven
    assert torch.equal(generator.get_state(), before)
    assert batches[:7] == list(loader.batch_sampler)  # type: ignore[arg-type]
    assert len(batches) == 9


def test_samplers_of_the_users_own() -> None:
    class Odd(Sampler[int]):
        def __init__(self) -> None:
            self.calls = 0

        def __iter__(self) -> Iterator[int]:
            self.calls += 1
            return iter([1, 3, 5])

    sampler = Odd()
    assert index_batches(DataLoader(Uncopied(), batch_size=None, sampler=sampler), 4) == [1, 3, 5, 1]
    loader = DataLoader(Uncopied(), batch_sampler=BatchSampler(sampler, 2, drop_last=False))
    assert index_batches(loader, 3) == [[1, 3], [5], [1, 3]]
    assert sampler.calls == 0


def test_samplers_that_cannot_be_copied_or_give_nothing() -> None:
    class Stuck(Sampler[int]):
        def __iter__(self) -> Iterator[int]:
            return iter([1])

        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("cannot pickle a lock")

    with pytest.raises(Abstain, match="cannot be copied: TypeError: cannot pickle a lock"):
        index_batches(DataLoader(Uncopied(), sampler=Stuck()), 3)
    with pytest.raises(Abstain, match="no batches"):
        index_batches(DataLoader(Uncopied(), sampler=[]), 3)


def collate(samples: list[Any]) -> Any:
    return len(samples), torch.stack(samples)


def test_a_copy_gives_what_the_loader_gives() -> None:
    loader = DataLoader(Uncopied(), batch_size=6, collate_fn=collate, timeout=0)
    batches = index_batches(loader, 4)
    for setting in (Setting(0, None), Setting(1, 3)):
        copy = trial_loader(loader, batches, setting)
        assert copy.dataset is loader.dataset
        assert (copy.num_workers, copy.prefetch_factor, copy.persistent_workers) == (*setting, False)
        assert all(
            ours[0] == theirs[0] and torch.equal(ours[1], theirs[1]) for ours, theirs in zip(copy, loader, strict=True)
        )
    assert trial_loader(loader, batches, Setting(2, 2), persistent=True).persistent_workers
    assert trial_loader(loader, batches, Setting(2, 2)).timeout > 0  # a dataset that hangs in workers ends the trial


def test_a_copy_of_a_loader_without_batches() -> None:
    loader = DataLoader(Uncopied(), batch_size=None, sampler=[4, 2])
    copy = trial_loader(loader, index_batches(loader, 2), Setting(0, None))
    assert [int(sample[0]) for sample in copy] == [4, 2]


def test_loaders_that_cannot_be_tried() -> None:
    class Stream(IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            return iter(range(3))

    class Own(DataLoader[Any]):
        def __iter__(self) -> Any:
            return super().__iter__()

    check_can_try(DataLoader(Uncopied()))
    with pytest.raises(Abstain, match="IterableDataset"):
        check_can_try(DataLoader(Stream()))
    with pytest.raises(Abstain, match="Own iterates in a way of its own"):
        check_can_try(Own(Uncopied()))
    with pytest.raises(Abstain, match="list is not a DataLoader"):
        check_can_try([1, 2])


# ---- decisions -------------------------------------------------------------------------------------------------------


class MadeUp:
    """Turns that take what a table says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: dict[Setting, float]) -> None:
        self.turns: list[Setting] = []
        monkeypatch.setattr(loadertrial.Turn, "ms", lambda _, setting, consumer: self._ms(setting))
        self._times = times

    def _ms(self, setting: Setting) -> float:
        self.turns.append(setting)
        time = self._times.get(setting, 1000.0)
        if time < 0:
            raise RuntimeError("DataLoader worker exited unexpectedly\nwith more lines")
        return time


def run(loader: DataLoader[Any], step_ms: float, cores: int = 4) -> loadertrial.SettingsTrial:
    return try_settings(loader, busy_ms=0.0, step_ms=step_ms, seconds=60.0, cores=cores)


def test_the_best_takes_turns_with_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {Setting(0, None): 50.0, Setting(1, 2): 30.0, Setting(2, 2): 20.0, Setting(4, 2): 25.0, Setting(2, 4): 19.9}
    turns = MadeUp(monkeypatch, times)
    trial = run(DataLoader(Uncopied()), 50.0)
    assert trial.current == Setting(0, None)
    assert trial.best == Setting(2, 2)
    assert trial.gain is not None
    assert (trial.gain.saves_ms, trial.gain.before_ms, trial.gain.after_ms) == (30.0, 50.0, 20.0)
    assert set(trial.tried) == {Setting(0, None), Setting(1, 2), Setting(2, 2), Setting(4, 2)}
    assert turns.turns.count(Setting(2, 2)) > 3


def test_a_longer_queue_is_advised_only_where_it_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    MadeUp(monkeypatch, {Setting(0, None): 50.0, Setting(1, 2): 30.0, Setting(1, 4): 20.0})
    trial = run(DataLoader(Uncopied()), 50.0, cores=1)
    assert trial.best == Setting(1, 4)


def test_fewer_workers_are_preferred_where_more_are_no_better(monkeypatch: pytest.MonkeyPatch) -> None:
    MadeUp(monkeypatch, {Setting(0, None): 50.0, Setting(1, 2): 20.3, Setting(2, 2): 20.0, Setting(4, 2): 20.1})
    assert run(DataLoader(Uncopied()), 50.0).best == Setting(1, 2)


def test_what_is_there_stays_if_nothing_is_better(monkeypatch: pytest.MonkeyPatch) -> None:
    MadeUp(monkeypatch, {Setting(0, None): 50.0, Setting(1, 2): 20.0, Setting(2, 2): 20.4, Setting(4, 2): 21.0})
    trial = run(DataLoader(Uncopied(), num_workers=2), 20.4)
    assert trial.best == trial.current == Setting(2, 2)
    assert trial.gain is None


def test_no_workers_may_be_best(monkeypatch: pytest.MonkeyPatch) -> None:
    MadeUp(monkeypatch, {Setting(0, None): 5.0, Setting(1, 2): 9.0, Setting(2, 2): 9.0})
    assert run(DataLoader(Uncopied(), num_workers=2), 9.0).best == Setting(0, None)


def test_more_workers_are_not_tried_once_they_are_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = MadeUp(monkeypatch, {Setting(0, None): 50.0, Setting(1, 2): 20.0, Setting(2, 2): 30.0})
    run(DataLoader(Uncopied()), 50.0, cores=16)
    assert Setting(4, 2) not in turns.turns


def test_settings_that_fail_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    MadeUp(monkeypatch, {Setting(0, None): 50.0, Setting(1, 2): -1.0, Setting(2, 2): -1.0, Setting(4, 2): -1.0})
    trial = run(DataLoader(Uncopied()), 50.0)
    assert trial.gain is None
    assert trial.failed[Setting(1, 2)] == "RuntimeError: DataLoader worker exited unexpectedly"


def test_a_loader_that_fails_as_it_is_gives_no_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    MadeUp(monkeypatch, {Setting(0, None): -1.0})
    with pytest.raises(Abstain, match="could not be tried: RuntimeError: DataLoader worker exited"):
        run(DataLoader(Uncopied()), 50.0)


def test_the_stand_in_meets_the_step_of_the_run() -> None:
    whole = Consumer(10.0)
    # Workers take half of the cores: work takes twice as long, and that is in the 10 ms already.
    adjusted = as_in_the_run(whole, lambda consumer: 2 * consumer.busy_ms, 10.0)
    assert adjusted.busy_ms == pytest.approx(5.0)
    assert as_in_the_run(whole, lambda consumer: consumer.busy_ms, 10.0) is whole
    assert as_in_the_run(whole, lambda consumer: 100.0, 10.0).busy_ms == pytest.approx(5.0)  # never less than half


@pytest.mark.parametrize(("second", "disagree"), [((30.0, 30.0), False), ((30.0, 70.0), True)])
def test_turns_that_disagree_are_told_of(
    second: tuple[float, float], disagree: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = itertools.cycle(second)

    def ms(turn: Any, setting: Setting, consumer: Consumer) -> float:
        return next(turns) if screened and setting.num_workers else 50.0 - 20.0 * setting.num_workers

    def screen(trial: SettingsTrial, *others: Any) -> None:
        trial.tried[Setting(1, 2)] = 30.0
        screened.append(True)

    screened: list[bool] = []
    monkeypatch.setattr(loadertrial.Turn, "ms", ms)
    monkeypatch.setattr(loadertrial, "_screen", screen)
    trial = try_settings(DataLoader(TensorDataset(torch.arange(8.0))), busy_ms=0.0, step_ms=50.0, seconds=0.1)
    assert trial.gain is not None
    assert trial.turns_disagree is disagree


# ---- for real --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 1])
def test_a_real_trial_leaves_everything_as_it_was(workers: int) -> None:
    dataset = TensorDataset(torch.arange(64.0))
    generator = torch.Generator().manual_seed(1)
    loader = DataLoader(dataset, batch_size=4, shuffle=True, num_workers=workers, generator=generator)
    before = generator.get_state()
    trial = try_settings(loader, busy_ms=0.1, step_ms=50.0, seconds=0.1, cores=2)
    assert trial.current == Setting(workers, 2 if workers else None)
    assert trial.current in trial.tried
    assert all(ms > 0 for ms in trial.tried.values())
    assert torch.equal(generator.get_state(), before)
    assert isinstance(loader.sampler, RandomSampler)


def test_generators_of_a_dataset_are_not_drawn_from() -> None:
    class Noisy(Dataset[float]):
        def __init__(self) -> None:
            self.chance = np.random.default_rng(4)

        def __len__(self) -> int:
            return 40

        def __getitem__(self, index: int) -> float:
            return float(self.chance.random())

    dataset = Noisy()
    try_settings(DataLoader(dataset, batch_size=4), busy_ms=0.0, step_ms=50.0, seconds=0.1, cores=1)
    assert dataset.chance.random() == np.random.default_rng(4).random()


def test_a_real_trial_of_workers_that_live_on() -> None:
    loader = DataLoader(TensorDataset(torch.arange(64.0)), batch_size=4, num_workers=1)
    gain = try_persistent(loader, busy_ms=0.0, batches=16, seconds=0.1)
    assert gain.pairs == 5
    assert min(gain.before_ms, gain.after_ms) > 0


def test_iterations_are_counted_after_the_first_ones() -> None:
    worked: list[int] = []

    class Counted(Consumer):
        def work(self) -> None:
            worked.append(1)

    loader = DataLoader(TensorDataset(torch.arange(12.0)), sampler=SequentialSampler(range(12)))
    assert iteration_ms(loader, Counted(0.0), skip=2, count=5) > 0
    assert len(worked) == 7
