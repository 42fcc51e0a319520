"""A batch that somebody keeps never changes, however it is kept; memory that nobody sees serves again."""

import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils import dlpack

import cordwood as cw
from cordwood import Loader
from cordwood.codecs import Goal
from cordwood.store.reading import buffers
from cordwood.store.reading.buffers import idle_bytes
from tests.feed.support.leftovers import Leftovers, resident
from tests.store.support.packed import pack

COUNT, BATCH = 64, 4
SIZE = 8_000  # floats of a sample: a batch is large enough to come from the pool


@pytest.fixture(autouse=True)
def empty_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests left behind is out of the way."""
    monkeypatch.setattr(buffers, "_idle", {})


@pytest.fixture(scope="module", params=["raw", "fast"])
def ds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> cw.Dataset:
    samples = [
        {"x": torch.full((SIZE,), float(i)), "image": torch.full((3, 32, 32), i, dtype=torch.uint8), "n": i}
        for i in range(COUNT)
    ]
    return pack(tmp_path_factory.mktemp(request.param) / "s", samples, request.param)


def graph_of(x: torch.Tensor) -> Any:
    """The one tensor that a graph saved is the batch: its gradient tells what is in it."""
    weight = torch.ones(SIZE, requires_grad=True)
    return (x * weight).sum(), weight


def gradient(held: Any) -> torch.Tensor:
    total, weight = held
    found: torch.Tensor = torch.autograd.grad(total, weight, retain_graph=True)[0]
    return found


HOLDERS: dict[str, tuple[Callable[[torch.Tensor], Any], Callable[[Any], Any]]] = {
    "the tensor": (lambda x: x, lambda x: x),
    "a sample": (lambda x: x[2], lambda x: x),
    "a slice": (lambda x: x[1:3, 100:200], lambda x: x),
    "a view": (lambda x: x.view(-1, 10)[::7], lambda x: x),
    "another dtype": (lambda x: x.view(torch.int32), lambda x: x),
    "detached": (lambda x: x.detach(), lambda x: x),
    "transposed": (lambda x: x.T, lambda x: x),
    "expanded": (lambda x: x[:, :1].expand(-1, 50), lambda x: x),
    "its storage": (lambda x: x.untyped_storage(), lambda s: torch.empty(0, dtype=torch.uint8).set_(s)),
    "its array": (lambda x: x.numpy(), lambda a: torch.from_numpy(a)),
    "a part of its array": (lambda x: x.numpy()[1:, 5:9], lambda a: torch.from_numpy(a)),
    "a memoryview": (lambda x: memoryview(x.numpy()), lambda m: torch.from_numpy(np.asarray(m))),
    "NumPy by DLPack": (lambda x: np.from_dlpack(x), lambda a: torch.tensor(a)),
    "a capsule of DLPack": (lambda x: dlpack.from_dlpack(x.__dlpack__()), lambda x: x),
    "a parameter": (lambda x: torch.nn.Parameter(x), lambda x: x.detach()),
    "a graph": (graph_of, gradient),
}


@pytest.mark.slow
@pytest.mark.parametrize("holder", HOLDERS)
def test_a_batch_that_is_kept_never_changes(ds: cw.Dataset, holder: str) -> None:
    hold, look = HOLDERS[holder]
    loader = Loader(ds, BATCH, shuffle=True, prefetch=2)
    kept: list[tuple[Any, torch.Tensor]] = []
    for epoch in range(4):
        for step, batch in enumerate(loader):
            if step % 5 == epoch:
                held = hold(batch["x"])
                kept.append((held, look(held).clone()))
                del held
            del batch
    assert len(kept) >= 12
    gc.collect()
    list(loader)
    for held, before in kept:
        assert torch.equal(look(held), before)


@pytest.mark.parametrize("options", [{"channels_last": True}, {"normalize": {"image": (0.5, 0.25)}}])
def test_so_do_batches_of_images(ds: cw.Dataset, options: dict[str, Any]) -> None:
    loader = Loader(ds.select("image", "n"), 16, shuffle=True, **options)
    kept = []
    for _ in range(6):
        for step, (image, numbers) in enumerate(loader):
            if step % 2:
                kept.append((image[3:5, 1], numbers))
    for part, numbers in kept:
        normalised = (numbers[3:5].float() / 255 - 0.5) / 0.25
        expected = normalised if "normalize" in options else numbers[3:5]
        assert torch.equal(part, expected.to(part.dtype)[:, None, None].expand_as(part))


def test_the_reference_of_another_thread_counts(ds: cw.Dataset) -> None:
    given, done = threading.Event(), threading.Event()
    shelf: list[torch.Tensor] = []
    found: list[bool] = []

    def keep() -> None:
        given.wait()
        mine = shelf.pop()
        before = mine.clone()
        done.wait()
        found.append(torch.equal(mine, before))

    keeper = threading.Thread(target=keep)
    keeper.start()
    loader = Loader(ds, BATCH)
    iterator = iter(loader)
    shelf.append(next(iterator)["x"])
    given.set()
    for _ in range(3):
        list(loader)
    done.set()
    keeper.join()
    assert found == [True]


def test_writing_to_a_batch_changes_nothing_but_that_batch(ds: cw.Dataset) -> None:
    loader = Loader(ds, BATCH)
    for _ in range(3):
        for step, batch in enumerate(loader):
            expected = torch.arange(step * BATCH, (step + 1) * BATCH)
            assert torch.equal(batch["x"][:, 17], expected.float())
            assert torch.equal(batch["n"], expected)
            batch["x"].fill_(-1)
            batch["n"].fill_(-1)


def test_batches_do_not_share_memory_with_each_other(ds: cw.Dataset) -> None:
    """Also small fields, of which several batches are read by one call."""
    batches = list(Loader(ds.select("n"), 2, prefetch=8))
    places = {batch[0].untyped_storage().data_ptr() for batch in batches}
    assert len(places) == len(batches)
    assert all(batch[0].untyped_storage().nbytes() == 16 for batch in batches)


def places_of(loader: Loader) -> set[int]:
    return {batch["x"].data_ptr() for batch in loader}


def test_memory_that_nobody_sees_serves_again(ds: cw.Dataset) -> None:
    loader = Loader(ds, BATCH, prefetch=2, threads=1)
    places: set[int] = set()
    for _ in range(5):
        places |= places_of(loader)
    # Some are ready, some in the making, one is the consumer's, one is let go while the next is asked for.
    assert len(places) <= 8 < len(loader)
    assert 0 < idle_bytes() == loader.stats().pool_bytes <= 8 * BATCH * (SIZE * 4 + 3 * 32 * 32)


def test_a_kept_batch_keeps_its_own_memory_only(ds: cw.Dataset) -> None:
    loader = Loader(ds, BATCH, prefetch=1)
    iterator = iter(loader)
    kept = next(iterator)["x"][0, :1]
    place = kept.untyped_storage().data_ptr()
    seen = {batch["x"].data_ptr() for batch in iterator}
    assert place not in seen
    del kept
    gc.collect()
    assert place in places_of(loader) | places_of(loader)


def test_breaking_off_gives_the_memory_back(ds: cw.Dataset) -> None:
    loader = Loader(ds, BATCH, prefetch=4)
    for _ in range(10):
        for batch in loader:
            del batch
            break
    gc.collect()
    assert idle_bytes() <= 12 * BATCH * (SIZE * 4 + 3 * 32 * 32)


def test_without_any_reader_no_memory_is_kept(tmp_path: Path) -> None:
    other = pack(tmp_path / "s", [{"x": torch.zeros(SIZE)}] * 8)
    loader = Loader(other, BATCH)
    batches = list(loader)
    del loader, other
    gc.collect()
    assert all(torch.equal(batch["x"], torch.zeros(BATCH, SIZE)) for batch in batches)


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="the system does not tell a process's memory this way"
)
@pytest.mark.parametrize("goal", ["raw", "fast"])
def test_memory_and_handles_stay_the_same_over_many_epochs(tmp_path: Path, goal: Goal) -> None:
    large = pack(tmp_path / "s", [{"x": torch.full((32_768,), i), "text": "t" * i} for i in range(64)], goal)
    loader = Loader(large, batch_size=8, shuffle=True)  # 2 MiB a batch, 16 an epoch

    def epochs(count: int) -> None:
        for _ in range(count):
            for batch in loader:
                assert batch["x"].shape == (8, 32_768)

    epochs(10)
    before, handles, pool = resident(), Leftovers.now(), idle_bytes()
    epochs(100)  # 1.6 GB in all
    assert resident() - before < 24 << 20
    assert Leftovers.now() == handles
    assert idle_bytes() <= pool + (4 << 20)
