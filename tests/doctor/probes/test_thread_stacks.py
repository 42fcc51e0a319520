"""The stack of another thread: the right functions and lines, and a collector that is as it was."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cordwood.doctor.probes.thread_stacks import stack_of


def inner(ready: threading.Event, done: threading.Event) -> None:
    ready.set()
    done.wait()


def outer(ready: threading.Event, done: threading.Event) -> None:
    inner(ready, done)


def spin(ready: threading.Event, done: threading.Event) -> None:
    turns = 0
    while not done.is_set():
        ready.set()
        for turn in range(1000):
            if turn % 3 == 1:
                turns += 1


@contextmanager
def running(function: object) -> Iterator[int]:
    ready, done = threading.Event(), threading.Event()
    thread = threading.Thread(target=function, args=(ready, done))  # type: ignore[arg-type]
    thread.start()
    ready.wait()
    try:
        assert thread.ident is not None
        yield thread.ident
    finally:
        done.set()
        thread.join()


def test_functions_come_innermost_first() -> None:
    with running(outer) as identity:
        stack = stack_of(identity)
    assert stack is not None
    codes = [code for code, _ in stack]
    assert codes.index(inner.__code__) + 1 == codes.index(outer.__code__)
    assert stack[codes.index(outer.__code__)][1] == outer.__code__.co_firstlineno + 1


def test_every_look_at_a_loop_is_on_one_of_its_lines() -> None:
    first = spin.__code__.co_firstlineno
    seen = set()
    with running(spin) as identity:
        for _ in range(300):
            stack = stack_of(identity)
            assert stack is not None
            seen |= {line - first for code, line in stack if code is spin.__code__}
    assert seen
    assert seen <= {1, 2, 3, 4, 5, 6}


def test_a_thread_that_is_not_there_has_no_stack() -> None:
    with running(outer) as identity:
        pass
    assert stack_of(identity) is None


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_as_it_was(enabled: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with running(outer) as identity:
            stack_of(identity)
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()
