"""The end of a process that iterates: by itself, by Ctrl-C, by a kill. It ends at once, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.feed.support.numbered import numbered
from tests.feed.support.own_process import run

COUNT = 300
PATIENCE = 240  # seconds: then it hangs

PREPARED = """
import signal, sys, threading
import cordwood as cw
from cordwood import Loader

def same(sample):
    return sample

ds = cw.open({path!r})
"""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The first lines of a script."""
    path = tmp_path_factory.mktemp("ending") / "s"
    numbered(path, COUNT, shard_bytes=5_000)
    return PREPARED.format(path=str(path))


@contextmanager
def running(text: str, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    """A script in a process of its own, which has said that it is going."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", text],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "going\n", process.communicate()[1]
        yield process
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


@pytest.mark.slow
def test_the_program_ends_while_batches_are_made(prepared: str) -> None:
    ending = """
    alive = []
    for options in (
        {},
        {"prefetch": 1000},
        {"memory": "ram"},
        {"sample_transform": same, "threads": 3},
        {"sample_transform": same, "sample_workers": 1},
    ):
        loader = Loader(ds, batch_size=2, shuffle=True, **options)
        iterator = iter(loader)
        next(iterator)
        alive.append((loader, iterator))
    print(any(thread.name.startswith("cordwood") for thread in threading.enumerate()))
    for batch in Loader(ds, batch_size=2):
        sys.exit()
    """
    assert run(prepared + textwrap.dedent(ending)) == "True\n"


def test_ctrl_c_is_an_exception_like_any_other(prepared: str) -> None:
    interrupted = """
    def interrupts(sample):
        if sample["number"] == 25 and not over:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        return sample

    over = False
    loader = Loader(ds, batch_size=10, sample_transform=interrupts, threads=1, prefetch=1)
    seen = 0
    try:
        for batch in loader:
            seen += 10
    except KeyboardInterrupt:
        over = True
        print("interrupted")
    state = loader.state_dict()
    print(seen < 300, state["epoch"], 0 <= state["consumed"] - seen <= 10)
    loader.load_state_dict(state)
    print(state["consumed"] + sum(len(batch["number"]) for batch in loader))
    print(threading.enumerate() == [threading.main_thread()])
    """
    told = run(prepared + textwrap.dedent(interrupted)).splitlines()
    assert told == ["interrupted", "True 0 True", "300", "True"]


ENDLESS = """
loaders = [
    Loader(ds, batch_size=4, shuffle=True),
    Loader(ds, batch_size=4, memory="ram"),
    Loader(ds, batch_size=4, sample_transform=same, threads=2),
]
told = False
while True:
    for batches in zip(*loaders):
        if not told:
            print("going", flush=True)
            told = True
"""


def test_ctrl_c_ends_a_program_that_does_not_mind_it(prepared: str) -> None:
    with running(prepared + ENDLESS) as process:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGINT
    assert errors.count("Traceback") == 1, errors
    assert errors.rstrip().endswith("KeyboardInterrupt")


def shared_memory() -> set[str]:
    folder = Path("/dev/shm")
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


@pytest.mark.slow
def test_a_killed_program_leaves_no_files(prepared: str, tmp_path: Path) -> None:
    before = shared_memory()
    with running(prepared + ENDLESS, TMPDIR=str(tmp_path)) as process:
        process.kill()
        process.communicate(timeout=PATIENCE)
        mine = {name for name in shared_memory() - before if str(process.pid) in name}
    assert process.returncode == -signal.SIGKILL
    assert mine == set()
    assert list(tmp_path.iterdir()) == []


def assert_workers_end(script: str) -> None:
    """Kill a script, and fail unless all of its processes end."""
    with running(script) as process:
        process.kill()
        # The workers hold the other end of these pipes: it is closed when the last of them has ended.
        process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_workers_end_with_a_program_that_is_killed(prepared: str) -> None:
    workers = """
    for batch in Loader(ds, batch_size=1, sample_transform=same, sample_workers=2):
        print("going", flush=True)
        sys.stdin.readline()
    """
    assert_workers_end(prepared + textwrap.dedent(workers))


@pytest.mark.slow
def test_a_worker_ends_although_its_parent_was_killed_before_it_was_up(prepared: str) -> None:
    workers = """
    import os

    parent, forks = os.getpid(), []

    def second_is_late():
        while len(forks) == 2 and os.getppid() == parent:
            os.sched_yield()

    os.register_at_fork(before=lambda: forks.append(None), after_in_child=second_is_late)
    for batch in Loader(ds, batch_size=1, sample_transform=same, sample_workers=2):
        print("going", flush=True)
        sys.stdin.readline()
    """
    assert_workers_end(prepared + textwrap.dedent(workers))


@pytest.mark.slow
def test_a_worker_that_is_stuck_ends_with_a_program_that_is_killed(prepared: str) -> None:
    workers = """
    def stuck(sample):
        if sample["number"] > 0:
            threading.Event().wait()
        return sample

    for batch in Loader(ds, batch_size=1, sample_transform=stuck, sample_workers=2):
        print("going", flush=True)
        sys.stdin.readline()
    """
    assert_workers_end(prepared + textwrap.dedent(workers))
