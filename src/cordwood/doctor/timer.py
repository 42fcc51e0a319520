"""``cw.Timer``: a stopwatch for pieces of code, which can wait for the accelerator.

    timer = cw.Timer()
    with timer.start(sync=True):
        prob = model(image)
    print(f"Elapse: {timer.diff:.2f}s")

Operations on an accelerator are queued: without waiting, a clock measures how long it takes to hand them over, not how
long they run. This module imports neither torch nor NumPy. If the program has not imported torch, or has not used a
device, there is nothing to wait for, and no device is initialised.
"""

import contextlib
import functools
import inspect
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from time import perf_counter
from types import TracebackType
from typing import Any, TypeVar, cast

from cordwood.errors import UsageError


def wait_for_accelerator() -> None:
    """Return when the accelerator in use (CUDA, XPU, MPS, ...) has done all it was given. Free without one."""
    backend = _backend_in_use()
    if backend is None:
        return
    if not hasattr(backend, "device_count") or not hasattr(backend, "memory_reserved"):  # MPS: there is one device
        backend.synchronize()
        return
    current = backend.current_device()
    for index in range(backend.device_count()):
        # Others than the current device may be at work, too; those that hold no memory are not.
        if index == current or backend.memory_reserved(index):
            backend.synchronize(index)


def _backend_in_use() -> Any:
    """The module of torch that speaks to the accelerator, such as torch.cuda; None if it was not used so far."""
    torch: Any = sys.modules.get("torch")
    accelerator = getattr(torch, "accelerator", None)
    device = None if accelerator is None else accelerator.current_accelerator()
    if device is None:
        return None
    backend = getattr(torch, device.type, None)
    if not hasattr(backend, "synchronize"):
        return None
    is_initialized = getattr(backend, "is_initialized", None)  # MPS has none: it is there from the start
    return backend if is_initialized is None or is_initialized() else None


_Function = TypeVar("_Function", bound=Callable[..., Any])


class Timer:
    """Measures how long pieces of code take, and adds that up.

    ::

        timer = Timer()
        timer.tic(); train(); timer.toc()               # seconds
        with timer.start(): train()
        with timer.start(sync=True) as t: train()       # t is the timer; the accelerator has done its work at the end

        @timer                                          # or @timer.start(sync=True)
        def train(): ...

        timer.tic()
        for batch in loader:
            train(batch)
            timer.lap()
        timer.toc()
        timer.laps                                      # seconds of each

    ``diff`` is what the last measurement took, also if it ended by an exception. ``calls`` counts measurements,
    ``acc_time`` is the time in which one was under way, ``spc`` seconds per call, ``cps`` calls per second: all since
    the last `reset`. ``total_time`` and ``total_calls`` know of no reset. Measurements may be inside each other, in
    recursive functions, too: each has its own ``diff``, and no second is added up twice. The clock is monotonic.

    A decorated coroutine function is measured from its start to its end, whoever runs meanwhile; of a generator only
    the time inside it counts, and it is one call.

    With ``sync=True``, here or in `start`, a measurement begins and ends when the accelerator in use (CUDA, XPU, MPS)
    has done all it was given; without one that costs nothing, and none is woken up for it.

    One timer may be used by several threads: each has its own measurements, and their times are added up, so
    ``acc_time`` may be more than went by. ``diff`` is then of whichever ended last.
    """

    def __init__(self, sync: bool = False) -> None:
        if callable(sync):  # @cw.Timer without parentheses would put a timer in the function's place
            raise UsageError("Timer decorates by one of its objects: timer = cw.Timer(), then @timer; or @cw.Timer()")
        self.sync = sync
        self.diff = 0.0
        self.acc_time = 0.0
        self.calls = 0
        self.total_time = 0.0
        self.total_calls = 0
        self.laps: list[float] = []
        self._make_locks()

    def _make_locks(self) -> None:
        self._lock = threading.Lock()
        self._threads = _Threads()

    @property
    def spc(self) -> float:
        """Seconds per call; 0 before the first."""
        return self.acc_time / self.calls if self.calls else 0.0

    @property
    def cps(self) -> float:
        """Calls per second; 0 before the first."""
        return self.calls / self.acc_time if self.acc_time else 0.0

    def tic(self) -> None:
        """Begin a measurement, which the next `toc` of this thread ends."""
        self._begin(_Running(self.sync, by_tic=True))

    def toc(self) -> float:
        """End the measurement that the last `tic` began, and return its seconds."""
        for running in reversed(self._threads.here.running):
            if running.by_tic:
                return self._end(running)
        raise UsageError("toc() without a tic() before it in this thread: there is nothing to end")

    def lap(self) -> float:
        """The seconds since the last lap of the innermost measurement, or since it began; also kept in ``laps``."""
        if not self._threads.here.running:
            raise UsageError("lap() while nothing is measured in this thread: call tic() first, or use `with`")
        running = self._threads.here.running[-1]
        if running.sync:
            wait_for_accelerator()
        now = perf_counter()
        seconds, running.lapped = now - running.lapped, now
        self.laps.append(seconds)
        return seconds

    def reset(self) -> None:
        """Forget what was added up, but for the totals. A measurement that is under way goes on."""
        with self._lock:
            self.diff = self.acc_time = 0.0
            self.calls = 0
            self.laps = []

    def start(self, sync: bool | None = None) -> "Measured":
        """For ``with``, or as a decorator. `sync` is that of the timer unless it is given."""
        return Measured(self, self.sync if sync is None else sync)

    def __enter__(self) -> "Timer":
        self.tic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.toc()

    def __call__(self, function: _Function) -> _Function:
        return self.start()(function)

    def _begin(self, running: "_Running") -> None:
        here = running.here = self._threads.here
        if running.sync:
            wait_for_accelerator()
        running.started = running.lapped = perf_counter()
        if not here.running:
            here.since = running.started
        here.running.append(running)

    def _end(self, running: "_Running", *, count: bool = True) -> float:
        """Its seconds. The time is kept even if waiting for the accelerator reports what went wrong there."""
        here = running.here
        try:
            if running.sync:
                wait_for_accelerator()
        finally:
            now = perf_counter()
            here.running.remove(running)
            covered = 0.0 if here.running else now - here.since
            seconds = now - running.started
            with self._lock:
                self.acc_time += covered
                self.total_time += covered
            if count:
                self._count(seconds)
        return seconds

    def _count(self, seconds: float) -> None:
        with self._lock:
            self.diff = seconds
            self.calls += 1
            self.total_calls += 1

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_lock", "_threads")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._make_locks()

    def __repr__(self) -> str:
        return f"Timer(calls={self.calls}, acc_time={self.acc_time:.6f}, spc={self.spc:.6f}, diff={self.diff:.6f})"


class Measured:
    """One way of using a timer, for ``with`` or as a decorator; it may be used again and again."""

    def __init__(self, timer: Timer, sync: bool) -> None:
        self._timer = timer
        self._sync = sync
        self._entered: list[_Running] = []

    def __enter__(self) -> Timer:
        running = _Running(self._sync)
        self._timer._begin(running)
        self._entered.append(running)
        return self._timer

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _end_of_block(self._timer, self._entered.pop(), error)

    def __call__(self, function: _Function) -> _Function:
        if inspect.isasyncgenfunction(function):
            wrapper: Callable[..., Any] = self._async_generator(function)
        elif inspect.isgeneratorfunction(function):
            wrapper = self._generator(function)
        elif inspect.iscoroutinefunction(function):
            wrapper = self._coroutine(function)
        else:
            wrapper = self._function(function)
        return cast(_Function, functools.wraps(function)(wrapper))

    def _function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*arguments: Any, **named: Any) -> Any:
            with Measured(self._timer, self._sync):
                return function(*arguments, **named)

        return measured

    def _coroutine(self, function: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        async def measured(*arguments: Any, **named: Any) -> Any:
            with Measured(self._timer, self._sync):
                return await function(*arguments, **named)

        return measured

    def _generator(self, function: Callable[..., Generator[Any, Any, Any]]) -> Callable[..., Any]:
        def measured(*arguments: Any, **named: Any) -> Generator[Any, Any, Any]:
            pieces = _Pieces(self._timer, self._sync)
            inner = function(*arguments, **named)
            resume: Callable[[], Any] = functools.partial(next, inner)
            try:
                while True:
                    with pieces:
                        item = resume()
                    try:
                        resume = functools.partial(inner.send, (yield item))
                    except GeneratorExit:
                        with pieces:
                            inner.close()
                        raise
                    except BaseException as error:
                        resume = functools.partial(inner.throw, error)
            except StopIteration as end:
                return end.value
            finally:
                pieces.count()

        return measured

    def _async_generator(self, function: Callable[..., AsyncGenerator[Any, Any]]) -> Callable[..., Any]:
        async def measured(*arguments: Any, **named: Any) -> AsyncGenerator[Any, Any]:
            pieces = _Pieces(self._timer, self._sync)
            inner = function(*arguments, **named)
            resume: Callable[[], Awaitable[Any]] = functools.partial(inner.asend, None)
            try:
                while True:
                    with pieces:
                        item = await resume()
                    try:
                        resume = functools.partial(inner.asend, (yield item))
                    except GeneratorExit:
                        with pieces:
                            await inner.aclose()
                        raise
                    except BaseException as error:
                        resume = functools.partial(inner.athrow, error)
            except StopAsyncIteration:
                return
            finally:
                pieces.count()

        return measured


class _Pieces:
    """The time inside a generator: many pieces, one call."""

    def __init__(self, timer: Timer, sync: bool) -> None:
        self._timer = timer
        self._sync = sync
        self._seconds = 0.0
        self._running: _Running | None = None

    def __enter__(self) -> None:
        self._running = _Running(self._sync)
        self._timer._begin(self._running)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._running is not None:
            self._seconds += _end_of_block(self._timer, self._running, error, count=False)

    def count(self) -> None:
        self._timer._count(self._seconds)


class _UnderWay:
    """What a thread measures at the moment, and since when it measures at all."""

    def __init__(self) -> None:
        self.running: list[_Running] = []
        self.since = 0.0


class _Threads(threading.local):
    """One of that for each thread."""

    def __init__(self) -> None:
        self.here = _UnderWay()


class _Running:
    """A measurement that is under way. It knows its thread's, since a block may be left in another one."""

    def __init__(self, sync: bool, by_tic: bool = False) -> None:
        self.sync = sync
        self.by_tic = by_tic
        self.started = self.lapped = 0.0
        self.here = _UnderWay()


def _end_of_block(timer: Timer, running: _Running, error: BaseException | None, *, count: bool = True) -> float:
    """Ends a measurement; what the accelerator complains of must not hide the exception that ends the block."""
    if error is not None and running.sync:
        with contextlib.suppress(Exception):
            wait_for_accelerator()
        running.sync = False
    return timer._end(running, count=count)
