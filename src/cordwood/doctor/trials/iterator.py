"""Measures what it costs to start the user's DataLoader anew for every batch instead of once.

    try_one_iterator(loader, busy_ms=31.0, step_ms=160.0, seconds=10.0).saves_ms    # of a batch

``next(iter(loader))`` shuffles all indices for one batch, and starts and stops the workers; what they have prepared
ahead is thrown away. Here indices come from a copy of the sampler itself, since its shuffling is part of the cost.
"""

from collections.abc import Iterator
from time import perf_counter
from typing import Any

from torch.utils.data import DataLoader

from cordwood.doctor.evidence.findings import Abstain
from cordwood.doctor.measure.determinism import set_apart
from cordwood.doctor.measure.pairs import OVERTIME_SECONDS, Gain, in_turns
from cordwood.doctor.measure.stand_in_step import Consumer
from cordwood.doctor.trials.loader import (
    as_in_the_run,
    brief,
    check_can_try,
    iteration_ms,
    own_sampler,
    quiet,
    setting_of,
    trial_loader,
)

_BATCHES = (6, 200)  # in a turn, at least and at most
_TURN_SHARE = 1 / 30  # of the time to spend
_MOST_SKIPPED = 24  # batches at the start of a turn


def try_one_iterator(loader: Any, *, busy_ms: float, step_ms: float, seconds: float, device: Any = "cpu") -> Gain:
    """What one iterator saves of a batch and the work with it, both ways in turns.

    With workers the one iterator's live on from epoch to epoch, as in the code that is advised.
    """
    check_can_try(loader)
    end = perf_counter() + seconds
    count = int(min(max(seconds * _TURN_SHARE * 1e3 / max(step_ms, 0.01), _BATCHES[0]), _BATCHES[1]))
    setting, sampler, dataset = setting_of(loader), own_sampler(loader), set_apart(loader.dataset)
    skip = 1 + min(setting.num_workers * (setting.prefetch_factor or 0), _MOST_SKIPPED)
    with quiet():
        now = trial_loader(loader, sampler, setting, dataset=dataset, persistent=loader.persistent_workers)
        living = trial_loader(loader, sampler, setting, dataset=dataset, persistent=True)
        consumer = Consumer(busy_ms, device, end + OVERTIME_SECONDS)
        try:
            if setting.num_workers:  # to stop them is in the step's other work, and not to be done twice
                consumer = as_in_the_run(consumer, lambda other: anew_ms(now, other, count), step_ms)
            return in_turns(
                lambda: anew_ms(now, consumer, count),
                lambda: kept_ms(living, consumer, skip, count),
                end,
                setting.num_workers,
            )
        except Abstain:
            raise
        except Exception as error:
            raise Abstain(f"the loader could not be tried: {brief(error)}") from error


def anew_ms(loader: DataLoader[Any], consumer: Consumer, count: int) -> float:
    """Milliseconds of a batch and the work with it, with an iterator for every batch."""
    begin = perf_counter()
    for _ in range(count):
        next(iter(loader))
        consumer.work()
    return (perf_counter() - begin) * 1e3 / count


def kept_ms(loader: DataLoader[Any], consumer: Consumer, skip: int, count: int) -> float:
    """The same with one iterator, epoch after epoch: its start, which comes once in a run, is left out."""
    return iteration_ms(_endless(loader), consumer, skip, count)


def _endless(loader: DataLoader[Any]) -> Iterator[Any]:
    while True:
        yield from loader
