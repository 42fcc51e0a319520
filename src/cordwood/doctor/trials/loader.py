"""Tries the user's DataLoader with other numbers of workers, on the same dataset in the same order.

    trial = try_settings(loader, busy_ms=31.0, step_ms=52.0, seconds=20.0)
    trial.best.code()                           # "num_workers=2"
    trial.gain.saves_ms                         # of a batch and the work that training does with it
    try_persistent(loader, busy_ms=31.0, batches=40, seconds=10.0).saves_ms     # of an epoch

Batches are consumed by a loop that works as training does, since workers and training share the cores. The user's
loader, sampler and generators are left as they are: indices come from copies.
"""

import copy
import itertools
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader, IterableDataset

from cordwood.doctor.evidence.findings import Abstain
from cordwood.doctor.measure.determinism import set_apart
from cordwood.doctor.measure.environment import usable_cores
from cordwood.doctor.measure.pairs import OVERTIME_SECONDS, Gain, careful, paired
from cordwood.doctor.measure.stand_in_step import Consumer

_BATCHES = (8, 400)  # in a turn, at least and at most
_TURN_SHARE = 1 / 30  # of the time to spend
_TURN_SECONDS = (0.15, 0.8)
_SCREENING_SHARE = 0.5  # of the time to spend: two turns for each setting, to find the best
_EPOCH_BATCHES = 16  # of a long epoch, in which workers are started
_MOST_SKIPPED = 24  # batches at the start of a turn
_HANGS_SECONDS = 60.0  # without a batch
_WORSE = 1.10  # than the best so far: more workers will not help
_BETTER = 0.90  # than with the usual prefetch factor: worth one more setting
_SAME = 0.97  # of the time of now, or more: not worth a change
_CLOSE = 0.07  # to the step that was measured in the run
_MORE_AHEAD = 4  # prefetch_factor that is tried beside the usual one


class Setting(NamedTuple):
    """How a loader loads."""

    num_workers: int
    prefetch_factor: int | None  # None without workers

    def code(self, usual_prefetch: int | None = 2) -> str:
        """As it is written in a call."""
        text = f"num_workers={self.num_workers}"
        return (
            text
            if self.prefetch_factor in (None, usual_prefetch)
            else f"{text}, prefetch_factor={self.prefetch_factor}"
        )


@dataclass
class SettingsTrial:
    """What came of it; times are of one batch with the work that training does with it."""

    current: Setting
    best: Setting
    gain: Gain | None = None  # of the best against the current setting; None if the current one is the best
    tried: dict[Setting, float] = field(default_factory=dict)  # milliseconds, in the faster of two turns
    failed: dict[Setting, str] = field(default_factory=dict)
    turns_disagree: bool = False  # the best was faster than the current setting in some turns, and not in others


def candidates(current: Setting, cores: int) -> list[Setting]:
    """Settings to try beside the current one, workers ascending up to the number of cores."""
    numbers = [0, *(1 << power for power in range(cores.bit_length()) if 1 << power <= cores), cores]
    ahead = current.prefetch_factor or 2
    found = (Setting(number, ahead if number else None) for number in dict.fromkeys(numbers))
    return [setting for setting in found if setting.num_workers != current.num_workers]


# ---- copies of a loader ----------------------------------------------------------------------------------------------


def check_can_try(loader: Any) -> None:
    """Abstain if this loader cannot be tried in other ways."""
    if not isinstance(loader, DataLoader):
        raise Abstain(f"{type(loader).__name__} is not a DataLoader, and has no workers to try")
    if type(loader).__iter__ is not DataLoader.__iter__ or type(loader)._get_iterator is not DataLoader._get_iterator:
        raise Abstain(
            f"{type(loader).__name__} iterates in a way of its own, which cannot be tried with other settings"
        )
    if isinstance(loader.dataset, IterableDataset):
        raise Abstain(
            "the dataset is an IterableDataset: whether it gives each worker a part of its own is not known, "
            "so other numbers of workers are not tried"
        )


def check_is_alone() -> None:
    """Abstain if other ranks of the same job run beside this one."""
    if int(os.environ.get("WORLD_SIZE", "1") or 1) > 1:
        raise Abstain("several ranks share these cores: a trial in one of them would not show what training does")


def own_sampler(loader: Any) -> Any:
    """A copy of what gives the loader its indices, as they are given to it: of batches, or of single samples."""
    sampler = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
    try:
        # The dataset is the only large thing that samplers hold, and it is only asked for its length.
        return copy.deepcopy(sampler, {id(loader.dataset): loader.dataset})
    except Exception as error:
        raise Abstain(f"the loader's sampler cannot be copied: {type(error).__name__}: {error}") from error


def index_batches(loader: Any, count: int) -> list[Any]:
    """What the loader's sampler would give next, as often as needed; the sampler itself is not touched."""
    own = own_sampler(loader)
    try:
        passes = (iter(own) for _ in range(count))  # one batch a pass at least, or the loader is empty
        found = list(itertools.islice(itertools.chain.from_iterable(passes), count))
    except Exception as error:
        raise Abstain(f"the loader's sampler gives no indices: {type(error).__name__}: {error}") from error
    if len(found) < count:
        raise Abstain("the loader gives no batches")
    return found


def trial_loader(
    loader: Any,
    batches: Any,
    setting: Setting,
    *,
    dataset: Any = None,
    persistent: bool = False,
    whole: bool = False,
) -> DataLoader[Any]:
    """The user's loader once more, over given indices, with another setting and a generator of its own.

    ``dataset`` stands in for the loader's, such as a copy that is set apart. ``whole`` asks it for all samples of a
    batch at once, by their list of indices, so that there is nothing to collate.
    """
    workers = setting.num_workers
    automatic = loader.batch_sampler is not None and not whole
    return DataLoader(
        loader.dataset if dataset is None else dataset,
        batch_size=1 if automatic else None,
        batch_sampler=batches if automatic else None,
        sampler=None if automatic else batches,
        num_workers=workers,
        collate_fn=None if whole else loader.collate_fn,
        pin_memory=loader.pin_memory,
        timeout=max(loader.timeout, _HANGS_SECONDS) if workers else 0,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context if workers else None,
        generator=torch.Generator().manual_seed(0),
        prefetch_factor=setting.prefetch_factor if workers else None,
        persistent_workers=persistent and workers > 0,
    )


def setting_of(loader: Any) -> Setting:
    """The setting that a loader has."""
    return Setting(loader.num_workers, loader.prefetch_factor if loader.num_workers else None)


# ---- settings --------------------------------------------------------------------------------------------------------


def try_settings(
    loader: Any,
    *,
    busy_ms: float,
    step_ms: float,
    seconds: float,
    cores: int | None = None,
    device: str | torch.device = "cpu",
) -> SettingsTrial:
    """The best setting for a loader whose batches cost training ``busy_ms`` of work, and ``step_ms`` with the waiting.

    All settings get two turns each; the best then takes turns with the current one, and that gives the gain.
    """
    check_can_try(loader)
    end = perf_counter() + seconds
    current = setting_of(loader)
    trial = SettingsTrial(current, current)
    with quiet():
        turn = Turn(loader, step_ms, seconds)
        consumer = Consumer(busy_ms, device, end + OVERTIME_SECONDS)
        try:
            if current.num_workers:
                consumer = as_in_the_run(consumer, lambda other: turn.ms(current, other), step_ms)
            trial.tried[current] = turn.ms(current, consumer)
        except Abstain:
            raise
        except Exception as error:
            raise Abstain(f"the loader could not be tried: {brief(error)}") from error
        _screen(trial, turn, consumer, end - seconds * (1 - _SCREENING_SHARE), cores or usable_cores())
        trial.best = _simplest(trial)
        if trial.best != current:
            times = paired(lambda: turn.ms(current, consumer), lambda: turn.ms(trial.best, consumer), end)
            trial.gain = careful(times)
            trial.turns_disagree = len({before > after for before, after in times}) > 1
    return trial


def _screen(trial: SettingsTrial, turn: "Turn", consumer: Consumer, end: float, cores: int) -> None:
    for setting in candidates(trial.current, cores):
        if perf_counter() > end:
            return
        _try(trial, turn, consumer, setting)
        if trial.tried.get(setting, 0.0) > _WORSE * min(trial.tried.values()) and setting.num_workers > 1:
            break
    for setting in list(trial.tried):  # once more: a turn in a busy moment would hide a good setting
        if perf_counter() > end:
            return
        _try(trial, turn, consumer, setting)
    best = min(trial.tried, key=lambda setting: trial.tried[setting])
    if best.num_workers and (best.prefetch_factor or 0) < _MORE_AHEAD and perf_counter() < end:
        before = trial.tried[best]
        ahead = best._replace(prefetch_factor=_MORE_AHEAD)
        _try(trial, turn, consumer, ahead)
        if trial.tried.get(ahead, before) > _BETTER * before:
            trial.tried.pop(ahead, None)


def _try(trial: SettingsTrial, turn: "Turn", consumer: Consumer, setting: Setting) -> None:
    try:
        trial.tried[setting] = min(turn.ms(setting, consumer), trial.tried.get(setting, math.inf))
    except Abstain:
        raise
    except Exception as error:  # whatever a dataset does that was never meant for workers
        trial.failed[setting] = brief(error)


def brief(error: Exception) -> str:
    """What was raised, in a line."""
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _simplest(trial: SettingsTrial) -> Setting:
    """The setting to advise: of those about as good as the best the current one, or that with the fewest workers."""
    least = min(trial.tried.values())
    good = [setting for setting, ms in trial.tried.items() if ms * _SAME <= least]
    if trial.current in good:
        return trial.current
    return min(good, key=lambda setting: (setting.num_workers, setting.prefetch_factor or 0))


class Turn:
    """One loader, started anew, for a fixed number of batches."""

    def __init__(self, loader: Any, step_ms: float, seconds: float) -> None:
        self._loader = loader
        self._dataset = set_apart(loader.dataset)  # without workers, fetches would draw from its own generators
        long = min(max(seconds * _TURN_SHARE, _TURN_SECONDS[0]), _TURN_SECONDS[1])
        self._count = int(min(max(long * 1e3 / max(step_ms, 0.01), _BATCHES[0]), _BATCHES[1]))

    def ms(self, setting: Setting, consumer: Consumer, *, whole: bool = False) -> float:
        """Milliseconds of a batch and the work with it."""
        workers = max(setting.num_workers, 1)
        ahead = setting.num_workers * (setting.prefetch_factor or 0)
        skip = 1 + min(ahead, _MOST_SKIPPED)
        count = -(-self._count // workers) * workers  # workers deliver in bursts: whole bursts
        # At the end workers have nothing left to do, and cores are free: the turn is over before that.
        batches = index_batches(self._loader, skip + count + ahead)
        loader = trial_loader(self._loader, batches, setting, dataset=self._dataset, whole=whole)
        return iteration_ms(loader, consumer, skip, count)


def iteration_ms(loader: Iterable[Any], consumer: Consumer, skip: int, count: int) -> float:
    """Milliseconds of getting a batch and working with it, over ``count`` batches after the first ones."""
    batches = iter(loader)
    for _ in range(skip):
        next(batches)
        consumer.work()
    begin = perf_counter()
    for _ in range(count):
        next(batches)
        consumer.work()
    return (perf_counter() - begin) * 1e3 / count


def as_in_the_run(consumer: Consumer, measure: Callable[[Consumer], float], step_ms: float) -> Consumer:
    """A consumer with which the current setting takes as long as in the run.

    Workers slowed the measured step down, and would slow its stand-in down a second time, so it gets less to do.
    """
    whole = consumer.busy_ms
    for _ in range(2):
        off = measure(consumer) - step_ms
        if not consumer.busy_ms or abs(off) <= _CLOSE * step_ms:
            break
        consumer = consumer.scaled(min(max(consumer.busy_ms - off, whole / 2), whole) / consumer.busy_ms)
    return consumer


# ---- workers that live on --------------------------------------------------------------------------------------------


def try_persistent(
    loader: Any, *, busy_ms: float, batches: int, seconds: float, device: str | torch.device = "cpu"
) -> Gain:
    """What an epoch of so many batches gains if workers live on from one to the next: both ways in turns.

    Of a long epoch only the beginning is tried: what starting costs is paid there.
    """
    check_can_try(loader)
    end = perf_counter() + seconds
    setting = setting_of(loader)
    with quiet():
        whole = min(max(batches, 2), max(_EPOCH_BATCHES, 2 * setting.num_workers))
        indices = index_batches(loader, whole)
        consumer = Consumer(busy_ms, device, end + OVERTIME_SECONDS)
        anew = trial_loader(loader, indices, setting)
        living = trial_loader(loader, indices, setting, persistent=True)
        _epoch_ms(living, consumer)  # starts its workers
        return careful(paired(lambda: _epoch_ms(anew, consumer), lambda: _epoch_ms(living, consumer), end))


def _epoch_ms(loader: DataLoader[Any], consumer: Consumer) -> float:
    begin = perf_counter()
    for _ in loader:
        consumer.work()
    return (perf_counter() - begin) * 1e3


@contextmanager
def quiet() -> Iterator[None]:
    """Warnings about settings that are only tried are nobody's business."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
