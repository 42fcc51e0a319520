"""Which samples come when: by seed and epoch, and by nothing else."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    RandomSampler,
    Subset,
    TensorDataset,
    random_split,
)

import cordwood as cw
from cordwood import Loader
from cordwood.errors import UsageError
from cordwood.feed.order.permutation import Shuffled
from tests.feed.support.numbered import batches_of, numbered, numbers_in, numbers_of

COUNT = 103


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> cw.Dataset:
    made = numbered(tmp_path_factory.mktemp("order") / "s", COUNT, shard_bytes=2000)
    assert len(list(made.path.glob("shard-*"))) > 3
    return made


# ---- by seed and epoch -----------------------------------------------------------------------------------------------


def test_without_shuffling_samples_come_as_they_were_written(ds: cw.Dataset) -> None:
    loader = Loader(ds, batch_size=10)
    for _ in range(2):
        assert batches_of(loader) == [list(range(COUNT))[start : start + 10] for start in range(0, COUNT, 10)]
    assert len(loader) == 11


def test_an_epoch_is_the_order_that_the_format_page_defines(ds: cw.Dataset) -> None:
    loader = Loader(ds, batch_size=10, shuffle=True, seed=5)
    for epoch in range(3):
        assert numbers_of(loader) == Shuffled(COUNT, 5, epoch).at(np.arange(COUNT)).tolist()


@given(
    batch_size=st.integers(1, COUNT + 5),
    threads=st.sampled_from([1, 2, 3, "auto"]),
    prefetch=st.sampled_from([1, 2, 7, "auto"]),
    memory=st.sampled_from(["mmap", "ram"]),
)
@settings(max_examples=40)
def test_the_order_depends_on_nothing_but_seed_and_epoch(
    ds: cw.Dataset, batch_size: int, threads: Any, prefetch: Any, memory: Any
) -> None:
    loader = Loader(
        ds, batch_size, True, seed=9, threads=threads, prefetch=prefetch, memory=memory, rank=0, world_size=1
    )
    for epoch in range(2):
        found = batches_of(loader)
        assert [number for batch in found for number in batch] == Shuffled(COUNT, 9, epoch).at(
            np.arange(COUNT)
        ).tolist()
        assert [len(batch) for batch in found[:-1]] == [batch_size] * (len(found) - 1)
        assert len(found) == len(loader)


def test_epochs_and_seeds_differ_and_each_has_every_sample_once(ds: cw.Dataset) -> None:
    orders = []
    for seed in (0, 1, (1 << 64) - 1):
        loader = Loader(ds, batch_size=16, shuffle=True, seed=seed)
        orders += [numbers_of(loader) for _ in range(4)]
    assert all(sorted(order) == list(range(COUNT)) for order in orders)
    assert len({tuple(order) for order in orders}) == len(orders)


def test_the_generators_of_the_program_do_not_move(ds: cw.Dataset) -> None:
    def state() -> tuple[Any, ...]:
        return torch.get_rng_state().tolist(), np.random.get_state()[1].tolist()  # type: ignore[index]

    before = state()
    for options in ({"shuffle": True}, {"sampler": np.ones(COUNT)}, {"sampler": RandomSampler(ds)}):
        numbers_of(Loader(ds, batch_size=7, **options))
    assert state() == before


def test_set_epoch_names_the_next_one_and_iter_starts_it(ds: cw.Dataset) -> None:
    loader = Loader(ds, batch_size=16, shuffle=True)
    orders = [numbers_of(loader) for _ in range(4)]  # epochs 0 to 3
    loader.set_epoch(2)
    assert numbers_of(loader) == orders[2]
    assert numbers_of(loader) == orders[3]
    loader.sampler.set_epoch(1)
    assert numbers_of(loader) == orders[1]
    loader.set_epoch(0)
    loader.set_epoch(3)  # the last word counts
    assert numbers_of(loader) == orders[3]


def test_an_epoch_that_is_left_early_is_over(ds: cw.Dataset) -> None:
    loader = Loader(ds, batch_size=16, shuffle=True)
    first = numbers_in(next(iter(loader)))
    second = numbers_in(next(iter(loader)))
    assert first == Shuffled(COUNT, 0, 0).at(np.arange(16)).tolist()
    assert second == Shuffled(COUNT, 0, 1).at(np.arange(16)).tolist()


@pytest.mark.parametrize("wrong", [-1, 1.0, "1", None, True, 1 << 62])
def test_what_is_no_epoch_is_refused(ds: cw.Dataset, wrong: Any) -> None:
    with pytest.raises(UsageError, match="epoch must be a whole number"):
        Loader(ds).set_epoch(wrong)


def test_batches_at_the_end(ds: cw.Dataset) -> None:
    assert [len(batch) for batch in batches_of(Loader(ds, batch_size=50))] == [50, 50, 3]
    dropping = Loader(ds, batch_size=50, drop_last=True)
    assert [len(batch) for batch in batches_of(dropping)] == [50, 50]
    assert len(dropping) == 2
    padded = batches_of(Loader(ds, batch_size=50, pad=True))
    assert padded[2] == [100, 101, 102, *range(47)]
    assert batches_of(Loader(ds, batch_size=COUNT + 1, drop_last=True)) == []


def test_a_dataset_without_samples_has_no_batches(ds: cw.Dataset) -> None:
    loader = Loader(ds[:0], batch_size=4, shuffle=True)
    assert len(loader) == 0
    assert list(loader) == []
    assert list(loader) == []


# ---- ranks -----------------------------------------------------------------------------------------------------------


@given(batch_size=st.integers(1, 40), world_size=st.integers(1, 7))
@settings(max_examples=25)
def test_ranks_share_an_epoch_out(ds: cw.Dataset, batch_size: int, world_size: int) -> None:
    loaders = [
        Loader(ds, batch_size, True, seed=1, rank=rank, world_size=world_size) for rank in range(world_size)
    ]  # fmt: skip
    ranks = [batches_of(loader) for loader in loaders]
    assert {len(rank) for rank in ranks} == {len(loaders[0])}
    together = [number for step in zip(*ranks, strict=True) for batch in step for number in batch]
    expected = Shuffled(COUNT, 1, 0).at(np.arange(COUNT)).tolist()
    assert together[:COUNT] == expected
    # Only where the last step has fewer samples than ranks, and none before it has some to spare, one comes twice.
    few = 0 < COUNT % (batch_size * world_size) < world_size
    assert len(together) == COUNT or (few and (batch_size == 1 or batch_size * world_size > COUNT))
    assert all(len(batch) == batch_size for rank in ranks for batch in rank[:-2])


def test_the_environment_tells_the_rank_when_an_iteration_starts(
    ds: cw.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = Loader(ds, batch_size=10)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert batches_of(loader)[0] == list(range(10, 20))
    assert len(loader) == 6
    assert "rank 1 of 2" in repr(loader)
    monkeypatch.delenv("RANK")
    with pytest.raises(UsageError, match="RANK and WORLD_SIZE"):
        next(iter(loader))


# ---- datasets --------------------------------------------------------------------------------------------------------


CHOSEN = [
    "subset", "mask", "slice", "subset of a subset", "Subset", "Subset of a Subset", "Subset of NumPy's numbers",
    "random_split", "concat", "ConcatDataset", "Subset of a ConcatDataset",
]  # fmt: skip


def chosen(ds: cw.Dataset) -> dict[str, tuple[Any, list[int]]]:
    """Datasets made of a store's, and the samples that they have."""
    torch_split = random_split(ds, [0.25, 0.75], generator=torch.Generator().manual_seed(3))
    return {
        "subset": (ds.subset([5, 1, 99, 1]), [5, 1, 99, 1]),
        "mask": (ds.subset(np.arange(COUNT) % 10 == 3), list(range(3, COUNT, 10))),
        "slice": (ds[90:10:-7], list(range(90, 10, -7))),
        "subset of a subset": (ds[10:60].subset([3, 0, 40]), [13, 10, 50]),
        "Subset": (Subset(ds, [7, 3, 3, 100]), [7, 3, 3, 100]),
        "Subset of a Subset": (Subset(Subset(ds, range(50, 70)), [1, 19]), [51, 69]),
        "Subset of NumPy's numbers": (Subset(ds, np.array([4, 2])), [4, 2]),  # type: ignore[arg-type]
        "random_split": (torch_split[0], list(torch_split[0].indices)),
        "concat": (cw.concat([ds[:3], ds[100:]]), [0, 1, 2, 100, 101, 102]),
        "ConcatDataset": (ConcatDataset([ds[5:8], Subset(ds, [1, 0])]), [5, 6, 7, 1, 0]),
        "Subset of a ConcatDataset": (Subset(ConcatDataset([ds[5:8], ds[:2]]), [4, 0]), [1, 5]),
    }


@pytest.mark.parametrize("name", CHOSEN)
def test_datasets_of_datasets(ds: cw.Dataset, name: str) -> None:
    assert list(chosen(ds)) == CHOSEN
    dataset, expected = chosen(ds)[name]
    loader = Loader(dataset, batch_size=3)
    assert loader.dataset is dataset
    assert numbers_of(loader) == expected
    shuffled = Loader(dataset, batch_size=3, shuffle=True, seed=4)
    order = Shuffled(len(expected), 4, 0).at(np.arange(len(expected)))
    assert numbers_of(shuffled) == [expected[place] for place in order]


def test_selected_fields_come_as_tuples(ds: cw.Dataset) -> None:
    for (found,), batch in zip(Loader(ds.select("number"), batch_size=20), Loader(ds, batch_size=20), strict=True):
        assert torch.equal(found, batch["number"])
    numbers, values = next(iter(Loader(Subset(ds.select("number", "values"), [8, 2]), batch_size=2)))
    assert numbers.tolist() == [8, 2]
    assert values[:, 0].tolist() == [8000, 2000]


@pytest.mark.parametrize(
    "wrong", [[1, 2, 3], TensorDataset(torch.arange(3)), Subset(TensorDataset(torch.arange(3)), [0]), None]
)
def test_other_datasets_are_refused_with_what_to_do(wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"cw\.prefetch"):
        Loader(wrong)


def test_batches_are_those_of_the_stock_loader(ds: cw.Dataset) -> None:
    stock = DataLoader(ds, batch_size=8, sampler=Shuffled(COUNT, 0, 0).at(np.arange(COUNT)).tolist())
    for ours, theirs in zip(Loader(ds, batch_size=8, shuffle=True), stock, strict=True):
        assert list(ours) == list(theirs)
        for name in ours:
            assert torch.equal(ours[name], theirs[name])
            assert ours[name].dtype == theirs[name].dtype
            assert ours[name].is_contiguous()
