"""Datasets in memory that are asked for whole batches: which ones, and whether the batches are the same."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, random_split

from cordwood.doctor.evidence.findings import Abstain
from cordwood.doctor.trials import loader as loadertrial
from cordwood.doctor.trials.loader import Setting, index_batches, trial_loader
from cordwood.doctor.trials.whole_batches import is_made_of_tensors, stacks_samples, try_whole_batches

DATA = TensorDataset(torch.randn(50, 3), torch.arange(50))


class Named(TensorDataset):
    name = "named"


class Own(TensorDataset):
    def __getitem__(self, index: Any) -> Any:
        return tuple(tensor[index] * 2 for tensor in self.tensors)


class Plain(Dataset[int]):
    def __getitem__(self, index: int) -> int:
        return index


def test_datasets_that_can_be_indexed_as_a_whole() -> None:
    for dataset in (
        DATA,
        Named(torch.zeros(4)),
        Subset(Subset(DATA, range(20)), [1, 2]),
        *random_split(DATA, [30, 20]),
    ):
        assert is_made_of_tensors(dataset)
    for other in (Own(torch.zeros(4)), Plain(), Subset(Plain(), [0]), [1, 2]):
        assert not is_made_of_tensors(other)


def test_loaders_that_stack_in_torchs_way() -> None:
    assert stacks_samples(DataLoader(DATA, batch_size=4))
    assert not stacks_samples(DataLoader(DATA, batch_size=4, collate_fn=list))
    assert not stacks_samples(DataLoader(DATA, batch_size=None))
    assert not stacks_samples([1, 2])


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("dataset", [DATA, random_split(DATA, [23, 27])[0]], ids=["whole", "part"])
def test_whole_batches_are_those_of_the_loader(dataset: Any, drop_last: bool) -> None:
    loader = DataLoader(dataset, batch_size=8, shuffle=True, drop_last=drop_last)
    batches = index_batches(loader, len(loader))
    both = [list(trial_loader(loader, batches, Setting(0, None), whole=whole)) for whole in (False, True)]
    assert len(both[0]) == len(both[1]) == len(loader)
    for ours, theirs in zip(*both, strict=True):
        assert type(ours) is type(theirs) is list
        assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_real_trial_leaves_everything_as_it_was(workers: int) -> None:
    generator = torch.Generator().manual_seed(1)
    loader = DataLoader(DATA, batch_size=4, shuffle=True, num_workers=workers, generator=generator)
    before = generator.get_state()
    trial = try_whole_batches(loader, busy_ms=0.1, step_ms=50.0, seconds=0.1)
    assert trial.gain.pairs >= 5
    assert trial.setting in (Setting(0, None), Setting(workers, 2 if workers else None))
    assert torch.equal(generator.get_state(), before)


def test_batches_that_lie_otherwise_in_memory_are_not_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loadertrial.Turn, "ms", lambda *_, **__: pytest.fail("no trial was due"))
    images = torch.randn(12, 3, 4, 4).to(memory_format=torch.channels_last)
    loader = DataLoader(TensorDataset(images), batch_size=4)
    (stacked,), (indexed,) = next(iter(loader)), (images[[0, 1, 2, 3]],)
    assert stacked.stride() != indexed.stride()  # else this test shows nothing
    with pytest.raises(Abstain, match="not what the loader gives now"):
        try_whole_batches(loader, busy_ms=0.1, step_ms=5.0, seconds=0.1)


def test_what_cannot_be_indexed_by_lists_is_not_tried() -> None:
    class Odd:
        def __len__(self) -> int:
            return 12

        def __getitem__(self, index: int) -> Iterator[int]:
            return index  # type: ignore[return-value]

    loader: Any = DataLoader(Odd(), batch_size=4)  # type: ignore[arg-type]
    with pytest.raises(Abstain):
        try_whole_batches(loader, busy_ms=0.1, step_ms=5.0, seconds=0.1)
