"""Threads and stock follow the consumer's waiting, within what the process may use; what the caller fixed stays."""

import pytest

from cordwood.feed.ahead import pace as module
from cordwood.feed.ahead.pace import ReadAhead

MANY = 1 << 30


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "default_threads", lambda: 8)
    monkeypatch.setattr(module, "physical_memory", lambda: 16 * MANY)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)


def test_it_starts_with_all_cores_and_lets_those_go_that_are_not_needed() -> None:
    pace = ReadAhead()
    assert pace.threads == 8
    for _ in range(20):
        busy = 0.9 / pace.threads  # a job of 0.9 cores
        pace.look(seconds=1.0, waited=0.0, paused=1.0 - busy)
    assert pace.threads == 2  # one would be busy for nine tenths of the time: too close


def test_waiting_brings_threads_back_but_never_more_than_the_cores() -> None:
    pace = ReadAhead()
    for _ in range(20):
        pace.look(seconds=1.0, waited=0.0, paused=0.99)
    assert pace.threads == 1
    for threads in (2, 3, 4):
        pace.look(seconds=1.0, waited=0.1, paused=0.0)
        assert pace.threads == threads
    pace.look(seconds=1.0, waited=0.5, paused=0.0)  # for so long that all are wanted at once
    assert pace.threads == 8
    pace.look(seconds=1.0, waited=0.5, paused=0.0)
    assert pace.threads == 8


def test_a_little_waiting_changes_nothing() -> None:
    pace = ReadAhead()
    pace.look(seconds=1.0, waited=0.01, paused=0.9)
    assert pace.threads == 8


def test_ranks_of_one_machine_share_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    assert ReadAhead().threads == 2
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "100")
    assert ReadAhead().threads == 1


def test_a_larger_stock_where_all_threads_are_fast_enough_but_not_always() -> None:
    pace = ReadAhead()
    pace.batch_is(64 << 20)
    before = pace.depth
    for _ in range(100):
        pace.look(seconds=1.0, waited=0.1, paused=0.3)
    assert before == 2
    assert pace.depth == 16
    huge = ReadAhead()
    huge.batch_is(MANY)  # sixteen of them would fill the memory
    for _ in range(100):
        huge.look(seconds=1.0, waited=0.1, paused=0.3)
    assert huge.depth == 2


def test_what_the_caller_fixed_stays() -> None:
    pace = ReadAhead(threads=3, prefetch=5)
    for waited, paused in ((0.5, 0.5), (0.0, 1.0)):
        for _ in range(20):
            pace.look(seconds=1.0, waited=waited, paused=paused)
    pace.batch_is(100)
    assert (pace.threads, pace.depth) == (3, 5)
    assert pace.together <= 5


def test_small_batches_are_made_together() -> None:
    pace = ReadAhead()
    assert pace.together == 1
    pace.batch_is(1 << 20)
    assert (pace.together, pace.depth) == (8, 16)
    pace.batch_is(40 << 20)
    assert (pace.together, pace.depth) == (1, 2)
    pace.batch_is(0)
    assert pace.together == 32
