"""Worker processes as everybody gets them: an interpreter of their own, tasks in, results and deaths out."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from cordwood.errors import StorageError
from cordwood.packing.transform.transform import prepare_transform
from cordwood.packing.workers import pool as workerpool
from cordwood.packing.workers.pool import Died, Event, Overdue, Pool
from cordwood.packing.workers.work import Job, RawResult
from cordwood.packing.workers.worker import NO_PLACE, NOWHERE, PLACE, Finished, Task
from tests.feed.support.leftovers import Leftovers
from tests.packing.support.forkedworkers import launch


def job(transform: Any) -> Job:
    return Job(lambda number: {"number": number}, prepare_transform(transform), 0, 1, 0, (), {})


def events(pool: Pool, count: int) -> list[Event]:
    """The next ones."""
    found: list[Event] = []
    while len(found) < count:
        found += pool.wait(0.2)
    return found


def about_itself(sample: dict[str, Any]) -> dict[str, Any]:
    if sample["number"] == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    main = sys.modules["__main__"]
    return {
        "number": sample["number"],
        "pid": os.getpid(),
        "group": os.getpgid(0),
        "threads": torch.get_num_threads(),
        "main": getattr(main, "__file__", None) or "",
        "ignores": signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
    }


def test_workers_from_their_start_to_their_end() -> None:
    """One test, because starting a worker takes long."""
    before = Leftovers.now()
    with Pool(job(about_itself), 1) as pool:
        (first,) = pool.pids
        pool.give(Task(3, [3, 4]))
        pool.give(Task(13, [13, 14]))
        assert not pool.has_room
        done, died = events(pool, 2)
        assert isinstance(done, Finished)
        assert isinstance(done.result, RawResult)
        (one,), (other,) = done.result.samples
        assert (done.first, one["number"], other["number"]) == (3, 3, 4)
        assert one["pid"] == first
        assert one["group"] == first  # Ctrl-C in a terminal does not reach it
        assert one["main"] == ""  # nobody's script was imported
        assert one["ignores"]
        assert one["threads"] == 1
        assert isinstance(died, Died)
        assert died == Died(13, [Task(13, [13, 14])], died.how)
        assert "signal 9 (SIGKILL)" in died.how
        # Another one took its place.
        assert pool.pids != [first]
        pool.give(Task(20, [20]))
        (done,) = events(pool, 1)
        assert isinstance(done, Finished)
        assert done.result.counts == [1]
        # One that does nothing at the moment dies without a place.
        os.kill(pool.pids[0], signal.SIGTERM)
        (died,) = events(pool, 1)
        assert isinstance(died, Died)
        assert (died.at, died.tasks) == (NOWHERE, [])
    assert pool.pids == []
    assert Leftovers.now() == before


def test_a_worker_that_comes_to_its_end_before_it_is_killed_is_not_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it was given is done again."""
    release = tmp_path / "release"

    def waits(sample: dict[str, Any]) -> dict[str, Any]:
        while not release.exists():
            threading.Event().wait(0.001)
        return sample

    def release_and_kill(worker: Any) -> None:
        release.touch()
        while PLACE.unpack_from(worker._place) != NO_PLACE:
            threading.Event().wait(0.001)
        kill(worker)

    kill = workerpool._Worker.kill
    monkeypatch.setattr(workerpool._Worker, "_launch", launch)
    monkeypatch.setattr(workerpool._Worker, "kill", release_and_kill)
    with Pool(job(waits), 1, timeout=0.01) as pool:
        pool.give(Task(3, [3]))
        pool.give(Task(4, [4]))
        (overdue,) = events(pool, 1)
        assert overdue == Overdue(None, [Task(3, [3]), Task(4, [4])])


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **options: Any) -> Any:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)


@pytest.mark.usefixtures("refusing")
def test_a_system_that_starts_no_more_processes() -> None:
    before = Leftovers.now()
    identity: Callable[[Any], Any] = lambda sample: sample  # noqa: E731 - what is pickled
    with pytest.raises(StorageError, match="a worker process cannot be started"):
        Pool(job(identity), 2)
    assert Leftovers.now() == before
