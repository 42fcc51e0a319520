"""A state goes on exactly where it was taken: in another process, with other ranks, in the middle of anything."""

import itertools
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import RandomSampler

import cordwood as cw
from cordwood import Loader
from cordwood.errors import UsageError
from tests.feed.support.numbered import batches_of, numbered, numbers_in, numbers_of, taken
from tests.feed.support.plain_order import shuffled
from tests.store.support.packed import pack

COUNT = 101


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> cw.Dataset:
    return numbered(tmp_path_factory.mktemp("resume") / "s", COUNT, shard_bytes=2000)


def resumed(loader: Loader, state: dict[str, Any]) -> list[int]:
    """What is left of the epoch."""
    loader.load_state_dict(state)
    return numbers_of(loader)


def order(epoch: int, seed: int = 0) -> list[int]:
    return shuffled(COUNT, seed, epoch)


# ---- where it goes on -----------------------------------------------------------------------------------------------


@given(
    epoch=st.integers(0, 3),
    batches=st.integers(0, 15),
    batch_sizes=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    prefetch=st.sampled_from([1, 20, "auto"]),
)
@settings(max_examples=60)
def test_a_new_loader_goes_on_where_the_state_was_taken(
    ds: cw.Dataset, epoch: int, batches: int, batch_sizes: tuple[int, int], prefetch: Any
) -> None:
    before = Loader(ds, batch_sizes[0], True, prefetch=prefetch)
    before.set_epoch(epoch)
    batches = min(batches, len(before))
    found, state = taken(before, batches)
    after = Loader(ds, batch_sizes[1], True)
    left = resumed(after, state)
    if batches == len(before):
        assert (found, left) == (order(epoch), order(epoch + 1))
        assert numbers_of(after) == order(epoch + 2)
    else:
        assert found + left == order(epoch)
        assert numbers_of(after) == order(epoch + 1)


def test_a_state_counts_what_was_received_not_what_is_ready(ds: cw.Dataset) -> None:
    loader = Loader(ds, batch_size=10, prefetch=50)
    iterator = iter(loader)
    places = []
    for _ in range(3):
        next(iterator)
        places.append(loader.state_dict()["consumed"])
    assert places == [10, 20, 30]


def test_a_state_before_anything_was_read(ds: cw.Dataset) -> None:
    loader = Loader(ds, batch_size=10, shuffle=True)
    fresh = loader.state_dict()
    assert (fresh["epoch"], fresh["consumed"]) == (0, 0)
    iterator = iter(loader)
    assert loader.state_dict() == fresh
    next(iterator)
    assert loader.state_dict()["consumed"] == 10
    loader.set_epoch(6)
    assert (loader.state_dict()["epoch"], loader.state_dict()["consumed"]) == (6, 0)


@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"pad": True}, {"rank": 1, "world_size": 3}])
@pytest.mark.parametrize("asked", ["right after the last batch", "after the end"])
def test_after_the_last_batch_the_next_epoch_begins(ds: cw.Dataset, options: dict[str, Any], asked: str) -> None:
    loader = Loader(ds, batch_size=10, shuffle=True, **options)
    iterator = iter(loader)
    for _ in range(len(loader)):
        next(iterator)
    if asked == "after the end":
        with pytest.raises(StopIteration):
            next(iterator)
    state = loader.state_dict()
    assert (state["epoch"], state["consumed"]) == (1, 0)
    other = Loader(ds, batch_size=10, shuffle=True, **options)
    other.load_state_dict(state)
    assert batches_of(other) == batches_of(loader)


def test_a_loader_resumes_itself(ds: cw.Dataset) -> None:
    loader = Loader(ds, batch_size=10, shuffle=True)
    iterator = iter(loader)
    first = numbers_in(next(iterator))
    state = loader.state_dict()
    skipped = numbers_in(next(iterator))
    loader.load_state_dict(state)
    assert loader.state_dict() == state
    again = numbers_of(loader)
    assert again[:10] == skipped
    assert first + again == order(0)
    assert numbers_of(loader) == order(1)


def test_an_iteration_that_goes_on_elsewhere_does_not_move_the_state(ds: cw.Dataset) -> None:
    loader = Loader(ds, batch_size=10)
    older = iter(loader)
    next(older)
    newer = iter(loader)
    next(newer)
    for _ in range(4):
        next(older)
    state = loader.state_dict()
    assert (state["epoch"], state["consumed"]) == (1, 10)  # of the one begun last


def test_a_loaded_state_outlives_set_epoch_of_its_own_epoch_only(ds: cw.Dataset) -> None:
    _, state = taken(Loader(ds, 10, True), 4)
    for told, left in ((0, order(0)[40:]), (1, order(1))):
        loader = Loader(ds, 10, True)
        loader.load_state_dict(state)
        loader.set_epoch(told)  # as training frameworks do before every epoch
        assert numbers_of(loader) == left


def test_an_iterator_that_nobody_asks_is_no_epoch(ds: cw.Dataset) -> None:
    loader = Loader(ds, 10, True)
    for _ in range(3):
        iter(loader)
    assert (loader.state_dict()["epoch"], loader.state_dict()["consumed"]) == (0, 0)
    assert numbers_of(loader) == order(0)
    iter(loader)
    assert numbers_of(loader) == order(1)


def test_set_epoch_of_an_iteration_that_has_just_begun(ds: cw.Dataset) -> None:
    """Lightning asks for the iterator first, throws it away, asks for another, and tells the epoch then."""
    loader = Loader(ds, 10, True)
    for epoch in (0, 1):
        loader.set_epoch(epoch)
        iterator = iter(loader)
        loader.set_epoch(epoch)
        assert (loader.state_dict()["epoch"], loader.state_dict()["consumed"]) == (epoch, 0)
        found = numbers_in(next(iterator))
        state = loader.state_dict()
        assert (state["epoch"], state["consumed"]) == (epoch, 10)
        other = Loader(ds, 10, True)
        other.load_state_dict(state)
        resumed_iterator = iter(other)
        other.set_epoch(epoch)
        found += numbers_in(next(resumed_iterator))
        assert other.state_dict()["consumed"] == 20
        assert found == order(epoch)[:20]
        assert found + numbers_of(resumed_iterator) == order(epoch)
        assert numbers_of(other) == order(epoch + 1)


def test_a_batch_whose_transform_fails_was_not_received(ds: cw.Dataset) -> None:
    def third_fails(batch: Any) -> Any:
        if 25 in batch["number"]:
            raise KeyError("no")
        return batch

    loader = Loader(ds, batch_size=10, transform=third_fails)
    iterator = iter(loader)
    assert numbers_in(next(iterator)) + numbers_in(next(iterator)) == list(range(20))
    with pytest.raises(KeyError, match="no"):
        next(iterator)
    assert loader.state_dict()["consumed"] == 20


def test_unpickled_loaders_go_on_where_the_original_was(ds: cw.Dataset) -> None:
    loader = Loader(ds, batch_size=10, shuffle=True)
    found, state = taken(loader, 3)
    copy = pickle.loads(pickle.dumps(loader))
    assert copy.state_dict() == state
    assert found + numbers_of(copy) == order(0)


# ---- with other ranks -----------------------------------------------------------------------------------------------


def steps_of(loaders: list[Loader], steps: int) -> tuple[list[int], dict[str, Any]]:
    """What ranks that go in step receive in so many of them, and the state, which all have in common."""
    parts = [taken(loader, steps) for loader in loaders]
    assert all(state == parts[0][1] for _, state in parts)
    return [number for found, _ in parts for number in found], parts[0][1]


def ranks(ds: Any, world_size: int, batch_size: int, **options: Any) -> list[Loader]:
    return [Loader(ds, batch_size, True, rank=rank, world_size=world_size, **options) for rank in range(world_size)]


@given(
    worlds=st.lists(st.tuples(st.integers(1, 8), st.integers(1, 9), st.integers(0, 3)), min_size=1, max_size=4),
    seed=st.integers(0, 3),
)
@settings(max_examples=40)
def test_any_number_of_ranks_goes_on_and_none_is_seen_twice_or_missed(
    ds: cw.Dataset, worlds: list[tuple[int, int, int]], seed: int
) -> None:
    seen: list[int] = []
    state = Loader(ds, shuffle=True, seed=seed).state_dict()
    for world_size, batch_size, steps in worlds:
        loaders = ranks(ds, world_size, batch_size, seed=seed)
        for loader in loaders:
            loader.load_state_dict(state)
        # Not into the last step: with fewer samples than ranks one would come twice there.
        steps = min(steps, (COUNT - len(seen)) // (world_size * batch_size) - 1)
        if steps > 0:
            found, state = steps_of(loaders, steps)
            seen += found
    last = Loader(ds, 7, True, seed=seed)
    assert sorted(seen + resumed(last, state)) == list(range(COUNT))


def test_eight_ranks_become_six(ds: cw.Dataset) -> None:
    seen, state = steps_of(ranks(ds, 8, 4), 2)
    assert len(seen) == 64
    rest = [resumed(loader, state) for loader in ranks(ds, 6, 4)]
    assert sorted(seen + [number for rank in rest for number in rank]) == list(range(COUNT))
    assert {len(rank) for rank in rest} == {6, 7}


# ---- what is drawn --------------------------------------------------------------------------------------------------


def test_weights_and_named_samples(ds: cw.Dataset) -> None:
    for sampler, shuffle in ((np.arange(1.0, COUNT + 1), False), ([4, 4, 9, 1] * 20, True), ([7, 3] * 20, False)):
        options: dict[str, Any] = {"sampler": sampler, "shuffle": shuffle, "seed": 3}
        whole = numbers_of(Loader(ds, batch_size=6, **options))
        found, state = taken(Loader(ds, batch_size=6, **options), 4)
        assert found + resumed(Loader(ds, batch_size=11, **options), state) == whole


def test_samplers_of_torch_resume_if_they_draw_the_same_again(ds: cw.Dataset) -> None:
    def loader(**options: Any) -> Loader:
        return Loader(ds, batch_size=6, sampler=RandomSampler(ds, **options), seed=3)

    loader_before = loader()
    numbers_of(loader_before)
    found, state = taken(loader_before, 5)
    assert state["epoch"] == 1
    torch.manual_seed(1)  # which does not matter
    assert sorted(found + resumed(loader(), state)) == list(range(COUNT))
    own = loader(generator=torch.Generator().manual_seed(1))
    own.load_state_dict(state)
    with pytest.raises(UsageError, match="draws other samples for epoch 1"):
        next(iter(own))


def test_augmentation_is_the_same_on_any_number_of_ranks(tmp_path: Path) -> None:
    pictures = torch.randint(0, 256, (60, 3, 20, 24), dtype=torch.uint8)
    ds = pack(tmp_path / "s", ({"image": picture, "number": i} for i, picture in enumerate(pictures)))
    steps = [cw.augment.RandomResizedCrop(12), cw.augment.RandomFlip()]

    def images(batches: Iterable[Any]) -> dict[int, torch.Tensor]:
        return {
            n: image for batch in batches for n, image in zip(batch["number"].tolist(), batch["image"], strict=True)
        }

    whole = images(Loader(ds, 60, True, augment={"image": steps}))
    found: dict[int, torch.Tensor] = {}
    before = ranks(ds, 3, 4, augment={"image": steps})
    for loader in before:
        found |= images(itertools.islice(loader, 2))
    assert len(found) == 24
    for loader in ranks(ds, 2, 5, augment={"image": steps}, threads=1):
        loader.load_state_dict(before[0].state_dict())
        found |= images(loader)
    assert found.keys() == whole.keys()
    assert all(torch.equal(found[number], whole[number]) for number in whole)


def with_seeds(sample: dict[str, Any], seed: int) -> dict[str, Any]:
    return {**sample, "seed": seed % (1 << 62)}


@pytest.mark.parametrize("options", [{}, {"sample_workers": 2}])
@pytest.mark.parametrize("sampler", [None, [5, 5, 80, 5] * 20])
def test_sample_transforms_draw_the_same_after_resuming(
    ds: cw.Dataset, sampler: list[int] | None, options: dict[str, Any]
) -> None:
    def drawn(batches: Iterable[Any]) -> list[tuple[int, int]]:
        return [
            pair for batch in batches for pair in zip(batch["number"].tolist(), batch["seed"].tolist(), strict=True)
        ]

    def loader(batch_size: int, **others: Any) -> Loader:
        return Loader(
            ds, batch_size, sampler is None, sampler=sampler, sample_transform=with_seeds, seed=8, **others
        )  # fmt: skip

    once = loader(10, threads=2)
    whole, later = drawn(once), drawn(once)
    assert len(set(whole)) == len(whole)  # a sample that comes twice is drawn twice
    assert not {seed for _, seed in whole} & {seed for _, seed in later}
    before = loader(10, **options)
    iterator = iter(before)
    found = drawn([next(iterator), next(iterator)])
    state = before.state_dict()
    del iterator
    after = loader(7, threads=1)
    after.load_state_dict(state)
    assert found + drawn(after) == whole
