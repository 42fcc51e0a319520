"""What a forked process must not inherit: locks held by threads that do not exist there, state of its parent."""

import gc
import os
import pickle
import threading
from collections.abc import Callable

from cordwood.common.forks import ForkSafeLock, in_child


def forked(work: Callable[[], bool]) -> bool:
    """What `work` returns in a forked process."""
    child = os.fork()
    if child == 0:
        answer = False
        try:
            answer = work()
        finally:
            os._exit(0 if answer else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def is_free(lock: ForkSafeLock) -> bool:
    entered = threading.Event()

    def enter() -> None:
        with lock:
            entered.set()

    threading.Thread(target=enter, daemon=True).start()
    return entered.wait(0.5)


class Counted:
    def __init__(self) -> None:
        self.calls = 0
        in_child(self.call)

    def call(self) -> None:
        self.calls += 1


def test_a_lock_that_another_thread_holds_is_free_in_a_child() -> None:
    lock, held, leave = ForkSafeLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            leave.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    try:
        assert not is_free(lock)
        assert forked(lambda: is_free(lock))
        assert not is_free(lock)
    finally:
        leave.set()
        holder.join()
    assert is_free(lock)


def test_a_block_that_a_process_is_forked_in_is_left_by_both() -> None:
    lock = ForkSafeLock()
    with lock:
        child = os.fork()
    if child == 0:
        os._exit(0 if is_free(lock) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert is_free(lock)


def test_a_lock_keeps_other_threads_out() -> None:
    lock = ForkSafeLock()
    with lock:
        assert not is_free(lock)


def test_a_pickled_lock_comes_back_free() -> None:
    lock = ForkSafeLock()
    with lock:
        assert is_free(pickle.loads(pickle.dumps(lock)))


def test_a_method_is_called_in_children_only_and_once_per_fork() -> None:
    counted = Counted()
    assert forked(lambda: counted.calls == 1 and forked(lambda: counted.calls == 2))
    assert counted.calls == 0


def test_an_object_is_not_kept_alive_for_its_method() -> None:
    calls: list[int] = []

    class Forgotten(Counted):
        def call(self) -> None:
            calls.append(1)

    forgotten = Forgotten()
    assert forked(lambda: calls == [1])
    del forgotten
    gc.collect()
    assert forked(lambda: calls == [])


def test_a_function_is_called_in_children_also_as_a_decorator() -> None:
    called: list[int] = []

    @in_child
    def note() -> None:
        called.append(os.getpid())

    assert forked(lambda: called == [os.getpid()])
    assert called == []
