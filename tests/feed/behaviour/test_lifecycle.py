"""However an iteration ends, nothing hangs, nothing is left behind, and the next one works."""

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import cordwood as cw
from cordwood import Loader
from cordwood.errors import FeedError
from tests.feed.support.leftovers import Leftovers
from tests.feed.support.numbered import numbered, numbers_in, numbers_of
from tests.feed.support.plain_order import shuffled
from tests.marks import slow_after
from tests.store.support.forked import in_child

COUNT = 200


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> cw.Dataset:
    made = numbered(tmp_path_factory.mktemp("lifecycle") / "s", COUNT, shard_bytes=10_000)
    numbers_of(Loader(made, batch_size=64))  # whatever is mapped once and for all
    return made


@pytest.fixture(autouse=True)
def nothing_left_behind(ds: cw.Dataset) -> Iterator[None]:
    before = Leftovers.now()
    yield
    assert Leftovers.now() == before


def as_it_is(sample: Any) -> Any:
    return sample


def many(samples: list[Any]) -> Any:
    return torch.utils.data.default_collate(samples)


KINDS: dict[str, dict[str, Any]] = {
    "native": {},
    "far ahead": {"prefetch": 100},
    "ram": {"memory": "ram"},
    "samples on threads": {"sample_transform": as_it_is, "threads": 3},
    "a collate function": {"collate": many, "threads": 2},
    "samples in processes": {"sample_transform": as_it_is, "sample_workers": 1},
}


# ---- ways to leave ---------------------------------------------------------------------------------------------------


def to_the_end(loader: Loader) -> None:
    for _ in loader:
        pass


def break_off(loader: Loader) -> None:
    for _ in loader:
        break


def take_one(loader: Loader) -> None:
    next(iter(loader))


def take_none(loader: Loader) -> None:
    iter(loader)


def close(loader: Loader) -> None:
    iterator: Any = iter(loader)
    next(iterator)
    iterator.close()
    assert threads_of("cordwood-feed") == []  # while the iterator is still there
    with pytest.raises(StopIteration):
        next(iterator)


def fail(loader: Loader) -> None:
    def train() -> None:
        for batch in loader:
            batch["number"] = 1 // 0

    with pytest.raises(ZeroDivisionError):
        train()


def leave_a_generator(loader: Loader) -> None:
    def labels() -> Iterator[Any]:
        for batch in loader:
            yield batch["number"]

    for _ in labels():
        break


def in_a_cycle(loader: Loader) -> None:
    """An iterator that only the garbage collector finds."""
    box: list[Any] = [iter(loader)]
    next(box[0])
    box.append(box)
    del box
    gc.collect()


def threads_of(name: str) -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(name)]


WAYS: list[Callable[[Loader], None]] = [
    to_the_end, break_off, take_one, take_none, close, fail, leave_a_generator, in_a_cycle,
]  # fmt: skip


@pytest.mark.parametrize("kind", slow_after(1, KINDS))
@pytest.mark.parametrize("leave", WAYS)
def test_leaving_an_iteration(ds: cw.Dataset, kind: str, leave: Callable[[Loader], None]) -> None:
    before = Leftovers.now()
    loader = Loader(ds, batch_size=16, shuffle=True, **KINDS[kind])
    turns = 1 if kind == "samples in processes" else 3
    for _ in range(turns):
        leave(loader)
    # The loader itself is still there, and has nothing running; but for memory, which may still be loading.
    assert [name for name in Leftovers.now().threads if name != "cordwood-ram"] == list(before.threads)
    assert Leftovers.now().processes == before.processes
    if kind != "samples in processes":
        loader.set_epoch(7)
        assert numbers_of(loader) == shuffled(COUNT, 0, 7)


def test_a_loader_ends_with_its_last_reference(ds: cw.Dataset) -> None:
    gc.disable()  # no cycle keeps it
    try:
        loader = Loader(ds, batch_size=16, transform=lambda batch: batch)
        iterator = iter(loader)
        next(iterator)
        watched, ended = weakref.ref(loader), weakref.ref(iterator)
        del loader
        assert watched() is None
        assert len(list(iterator)) == 12  # an iteration goes on without its loader
        del iterator
        assert ended() is None
    finally:
        gc.enable()


def test_a_loader_in_memory_may_be_gone_while_it_is_iterated(ds: cw.Dataset) -> None:
    assert numbers_of(Loader(ds, batch_size=16, memory="ram")) == list(range(COUNT))


def test_an_iterator_that_ended_stays_at_its_end(ds: cw.Dataset) -> None:
    iterator = iter(Loader(ds, batch_size=50))
    assert len(list(iterator)) == 4
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(iterator)


def test_a_closed_iteration_leaves_the_state_where_it_was(ds: cw.Dataset) -> None:
    loader = Loader(ds, batch_size=50)
    iterator: Any = iter(loader)
    next(iterator)
    iterator.close()
    assert list(iterator) == []
    assert (loader.state_dict()["epoch"], loader.state_dict()["consumed"]) == (0, 50)


# ---- several at once -------------------------------------------------------------------------------------------------


def test_nested_iterations_are_independent(ds: cw.Dataset) -> None:
    loader = Loader(ds, batch_size=50, shuffle=True)
    outer, inner = [], []
    for batch in loader:
        outer += numbers_in(batch)
        inner.append(numbers_of(loader))
    orders = [shuffled(COUNT, 0, epoch) for epoch in range(5)]
    assert outer == orders[0]
    assert inner == orders[1:]


def test_iterations_taken_in_turns_are_independent(ds: cw.Dataset) -> None:
    loader = Loader(ds, batch_size=20)
    for one, other in zip(loader, loader, strict=True):
        assert numbers_in(one) == numbers_in(other)


@pytest.mark.parametrize("kind", ["native", "ram", "samples on threads"])
def test_threads_iterate_one_loader_at_the_same_time(ds: cw.Dataset, kind: str) -> None:
    loader = Loader(ds, batch_size=7, shuffle=True, **KINDS[kind])
    found: list[tuple[int, ...]] = []
    together = threading.Barrier(4)

    def read() -> None:
        together.wait()
        for _ in range(3):
            found.append(tuple(numbers_of(loader)))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Each has an epoch of its own.
    assert set(found) == {tuple(shuffled(COUNT, 0, epoch)) for epoch in range(12)}


def test_threads_share_one_iteration(ds: cw.Dataset) -> None:
    iterator = iter(Loader(ds, batch_size=1, prefetch=3))
    found: list[int] = []

    def read() -> None:
        for batch in iterator:
            found.extend(numbers_in(batch))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(COUNT))


# ---- fork ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["native", "far ahead", "ram", "samples on threads"])
def test_a_fork_while_iterating(ds: cw.Dataset, kind: str) -> None:
    loader = Loader(ds, batch_size=16, **KINDS[kind])
    iterator = iter(loader)
    found = numbers_in(next(iterator))

    def child() -> None:
        with pytest.raises(FeedError, match="begin a new one here"):
            next(iterator)
        # Without torch's arithmetic, whose threads did not come along.
        for _ in range(2):
            assert [n for batch in loader for n in batch["number"].numpy().tolist()] == list(range(COUNT))
        assert loader.state_dict()["epoch"] == 3

    for _ in range(2):
        ended = in_child(child)
        assert ended.code == 0, ended.text
        found += numbers_in(next(iterator))
    assert found + numbers_of(iterator) == list(range(COUNT))
    assert numbers_of(loader) == list(range(COUNT))


def test_a_child_that_drops_the_iteration_does_not_end_the_parents(ds: cw.Dataset) -> None:
    loader = Loader(ds, batch_size=16)
    held: dict[str, Any] = {"iterator": iter(loader)}
    next(held["iterator"])

    def child() -> None:
        held.clear()
        gc.collect()

    ended = in_child(child)
    assert ended.code == 0, ended.text
    assert len(list(held["iterator"])) == 12


def test_a_fork_while_another_thread_begins_an_iteration(ds: cw.Dataset) -> None:
    drawing, forked = threading.Event(), threading.Event()

    class Slow(torch.utils.data.Sampler[int]):
        def __len__(self) -> int:
            return 4

        def __iter__(self) -> Iterator[int]:
            drawing.set()
            forked.wait()
            return iter(range(4))

    loader = Loader(ds, batch_size=2, sampler=Slow())
    thread = threading.Thread(target=lambda: list(loader))
    thread.start()
    drawing.wait()

    def child() -> None:
        forked.set()
        assert len(list(loader)) == 2

    try:
        ended = in_child(child)
    finally:
        forked.set()
        thread.join()
    assert ended.code == 0, ended.text
