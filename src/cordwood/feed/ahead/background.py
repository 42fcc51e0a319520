"""A thread that produces items ahead of its consumer.

    background = Background(lambda: ([n, n + 1] for n in range(0, 100, 2)), depth=4, name="cordwood-feed")
    background.get()      # 0, then 1, 2, ... and StopIteration at the end
    background.close()

The thread and the taker share a queue, to which both refer; only the taker refers to the `Background`. When the taker
drops it, it is collected, and that closes the shared queue: a call of `close` is not required.

Taking an item costs a few calls of a queue written in C. There is no condition variable, and nobody is woken who is
not asleep: the thread says that it sleeps before it looks at the queue for the last time, the taker looks whether it
sleeps after it took something, so at least one of them sees the other.
"""

import atexit
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import Any, Final, Generic, NoReturn, TypeVar

from cordwood.common.forks import in_child
from cordwood.errors import FeedError

T = TypeVar("T")

# How long `close` waits for a source that is busy, in seconds. A batch takes milliseconds, and torch's DataLoader gives
# its workers some seconds to end; a source that is stuck, in somebody's network say, must not hold up the program.
PATIENCE: Final = 10.0
# The same when Ctrl-C came while the taker was waiting: then the source may well be what is stuck.
IMPATIENCE: Final = 1.0

_forks = 0  # how often this process's ancestors forked since the module was imported; threads do not come along
_running: "set[_SharedQueue[Any]]" = set()  # those whose thread has not ended


class Background(Generic[T]):
    """A thread that runs the iterator which `source` makes there, and the items that it has ready.

    The source gives groups of items that were made together; `get` takes one item. The thread pauses before it asks for
    the next group while at least `depth` items wait; `depth` may be changed at any time. What `source` refers to stays
    alive while the thread runs: it must not refer to whoever holds the `Background`. `stopping` is called, by whoever
    closes it, when the thread is to end: a source may be in the middle of something long.
    """

    def __init__(
        self,
        source: Callable[[], Iterator[Sequence[T]]],
        depth: int,
        name: str,
        stopping: Callable[[], None] | None = None,
    ) -> None:
        self.waits = 0  # how often `get` found nothing ready
        self.waited = 0.0  # seconds that it waited then
        self._shared = shared = _SharedQueue[T](depth, stopping)
        shared.thread = threading.Thread(target=shared.run, args=(source,), name=name, daemon=True)
        # At the end of the program everything is closed by _close_all, which knows the order to do it in.
        weakref.finalize(self, shared.close, PATIENCE).atexit = False
        # What was registered last runs first: the thread ends before whatever its source uses is taken down.
        atexit.unregister(_close_all)
        atexit.register(_close_all)
        _running.add(shared)
        try:
            shared.thread.start()
        except Exception:  # not Ctrl-C, which comes while the thread is beginning
            _running.discard(shared)
            raise

    def get(self) -> T:
        """The next item, when it is there; StopIteration at the end.

        What the source raised is raised once, after the items before it.
        """
        shared = self._shared
        if shared.forks != _forks:
            raise FeedError(
                "this iteration began in the process that this one was forked from, and its thread did not come "
                "along: begin a new one here, with iter() or a new for loop"
            )
        queue = shared.queue
        if queue.empty():
            began = perf_counter()
            try:
                item = queue.get()
            except BaseException:
                shared.is_interrupted = True
                raise
            self.waits += 1
            self.waited += perf_counter() - began
        else:
            item = queue.get()
        if isinstance(item, _Last):
            shared.end(item)
        if shared.asleep_since is not None and queue.qsize() < shared.depth:
            shared.ring()
        return item

    def close(self, patience: float = PATIENCE) -> None:
        """End the thread, and drop what waits; a second time does nothing.

        A source that gives no sign within `patience` seconds is left behind: its thread ends when it does.
        """
        self._shared.close(patience)

    @property
    def depth(self) -> int:
        """As many items shall be ready."""
        return self._shared.depth

    @depth.setter
    def depth(self, depth: int) -> None:
        self._shared.depth = depth
        self._shared.ring()

    @property
    def ready(self) -> int:
        """How many items wait now."""
        return self._shared.ready

    @property
    def paused(self) -> float:
        """Seconds that the thread had nothing to do, because enough was ready."""
        since = self._shared.asleep_since
        return self._shared.paused + (perf_counter() - since if since is not None else 0.0)


class _Last:
    """Stands in the queue behind the last item, with what the source raised if it failed."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


class _SharedQueue(Generic[T]):
    """What the thread and the taker have in common."""

    def __init__(self, depth: int, stopping: Callable[[], None] | None) -> None:
        self._stopping = stopping
        self.queue: SimpleQueue[T | _Last] = SimpleQueue()
        self.depth = depth
        self.asleep_since: float | None = None
        self.paused = 0.0
        self.forks = _forks
        self.is_interrupted = False
        self.thread: threading.Thread | None = None
        self._is_closed = False
        self._has_ended = False
        self._bell = threading.Lock()  # free when it was rung; the thread sleeps by acquiring it
        self._bell.acquire()
        self._over = threading.Lock()  # free when the source is done with, and closed
        self._over.acquire()

    # What the thread does.

    def run(self, source: Callable[[], Iterator[Sequence[T]]]) -> None:
        last = _Last()
        try:
            if not self._is_closed:
                last = self._fill(source)
        finally:
            if self._is_closed:
                self._drop()
                last = _Last()  # an error that nobody waits for any more
            self.queue.put(last)
            self._has_ended = True
            _running.discard(self)
            self._over.release()

    def _fill(self, source: Callable[[], Iterator[Sequence[T]]]) -> _Last:
        try:
            iterator = source()
        except BaseException as error:
            return _failure(error)
        try:
            while not self._is_closed:
                self._put(next(iterator))
                self._sleep_while_full()
        except StopIteration:
            return _Last()
        except BaseException as error:
            return _failure(error)
        finally:
            # An error of `close` is nobody's answer any more: it ends the thread, and threading.excepthook tells it.
            close = getattr(iterator, "close", None)
            if close is not None:
                close()
        return _Last()

    def _put(self, group: Sequence[T]) -> None:
        # In a function of its own, so that no variable of a sleeping thread keeps the memory of an item that was taken.
        for item in group:
            self.queue.put(item)

    def _sleep_while_full(self) -> None:
        if self.queue.qsize() < self.depth:
            return
        self.asleep_since = began = perf_counter()
        while self.queue.qsize() >= self.depth and not self._is_closed:
            self._bell.acquire()
        self.asleep_since = None
        self.paused += perf_counter() - began

    # What the taker does.

    @property
    def ready(self) -> int:
        return 0 if self._is_closed else max(0, self.queue.qsize() - self._has_ended)

    def ring(self) -> None:
        """Wake the thread if it sleeps."""
        with suppress(RuntimeError):  # it was rung already
            self._bell.release()

    def end(self, last: _Last) -> NoReturn:
        self.queue.put(_Last())  # for whoever asks again
        error, last.error = last.error, None
        if error is None:
            raise StopIteration
        try:
            raise error
        finally:
            del error  # its traceback holds this frame

    def stop(self) -> None:
        """Tell the thread to end."""
        self._is_closed = True
        if self._stopping is not None:
            self._stopping()
        self.ring()

    def wait(self, patience: float) -> None:
        """Wait until the thread has ended, unless it is the one that asks."""
        thread = self.thread
        if thread is None or thread.ident is None or thread.ident == threading.get_ident():
            return
        # Not by `join` alone: interrupted by Ctrl-C, that one takes a living thread for a dead one (Python 3.11).
        if not self._has_ended:
            if not self._over.acquire(timeout=patience):
                return
            self._over.release()
        thread.join()

    def close(self, patience: float) -> None:
        if self.forks != _forks:
            return
        self.stop()
        self.wait(min(patience, IMPATIENCE) if self.is_interrupted else patience)
        self._drop()
        self.queue.put(_Last())

    def _drop(self) -> None:
        with suppress(Empty):
            while True:
                self.queue.get_nowait()


def _failure(error: BaseException) -> _Last:
    """The error without this module's own frame, whose variables would be kept along with it."""
    frames = error.__traceback__
    return _Last(error.with_traceback(frames.tb_next if frames is not None else None))


def _close_all() -> None:
    """At the end of the program: no thread runs on into an interpreter that is being taken down."""
    running = list(_running)
    for shared in running:
        shared.stop()
    deadline = perf_counter() + PATIENCE
    for shared in running:
        shared.wait(max(0.0, deadline - perf_counter()))


@in_child
def _forget() -> None:
    global _forks
    _forks += 1
    _running.clear()
