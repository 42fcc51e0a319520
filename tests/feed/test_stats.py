"""What a loader tells of itself, and how it chooses threads and batches ahead."""

import os
import re
from dataclasses import asdict
from pathlib import Path

import pytest

import cordwood as cw
from cordwood import Loader
from cordwood.common.resources import default_threads
from cordwood.feed.ahead.pace import ReadAhead
from tests.feed.support.numbered import numbered
from tests.store.support.forked import in_child

COUNT, SIZE = 90, 2000


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> cw.Dataset:
    return numbered(tmp_path_factory.mktemp("stats") / "s", COUNT, SIZE)


# ---- figures ---------------------------------------------------------------------------------------------------------


def test_before_anything_was_read(ds: cw.Dataset) -> None:
    stats = Loader(ds, 8, threads=3, prefetch=5).stats()
    assert (stats.threads, stats.prefetch, stats.memory) == (3, 5, "auto")
    told = {name: value for name, value in asdict(stats).items() if isinstance(value, int | float)}
    assert not any(told[name] for name in told if name not in ("threads", "prefetch", "pool_bytes"))


def test_after_an_epoch(ds: cw.Dataset) -> None:
    loader = Loader(ds, 8)
    for epoch in range(2):
        list(loader)
        stats = loader.stats()
        assert (stats.epoch, stats.batches, stats.samples, stats.damaged) == (epoch, 12, COUNT, 0)
        assert stats.first > 0
        assert stats.seconds > 0
        assert stats.samples_per_second == pytest.approx((COUNT - 8) / stats.seconds)
        assert stats.decoding > 0
        assert 0 <= stats.waited <= stats.seconds
        assert 0 <= stats.waits < 12
        files = sum(path.stat().st_size for path in ds.path.glob("shard-*"))
        assert COUNT * SIZE * 8 <= stats.bytes_read <= files
        assert stats.memory == "mmap"


def test_in_the_middle_it_counts_what_was_received(ds: cw.Dataset) -> None:
    loader = Loader(ds, 8, prefetch=50)
    iterator = iter(loader)
    for batches in range(1, 4):
        next(iterator)
        assert (loader.stats().batches, loader.stats().samples) == (batches, 8 * batches)
    assert len(list(iterator)) == 9
    assert loader.stats().samples == COUNT


def test_after_resuming_it_counts_what_this_iteration_gave(ds: cw.Dataset) -> None:
    loader = Loader(ds, 8)
    loader.load_state_dict({**loader.state_dict(), "epoch": 4, "consumed": 80})
    list(loader)
    assert (loader.stats().epoch, loader.stats().batches, loader.stats().samples) == (4, 2, 10)


def test_bytes_are_those_of_the_fields_that_are_read(ds: cw.Dataset) -> None:
    loader = Loader(ds.select("number"), 8)
    list(loader)
    assert loader.stats().bytes_read < COUNT * SIZE


def test_for_people(ds: cw.Dataset) -> None:
    loader = Loader(ds, 8, shuffle=True, threads=1, prefetch=2)
    list(loader)
    lines = str(loader.stats()).splitlines()
    assert lines[0].startswith("epoch 0: 12 batches, 90 samples, ")
    told = r"first batch after [\d.,]+ ms; from then on waited \d+\.\d{3} s of \d+\.\d{3} s \([\d.]+%\), \d+ times?"
    assert re.fullmatch(told, lines[1])
    assert "on 1 thread" in lines[2]
    assert "2 batches ahead" in lines[2]
    assert "(mmap)" in lines[3]
    assert "MB" in lines[3] or "MiB" in lines[3]
    assert len(lines) == 4
    few = Loader(ds.subset([0]), 8)
    list(few)
    assert str(few.stats()).splitlines()[0] == "epoch 0: 1 batch, 1 sample"
    assert repr(loader) == "<Loader of 90 samples in 12 batches of 8, shuffled>"


# ---- choices ---------------------------------------------------------------------------------------------------------


def test_threads_are_never_more_than_the_cores_that_the_process_may_use(ds: cw.Dataset) -> None:
    loader = Loader(ds, 8)
    list(loader)
    assert 1 <= loader.stats().threads <= default_threads() <= len(os.sched_getaffinity(0))

    def child() -> None:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        narrow = Loader(ds, 8)
        list(narrow)
        assert narrow.stats().threads == 1

    ended = in_child(child)
    assert ended.code == 0, ended.text


def paced(cores: int, monkeypatch: pytest.MonkeyPatch, **fixed: int) -> ReadAhead:
    monkeypatch.setattr("cordwood.feed.ahead.pace.default_threads", lambda: cores)
    return ReadAhead(**fixed)


@pytest.mark.parametrize(("work", "enough"), [(0.1, 1), (0.8, 2), (5.0, 7), (7.9, 8)])
def test_it_starts_with_all_cores_and_lets_go_of_those_that_it_does_not_need(
    work: float, enough: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many seconds of one core are needed every second, and a quarter more than that is kept."""
    pace = paced(8, monkeypatch)
    assert pace.threads == 8
    for _ in range(20):
        pace.look(seconds=1.0, waited=0.0, paused=1 - work / pace.threads)
    assert pace.threads == enough


def test_it_takes_them_back_when_somebody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    pace = paced(3, monkeypatch)
    pace.threads = 1
    for expected in (2, 3, 3):
        pace.look(seconds=1.0, waited=0.1, paused=0.0)
        assert pace.threads == expected
    assert pace.depth == 2  # more batches ahead are no help to one that is always late


def test_more_batches_ahead_bridge_slow_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    pace = paced(2, monkeypatch)
    pace.batch_is(64 << 20)
    depths = []
    for _ in range(40):
        pace.look(seconds=1.0, waited=0.1, paused=0.3)
        depths.append(pace.depth)
    assert depths[:3] == [3, 4, 5]
    assert depths[-1] == depths[-2] <= 16


def test_what_is_fixed_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    pace = paced(4, monkeypatch, threads=2, prefetch=3)
    pace.batch_is(100)
    for waited, paused in ((0.5, 0.2), (0.0, 0.9)):
        for _ in range(10):
            pace.look(seconds=1.0, waited=waited, paused=paused)
    assert (pace.threads, pace.depth) == (2, 3)
    assert pace.together <= 3


def test_small_batches_are_made_together(monkeypatch: pytest.MonkeyPatch) -> None:
    pace = paced(2, monkeypatch)
    pace.batch_is(100)
    assert pace.together > 8
    assert pace.depth >= pace.together
    pace.batch_is(64 << 20)
    assert pace.together == 1


def test_batches_that_are_huge_are_not_piled_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cordwood.feed.ahead.pace.physical_memory", lambda: 64 << 30)
    pace = paced(1, monkeypatch)
    pace.batch_is(2 << 30)
    for _ in range(40):
        pace.look(seconds=1.0, waited=0.1, paused=0.3)
    assert pace.depth == 2


def test_a_fast_epoch_after_a_slow_one_has_its_threads_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cordwood.feed.ahead.pace.default_threads", lambda: 4)
    loader = Loader(numbered(tmp_path / "s", 400), batch_size=8)
    loader._pace.threads = 1  # as a slow consumer would have it
    looks: list[float] = []
    learned = loader._pace.look

    def look(seconds: float, waited: float, paused: float) -> None:
        looks.append(seconds)
        learned(seconds, waited=0.9 * seconds, paused=paused)  # a consumer that does nothing but wait

    monkeypatch.setattr(loader._pace, "look", look)
    for _ in loader:
        pass
    assert looks  # however short the epoch was
    assert loader.stats().threads == 4
