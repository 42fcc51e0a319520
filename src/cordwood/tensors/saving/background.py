"""Runs saves in a background thread, one after another, each with a handle."""

import atexit
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from cordwood.common.forks import ForkSafeLock, in_child
from cordwood.errors import UsageError


class Saving:
    """A save under way.

    ::

        saving = cw.save(model.state_dict(), "last.pt", background=True)
        ...                                    # train on
        saving.result()                        # waits, and raises what went wrong
    """

    def __init__(self, future: "Future[None]", name: str) -> None:
        self._future = future
        self._name = name
        self._asked = False
        self._process = os.getpid()
        _unasked.add(self)

    def done(self) -> bool:
        """Whether it ended, well or not."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> None:
        """Wait for the end; raises what the save raised, or TimeoutError."""
        self._ask()
        self._future.result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end; what the save raised, or None."""
        self._ask()
        return self._future.exception(timeout)

    def _ask(self) -> None:
        self._asked = True
        if self._process != os.getpid() and not self._future.done():
            raise UsageError(
                f"the save to {self._name} is under way in process {self._process}, which began it, and not in this "
                "one, which was forked from it"
            )

    def __repr__(self) -> str:
        state = "under way" if not self.done() else "failed" if self._future.exception() else "done"
        return f"<save to {self._name}: {state}>"

    def __del__(self) -> None:
        # Nobody will ask any more: a lost checkpoint must not pass unseen.
        if hasattr(self, "_process") and not sys.is_finalizing():
            self._tell_if_unasked()

    def _tell_if_unasked(self) -> None:
        if self._asked or self._process != os.getpid():
            return
        name = self._name

        def tell(ended: "Future[None]") -> None:
            error = ended.exception()
            if error is not None:
                warnings.warn(f"the background save to {name} failed: {error}", RuntimeWarning, stacklevel=2)

        self._asked = True
        self._future.add_done_callback(tell)


_unasked: "weakref.WeakSet[Saving]" = weakref.WeakSet()


class _Turns:
    """One thread that saves, and what waits for it."""

    def __init__(self) -> None:
        self.executor = ThreadPoolExecutor(1, "cordwood-save")
        self.lock = threading.Lock()
        self.pending: dict[str, Future[None]] = {}


_turns: _Turns | None = None
_making = ForkSafeLock()


@in_child
def _forget() -> None:
    """The thread did not come along into a forked process, and what it was doing is the parent's."""
    global _turns
    _turns = None


def _finish() -> None:
    """At the interpreter's end: everything is saved, and what failed is told, while threads can still be had."""
    turns = _turns
    if turns is None:
        return
    turns.executor.shutdown()
    for saving in list(_unasked):
        saving._tell_if_unasked()


# Threads are joined before functions of `atexit` run, and pools of threads, which compressing needs, stop taking work
# before that. What is registered here runs first, since it was registered last.
with suppress(RuntimeError):  # the interpreter is at its end already, and no thread will be started
    getattr(threading, "_register_atexit", atexit.register)(_finish)


def run_in_turn(identity: str, name: str, work: Callable[[], Any]) -> Saving:
    """Run `work` after all that was given before."""
    global _turns
    with _making:
        if _turns is None:
            _turns = _Turns()
        turns = _turns
    with turns.lock:
        try:
            future = turns.executor.submit(work)
        except RuntimeError:  # the interpreter is at its end: what was given before is saved, and no thread is started
            return Saving(_ended(work), name)
        turns.pending[identity] = future

    def forget(ended: "Future[None]") -> None:
        with turns.lock:
            if turns.pending.get(identity) is ended:
                del turns.pending[identity]

    future.add_done_callback(forget)
    return Saving(future, name)


def _ended(work: Callable[[], Any]) -> "Future[None]":
    """A future of what is done here and now."""
    future: Future[None] = Future()
    try:
        future.set_result(work())
    except Exception as error:  # as in a thread, it is for the handle to tell
        future.set_exception(error)
    return future


def wait_for_turn(identity: Callable[[], str]) -> None:
    """Wait until no background save to the same place is under way; how it ends is its handle's to tell."""
    turns = _turns
    if turns is None:
        return
    with turns.lock:
        future = turns.pending.get(identity()) if turns.pending else None
    if future is not None:
        future.exception()
