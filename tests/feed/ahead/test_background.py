"""The background thread: everything in order, never more than asked for, and gone when nobody takes any more."""

import gc
import os
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import FeedError
from cordwood.feed.ahead import background as module
from cordwood.feed.ahead.background import Background
from tests.feed.support.own_process import CtrlC, run
from tests.store.support.forked import in_child


def rest_of(background: Background[Any]) -> list[Any]:
    taken = []
    try:
        while True:
            taken.append(background.get())
    except StopIteration:
        return taken


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        os.sched_yield()


def thread_of(background: Background[Any]) -> threading.Thread:
    thread = background._shared.thread
    assert thread is not None
    return thread


class Item:
    """Something that can be watched."""


@given(groups=st.lists(st.lists(st.integers(), max_size=5), max_size=20), depth=st.integers(1, 8))
def test_all_items_come_in_order_and_then_the_end(groups: list[list[int]], depth: int) -> None:
    background = Background(lambda: iter(groups), depth, "test")
    assert rest_of(background) == [item for group in groups for item in group]
    for _ in range(2):
        with pytest.raises(StopIteration):
            background.get()
    background.close()


@pytest.mark.parametrize(("depth", "group"), [(1, 1), (2, 1), (3, 7)])
def test_no_wake_up_is_lost(depth: int, group: int) -> None:
    background = Background(lambda: (range(n, n + group) for n in range(0, 21_000, group)), depth, "test")
    assert rest_of(background) == list(range(21_000))


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_the_source_is_asked_only_while_fewer_than_depth_wait(depth: int) -> None:
    waiting = []
    begin = threading.Event()

    def source() -> Iterator[list[int]]:
        begin.wait()
        for number in range(50):
            waiting.append(background.ready)
            yield [number, number]

    background = Background(source, depth, "test")
    begin.set()
    until(lambda: background.paused > 0)
    assert depth <= background.ready <= depth + 1
    assert len(rest_of(background)) == 100
    assert max(waiting) < depth
    assert background.ready == 0


def test_a_greater_depth_wakes_the_thread() -> None:
    background = Background(lambda: ([n] for n in range(100)), 1, "test")
    until(lambda: background.paused > 0)
    assert background.ready == 1
    background.depth = 6
    until(lambda: background.ready == 6)
    assert background.depth == 6
    background.close()


def test_a_smaller_depth_is_kept_from_then_on() -> None:
    asked = []

    def source() -> Iterator[list[int]]:
        for number in range(100):
            asked.append(number)
            yield [number]

    background = Background(source, 10, "test")
    until(lambda: background.paused > 0)
    background.depth = 2
    for _ in range(8):
        background.get()
    assert len(asked) == 10
    background.close()


def test_waits_are_counted_when_nothing_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(1000))
    looked_at_the_clock = threading.Event()

    def clock() -> float:
        looked_at_the_clock.set()
        return float(next(ticks))

    def source() -> Iterator[list[str]]:
        looked_at_the_clock.wait()
        yield ["first"]
        yield ["second", "third"]

    monkeypatch.setattr(module, "perf_counter", clock)
    background = Background(source, 10, "test")
    assert (background.get(), background.waits) == ("first", 1)
    assert background.waited > 0
    until(lambda: background.ready == 2)
    thread_of(background).join()
    counted = background.waits, background.waited
    assert rest_of(background) == ["second", "third"]
    assert (background.waits, background.waited) == counted


def test_an_error_comes_after_the_items_before_it_once_and_with_its_traceback() -> None:
    def raises_in_the_source() -> Iterator[list[int]]:
        yield [1, 2]
        yield [3]
        raise LookupError("no more")

    background = Background(raises_in_the_source, 10, "test")
    assert [background.get() for _ in range(3)] == [1, 2, 3]
    with pytest.raises(LookupError, match="no more") as caught:
        background.get()
    assert "raises_in_the_source" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    with pytest.raises(StopIteration):
        background.get()
    background.close()


def test_a_source_that_cannot_be_made_and_one_that_exits_raise_in_the_taker() -> None:
    def cannot_be_made() -> Iterator[list[int]]:
        raise PermissionError("locked")

    def exits() -> Iterator[list[int]]:
        yield [1]
        raise SystemExit(3)

    with pytest.raises(PermissionError, match="locked"):
        Background(cannot_be_made, 2, "test").get()
    background = Background(exits, 2, "test")
    assert background.get() == 1
    with pytest.raises(SystemExit):
        background.get()


def test_an_error_keeps_neither_items_nor_the_queue_alive() -> None:
    def source() -> Iterator[list[int]]:
        yield []
        raise LookupError("no more")

    background = Background(source, 2, "test")
    shared = weakref.ref(background._shared)
    thread_of(background).join()
    gc.disable()
    try:
        with pytest.raises(LookupError):
            background.get()
        del background
        assert shared() is None
    finally:
        gc.enable()


def test_close_ends_the_source_in_its_own_thread_and_drops_what_waits() -> None:
    where: list[int] = []
    items: list[weakref.ref[Item]] = []

    def watched() -> Item:
        item = Item()
        items.append(weakref.ref(item))
        return item

    def source() -> Iterator[list[Item]]:
        try:
            while True:
                yield [watched()]
        finally:
            where.append(threading.get_ident())

    background = Background(source, 4, "the name")
    thread = thread_of(background)
    assert (thread.name, thread.daemon) == ("the name", True)
    background.get()
    background.close()
    assert where == [thread.ident]
    assert not thread.is_alive()
    assert [item() for item in items] == [None] * len(items)
    assert background.ready == 0
    background.close()
    with pytest.raises(StopIteration):
        background.get()
    assert background._shared not in module._running


def test_an_item_that_was_taken_is_the_takers_alone() -> None:
    background = Background(lambda: ([Item(), Item()] for _ in range(10)), 2, "test")
    until(lambda: background.paused > 0)
    taken = [background.get(), background.get()]
    watched = [weakref.ref(item) for item in taken]
    until(lambda: background.ready == 2 and background._shared.asleep_since is not None)
    taken.clear()
    assert [item() for item in watched] == [None, None]
    background.close()


def test_forgetting_it_ends_the_thread() -> None:
    background = Background(lambda: ([n] for n in range(100)), 3, "test")
    background.get()
    thread = thread_of(background)
    del background
    assert not thread.is_alive()


def test_a_taker_that_waits_sees_the_end_when_another_thread_closes() -> None:
    go_on = threading.Event()
    answers: list[Any] = []

    def source() -> Iterator[list[int]]:
        go_on.wait()
        yield [1]

    background = Background(source, 1, "test")
    taker = threading.Thread(target=lambda: answers.append(rest_of(background)))
    taker.start()
    background.close(patience=0)  # the source is busy: not waited for
    taker.join()
    assert answers == [[]]
    thread = thread_of(background)
    assert thread.is_alive()
    go_on.set()
    thread.join()
    assert rest_of(background) == []
    background.close()


def test_a_source_may_close_its_own_background() -> None:
    made: list[Background[int]] = []
    known = threading.Event()

    def source() -> Iterator[list[int]]:
        known.wait()
        yield [1]
        made[0].close()
        yield [2]

    made.append(Background(source, 5, "test"))
    known.set()
    thread_of(made[0]).join()
    assert rest_of(made[0]) == []


def test_one_in_the_source_of_another_ends_with_it() -> None:
    inner: list[threading.Thread] = []

    def outer() -> Iterator[list[int]]:
        background = Background(lambda: ([n] for n in range(1000)), 3, "inner")
        inner.append(thread_of(background))
        while True:
            yield [background.get()]

    background = Background(outer, 2, "outer")
    assert [background.get() for _ in range(3)] == [0, 1, 2]
    background.close()
    assert not inner[0].is_alive()


def test_an_error_of_the_sources_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: told.append(args.exc_value))

    def source() -> Iterator[list[int]]:
        try:
            while True:
                yield [1]
        finally:
            raise OSError("cannot be closed")

    background = Background(source, 2, "test")
    background.get()
    background.close()
    assert [str(error) for error in told] == ["cannot be closed"]


@pytest.mark.slow
def test_a_program_may_end_without_closing() -> None:
    printed = run(
        """
        from cordwood.feed.ahead.background import Background

        def source():
            try:
                while True:
                    yield [bytes(1000)]
            finally:
                print("closed")

        kept = [Background(source, 3, "test") for _ in range(3)]
        kept[0].get()
        print("end of the script")
        """
    )
    assert (printed.startswith("end of the script\n"), printed.count("closed")) == (True, 3)


@pytest.mark.slow
def test_a_program_ends_although_a_source_is_stuck() -> None:
    printed = run(
        """
        import threading
        from cordwood.feed.ahead import background

        background.PATIENCE = 0.0
        stuck = threading.Event()

        def source():
            stuck.set()
            threading.Event().wait()
            yield []

        kept = background.Background(source, 3, "test")
        stuck.wait()
        print("end of the script")
        """
    )
    assert printed == "end of the script\n"


def test_ctrl_c_interrupts_a_taker_that_waits_and_the_rest_still_comes() -> None:
    def in_the_child() -> None:
        ctrl_c = CtrlC()
        begun = threading.Event()

        def source() -> Iterator[list[str]]:
            begun.wait()
            ctrl_c.send()
            yield ["item"]

        def take() -> None:
            begun.set()
            background.get()

        background = Background(source, 3, "test")
        with pytest.raises(KeyboardInterrupt):
            take()
        assert rest_of(background) == ["item"]
        background.close()
        assert threading.enumerate() == [threading.main_thread()]

    ended = in_child(in_the_child)
    assert ended.code == 0, ended.text


def test_ctrl_c_while_the_thread_begins_leaves_none() -> None:
    def in_the_child() -> None:
        ctrl_c = CtrlC()

        def source() -> Iterator[list[str]]:
            ctrl_c.send()
            yield ["item"]

        with pytest.raises(KeyboardInterrupt):
            Background(source, 3, "test").get()
        for thread in threading.enumerate():
            if thread is not threading.main_thread():
                thread.join()

    ended = in_child(in_the_child)
    assert ended.code == 0, ended.text


def test_a_forked_process_is_told_to_begin_anew_and_can() -> None:
    background = Background(lambda: ([n] for n in range(100)), 2, "test")
    background.get()

    def in_the_child() -> None:
        with pytest.raises(FeedError, match=r"iter\(\)"):
            background.get()
        background.close()
        assert rest_of(Background(lambda: ([n] for n in range(3)), 2, "test")) == [0, 1, 2]

    ended = in_child(in_the_child)
    assert ended.code == 0, ended.text
    assert [background.get() for _ in range(3)] == [1, 2, 3]
    background.close()
