"""One iterator against one for every batch, counted."""

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

from cordwood.doctor.evidence.findings import Abstain
from cordwood.doctor.measure.stand_in_step import Consumer
from cordwood.doctor.trials.iterator import anew_ms, kept_ms, try_one_iterator

DATA = TensorDataset(torch.arange(24.0))


class Counting(DataLoader[Any]):
    begun = 0

    def __iter__(self) -> Any:
        self.begun += 1
        return super().__iter__()


class Idle(Consumer):
    worked = 0

    def work(self) -> None:
        self.worked += 1


def test_iterators_are_begun_for_every_batch_or_every_epoch() -> None:
    loader, consumer = Counting(DATA, batch_size=4), Idle(0.0)
    assert anew_ms(loader, consumer, 9) > 0
    assert (loader.begun, consumer.worked) == (9, 9)
    loader, consumer = Counting(DATA, batch_size=4), Idle(0.0)
    assert kept_ms(loader, consumer, skip=2, count=9) > 0
    assert (loader.begun, consumer.worked) == (2, 11)  # an epoch has six batches


@pytest.mark.parametrize("workers", [0, 1])
def test_a_real_trial_leaves_everything_as_it_was(workers: int) -> None:
    generator = torch.Generator().manual_seed(1)
    loader = DataLoader(DATA, batch_size=4, shuffle=True, num_workers=workers, generator=generator)
    before = generator.get_state()
    gain = try_one_iterator(loader, busy_ms=0.1, step_ms=50.0, seconds=0.1)
    assert gain.pairs >= 5
    assert torch.equal(generator.get_state(), before)
    assert isinstance(loader.sampler, RandomSampler)


def test_loaders_that_fail_or_cannot_be_tried() -> None:
    with pytest.raises(Abstain, match="list is not a DataLoader"):
        try_one_iterator([1], busy_ms=0.1, step_ms=5.0, seconds=0.1)

    def fails(samples: list[Any]) -> Any:
        raise RuntimeError("no batch today")

    with pytest.raises(Abstain, match="could not be tried: RuntimeError: no batch today"):
        try_one_iterator(DataLoader(DATA, collate_fn=fails), busy_ms=0.1, step_ms=5.0, seconds=0.1)
