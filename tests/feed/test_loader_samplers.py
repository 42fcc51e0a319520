"""What a loader may be told to read instead of everything, and what it refuses to be told."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, DistributedSampler, RandomSampler, Sampler, WeightedRandomSampler

import cordwood as cw
from cordwood import Loader
from cordwood.errors import UsageError
from cordwood.feed.order.permutation import Shuffled
from tests.feed.support.numbered import batches_of, numbered, numbers_of

COUNT = 103


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> cw.Dataset:
    return numbered(tmp_path_factory.mktemp("samplers") / "s", COUNT, shard_bytes=2000)


@pytest.mark.parametrize("given_as", [list, tuple, np.array, torch.tensor])
def test_named_samples(ds: cw.Dataset, given_as: Callable[[list[int]], Any]) -> None:
    named = [99, 4, 4, -1, 50]
    loader = Loader(ds, batch_size=2, sampler=given_as(named))
    assert batches_of(loader) == [[99, 4], [4, 102], [50]]
    assert len(loader) == 3
    shuffled = Loader(ds, batch_size=2, sampler=given_as(named), shuffle=True)
    first, second = numbers_of(shuffled), numbers_of(shuffled)
    assert sorted(first) == sorted(second) == sorted([99, 4, 4, 102, 50])
    assert [first, second] == [
        [[99, 4, 4, 102, 50][place] for place in Shuffled(5, 0, epoch).at(np.arange(5))] for epoch in (0, 1)
    ]


def test_weights(ds: cw.Dataset) -> None:
    weights = [0.0] * COUNT
    weights[7], weights[50] = 1.0, 3.0
    loader = Loader(ds, batch_size=10, sampler=weights, seed=2)
    epochs = [numbers_of(loader) for _ in range(20)]
    assert all(set(epoch) == {7, 50} and len(epoch) == COUNT for epoch in epochs)
    share = sum(epoch.count(50) for epoch in epochs) / (20 * COUNT)
    assert 0.70 < share < 0.80
    assert epochs[0] != epochs[1]
    assert numbers_of(Loader(ds, batch_size=33, sampler=torch.tensor(weights), seed=2, threads=1)) == epochs[0]


@pytest.mark.parametrize(
    "sampler",
    [
        lambda ds: RandomSampler(ds),
        lambda ds: RandomSampler(ds, replacement=True, num_samples=40),
        lambda ds: WeightedRandomSampler(torch.arange(1.0, COUNT + 1).tolist(), 60),
    ],
)
def test_samplers_of_torch(ds: cw.Dataset, sampler: Callable[[Any], Any]) -> None:
    def loader(**options: Any) -> Loader:
        return Loader(ds, sampler=sampler(ds), **{"batch_size": 8, "seed": 1, **options})

    one, other = loader(), loader(batch_size=5, threads=1)
    torch.manual_seed(17)  # whatever the program's own generator does
    epochs = [numbers_of(one) for _ in range(3)]
    torch.manual_seed(18)
    assert [numbers_of(other) for _ in range(3)] == epochs
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert {len(epoch) for epoch in epochs} == {len(sampler(ds))}
    assert numbers_of(loader(seed=2)) != epochs[0]
    again = loader()
    again.set_epoch(2)
    assert numbers_of(again) == epochs[2]


def test_a_sampler_is_told_the_epoch(ds: cw.Dataset) -> None:
    class ByEpoch(Sampler[int]):
        epoch = -1

        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

        def __len__(self) -> int:
            return 3

        def __iter__(self) -> Iterator[int]:
            return iter([self.epoch, self.epoch + 10, self.epoch + 20])

    loader = Loader(ds, batch_size=2, sampler=ByEpoch())
    assert numbers_of(loader) == [0, 10, 20]
    assert numbers_of(loader) == [1, 11, 21]
    loader.sampler.set_epoch(7)
    assert numbers_of(loader) == [7, 17, 27]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"sampler": [COUNT]}, str(COUNT)),
        ({"sampler": [-COUNT - 1]}, str(-COUNT - 1)),
        ({"sampler": [True] * COUNT}, "subset"),
        ({"sampler": [1.0] * (COUNT - 1)}, "weights"),
        ({"sampler": [1.0] * COUNT, "shuffle": True}, "leave shuffle out"),
        ({"sampler": [-1.0] + [1.0] * (COUNT - 1)}, "not negative"),
        ({"sampler": [0.0] * COUNT}, "above 0"),
        ({"sampler": RandomSampler(range(3)), "shuffle": True}, "shuffle"),
        ({"sampler": DistributedSampler(range(3), 2, 0)}, "DistributedSampler"),  # type: ignore[arg-type]
        ({"sampler": BatchSampler(RandomSampler(range(3)), 2, False)}, "BatchSampler"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 2.0}, "batch_size"),
        ({"shuffle": 1}, "shuffle"),
        ({"seed": -1}, "seed"),
        ({"drop_last": True, "pad": True}, "only one of them"),
        ({"threads": 0}, "threads"),
        ({"threads": True}, "threads"),
        ({"prefetch": 0}, "prefetch"),
        ({"prefetch": "many"}, "prefetch"),
        ({"memory": "disk"}, "memory"),
        ({"on_damage": "ignore"}, "on_damage"),
        ({"transform": 3}, "transform"),
        ({"sample_transform": "x"}, "sample_transform"),
        ({"sample_workers": 2}, "sample_workers"),
        ({"rank": 2, "world_size": 2}, "ranks count from 0"),
        ({"rank": 0}, "both are needed"),
        ({"normalize": {"picture": (0.5, 0.5)}}, "picture"),
        ({"normalize": {"values": 3}}, "mean, std"),
        ({"collate": {"nothing": "pad"}}, "nothing"),
        ({"device": "nowhere"}, "device"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_when_the_loader_is_made(ds: cw.Dataset, options: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Loader(ds, **options)


def test_a_store_may_be_deleted_and_its_open_loader_says_which_shard_is_gone(tmp_path: Path) -> None:
    ds = numbered(tmp_path / "s", 20)
    for shard in ds.path.glob("shard-*"):
        shard.unlink()
    with pytest.raises(cw.FormatError, match="shard-00000000"):
        list(Loader(ds, batch_size=4))
