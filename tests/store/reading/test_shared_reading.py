"""One dataset read by many threads, and by processes that were forked at any time."""

import random
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cordwood as cw
from cordwood.store.format import plan_files
from cordwood.store.reading import shards
from cordwood.store.reading.plans import LoadedPlans
from cordwood.store.reading.shards import Shards
from tests.store.support.forked import in_child
from tests.store.support.packed import coded, pack

COUNT = 60
CODED = coded(COUNT)


def write(path: Path) -> Path:
    """Samples whose frames need a plan, in several shards."""
    samples = [{"x": tensor, "n": number, "s": "y" * number} for number, tensor in enumerate(CODED)]
    pack(path, samples, "small", shard_bytes=400)
    assert len(list(path.glob("shard-*"))) >= 5
    assert list((path / "plans").iterdir())
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("shared") / "s")


def read_at_random(ds: cw.Dataset, seed: int, turns: int = 40) -> None:
    """Read in every way, and compare; without torch's arithmetic, so that it is good in a forked process, too."""
    choose = random.Random(seed)
    for _ in range(turns):
        i, numbers = choose.randrange(COUNT), [choose.randrange(COUNT) for _ in range(5)]
        sample = ds[i]
        assert np.array_equal(sample["x"].numpy(), CODED[i].numpy())
        assert (sample["n"], sample["s"]) == (i, "y" * i)
        batch = ds[numbers]
        assert np.array_equal(batch["x"].numpy(), np.stack([CODED[k].numpy() for k in numbers]))
        assert batch["n"].tolist() == numbers
        assert ds.select("s")[numbers] == (["y" * k for k in numbers],)
        assert [one["n"] for one in ds.__getitems__(numbers)] == numbers


def in_threads(works: list[Callable[[], object]]) -> list[BaseException]:
    """Run each in a thread of its own, all at once; the exceptions."""
    together, errors = threading.Barrier(len(works)), []

    def run(work: Callable[[], object]) -> None:
        try:
            together.wait()
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_read_at_the_same_time(path: Path, threads: int) -> None:
    for turn in range(5):  # fresh: shards and plans are all still to be found
        ds = cw.open(path, threads=threads)
        assert in_threads([partial(read_at_random, ds, turn * 8 + k, 6) for k in range(8)]) == []


def test_threads_that_miss_the_same_plan_at_the_same_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, together, here = LoadedPlans.load, threading.Barrier(3), threading.local()

    def load(self: LoadedPlans, *args: Any) -> bool:
        if not hasattr(here, "waited"):
            here.waited = True
            together.wait(30)  # none goes on before all have missed it
        return original(self, *args)

    monkeypatch.setattr(LoadedPlans, "load", load)
    ds = cw.open(path)
    assert in_threads([partial(ds.__getitem__, i) for i in range(3)]) == []


def test_shards_take_turns_where_too_many_would_be_mapped(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "_MOST_MAPPED", 3)
    ds = cw.open(path)
    for number in (*range(COUNT), *range(COUNT)):
        assert np.array_equal(ds[number]["x"].numpy(), CODED[number].numpy())
        assert Path("/proc/self/maps").read_text().count(f"{path}/") <= 3


def test_a_batch_of_more_shards_than_may_be_mapped(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "_MOST_MAPPED", 2)
    ds = cw.open(path)

    def read() -> None:
        ds[0]  # some of the shards are mapped already
        assert ds.column("n").tolist() == list(range(COUNT))
        read_at_random(ds, 0)
        assert in_threads([partial(read_at_random, ds, seed, 10) for seed in range(4)]) == []

    ended = in_child(read)
    assert ended.code == 0, ended.text or "it went on for ever"


def test_files_are_not_kept_open(path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    ds = cw.open(path)
    assert ds.column("n").tolist() == list(range(COUNT))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_fork_after_the_native_threads_were_used(path: Path) -> None:
    ds = cw.open(path, threads=2)
    read_at_random(ds, 1)

    def child() -> None:
        read_at_random(ds, 2)
        read_at_random(cw.open(path, threads=2), 3)
        ended = in_child(lambda: read_at_random(ds, 4))  # and once more
        assert ended.code == 0, ended.text

    ended = in_child(child)
    assert ended.code == 0, ended.text
    read_at_random(ds, 5)


def test_forks_while_other_threads_read(path: Path) -> None:
    ds, done, errors = cw.open(path, threads=2), threading.Event(), []

    def read() -> None:
        seed = 0
        try:
            while not done.is_set():
                read_at_random(ds, seed := seed + 1, 5)
                read_at_random(cw.open(path, threads=2), seed, 2)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    ended = [in_child(partial(read_at_random, ds, seed, 5)) for seed in range(8)]
    done.set()
    for thread in threads:
        thread.join()
    assert errors == []
    assert [one for one in ended if one.code] == []


class Held:
    """Stops one thread inside of a function, until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        self.inside, self.go_on = threading.Event(), threading.Event()
        self.thread: threading.Thread | None = None
        original = getattr(owner, name)

        def held(*args: Any) -> Any:
            if threading.current_thread() is self.thread:
                self.inside.set()
                self.go_on.wait(60)
            return original(*args)

        monkeypatch.setattr(owner, name, held)

    def run(self, work: Callable[[], object], meanwhile: Callable[[], None]) -> None:
        self.thread = threading.Thread(target=work)
        self.thread.start()
        assert self.inside.wait(60)
        try:
            meanwhile()
        finally:
            self.go_on.set()
            self.thread.join()


@pytest.mark.parametrize("where", ["a shard", "a plan"])
def test_a_fork_while_another_thread_attaches(path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """That thread holds a lock, and does not exist in the child: nobody would open it again."""
    owner, name = (Shards, "_map") if where == "a shard" else (plan_files, "load")
    ds = cw.open(path)
    views = [ds, ds[5:], cw.concat([ds, ds])]

    def read_all() -> None:
        for view in views:
            view[7]
        read_at_random(ds, 1, 5)

    def fork() -> None:
        ended = in_child(read_all)
        assert ended.code == 0, ended.text or "it hung"

    Held(monkeypatch, owner, name).run(lambda: ds[0], fork)
    read_at_random(ds, 2, 3)


def test_tensors_of_one_thread_are_not_touched_by_another(tmp_path: Path) -> None:
    """Memory that one thread lets go of serves others at once."""
    samples = [torch.full((20_000,), i) for i in range(8)]
    ds = pack(tmp_path / "s", samples, "raw")

    def read(seed: int) -> None:
        choose, kept = random.Random(seed), {}
        for _ in range(60):
            i = choose.randrange(8)
            kept[choose.randrange(4)] = (i, ds[i] if choose.random() < 0.5 else ds[[7 - i, i]][1])
            assert all(tensor[0] == number and tensor[-1] == number for number, tensor in kept.values())
        assert all((tensor == number).all() for number, tensor in kept.values())

    assert in_threads([partial(read, seed) for seed in range(6)]) == []
