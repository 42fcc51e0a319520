"""The Timer, on a clock that tests set: nothing here waits."""

import asyncio
import copy
import pickle
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Generator
from types import SimpleNamespace
from typing import Any

import pytest

from cordwood.doctor import timer as timer_module
from cordwood.doctor.timer import Timer
from cordwood.errors import UsageError


class Clock:
    """Time that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def goes_on(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(timer_module, "perf_counter", made)
    return made


def test_the_names_people_know(clock: Clock) -> None:
    timer = Timer()
    timer.tic()
    clock.goes_on(2)
    assert timer.toc() == timer.diff == 2
    with timer.start(sync=True):
        clock.goes_on(4)
    assert (timer.diff, timer.acc_time, timer.calls, timer.spc) == (4, 6, 2, 3)
    assert timer.cps == pytest.approx(1 / 3)
    timer.reset()
    assert (timer.diff, timer.acc_time, timer.calls, timer.spc, timer.cps) == (0, 0, 0, 0, 0)
    assert (timer.total_time, timer.total_calls) == (6, 2)


def test_the_block_gets_the_timer(clock: Clock) -> None:
    timer = Timer()
    with timer.start(sync=True) as first, timer as second:
        clock.goes_on(1)
    assert first is second is timer
    assert timer.diff == 1


def test_it_runs_on_a_clock_that_never_goes_back() -> None:
    timer = Timer()
    with timer.start():
        pass
    assert 0 <= timer.diff <= timer.total_time


def test_an_exception_keeps_the_time(clock: Clock) -> None:
    timer = Timer()

    def broken() -> None:
        clock.goes_on(3)
        raise KeyError

    with pytest.raises(KeyError), timer.start():
        broken()
    assert (timer.diff, timer.calls, timer.acc_time) == (3, 1, 3)
    with timer.start():
        clock.goes_on(1)
    assert timer.acc_time == 4


def test_measurements_inside_each_other_add_no_second_twice(clock: Clock) -> None:
    timer = Timer()
    with timer.start():
        clock.goes_on(1)
        with timer.start():
            clock.goes_on(2)
        assert timer.diff == 2
        clock.goes_on(3)
    assert (timer.diff, timer.acc_time, timer.total_time, timer.calls) == (6, 6, 6, 2)


def test_tic_and_toc_pair_up_from_the_inside(clock: Clock) -> None:
    timer = Timer()
    timer.tic()
    clock.goes_on(1)
    timer.tic()
    clock.goes_on(2)
    with timer.start():
        assert (timer.toc(), timer.toc()) == (2, 3)
    with pytest.raises(UsageError, match="without a tic"):
        timer.toc()


def test_a_recursive_function(clock: Clock) -> None:
    timer = Timer()

    @timer
    def down(depth: int) -> int:
        """Says how deep."""
        clock.goes_on(1)
        return down(depth - 1) + 1 if depth else 0

    assert down(4) == 4
    assert (timer.calls, timer.acc_time, timer.diff) == (5, 5, 5)
    assert (down.__name__, down.__doc__) == ("down", "Says how deep.")


def test_methods_are_decorated_too(clock: Clock) -> None:
    timer = Timer()

    class Model:
        @timer.start(sync=True)
        def run(self, x: int, *, y: int) -> int:
            clock.goes_on(x)
            return x + y

    assert Model().run(3, y=4) == 7
    assert timer.diff == 3


def test_laps(clock: Clock) -> None:
    timer = Timer()
    timer.tic()
    for seconds in (1, 2, 3):
        clock.goes_on(seconds)
        assert timer.lap() == seconds
    clock.goes_on(4)
    assert timer.toc() == 10
    assert timer.laps == [1, 2, 3]
    assert timer.calls == 1
    timer.reset()
    assert timer.laps == []
    with pytest.raises(UsageError, match="nothing is measured"):
        timer.lap()


def test_a_coroutine_is_measured_to_its_end(clock: Clock) -> None:
    timer = Timer()

    @timer
    async def work(seconds: float, order: list[str], name: str) -> str:
        order.append(name)
        await asyncio.sleep(0)
        clock.goes_on(seconds)
        return name

    async def both() -> tuple[str, str]:
        order: list[str] = []
        first, second = await asyncio.gather(work(2, order, "a"), work(3, order, "b"))
        assert order == ["a", "b"]  # both were under way at once
        return first, second

    assert asyncio.run(both()) == ("a", "b")
    assert (timer.calls, timer.acc_time) == (2, 5)


def test_of_a_generator_only_the_time_inside_counts(clock: Clock) -> None:
    timer = Timer()

    @timer
    def numbers(count: int) -> Generator[int, int, str]:
        for number in range(count):
            clock.goes_on(1)
            sent = yield number
            if sent:
                clock.goes_on(sent)
        return "end"

    def outer() -> Generator[int, int, str]:
        return (yield from numbers(3))

    running = outer()
    assert next(running) == 0
    clock.goes_on(100)  # the user's own work
    assert running.send(10) == 1
    assert timer.calls == 0
    assert next(running) == 2
    with pytest.raises(StopIteration) as stop:
        next(running)
    assert stop.value.value == "end"
    assert (timer.calls, timer.diff, timer.acc_time) == (1, 13, 13)


def test_a_generator_that_is_thrown_into_closed_or_broken(clock: Clock) -> None:
    timer = Timer()
    closed: list[bool] = []

    @timer
    def stubborn() -> Generator[int, None, None]:
        try:
            try:
                yield 1
            except KeyError:
                clock.goes_on(2)
                yield 2
            raise ValueError("broken")
        finally:
            closed.append(True)

    running = stubborn()
    assert next(running) == 1
    assert running.throw(KeyError()) == 2
    with pytest.raises(ValueError, match="broken"):
        next(running)
    assert (timer.calls, timer.diff, closed) == (1, 2, [True])
    running = stubborn()
    next(running)
    running.close()
    assert (timer.calls, closed) == (2, [True, True])


def test_an_async_generator(clock: Clock) -> None:
    timer = Timer()
    closed: list[bool] = []

    @timer
    async def numbers() -> AsyncGenerator[int, int]:
        try:
            for number in range(3):
                clock.goes_on(1)
                try:
                    sent = yield number
                except KeyError:
                    sent = 20
                clock.goes_on(sent or 0)
        finally:
            closed.append(True)

    async def use() -> None:
        async for _ in numbers():
            clock.goes_on(100)
        assert (timer.calls, timer.diff, closed) == (1, 3, [True])
        running = numbers()
        await anext(running)
        assert await running.asend(5) == 1
        assert await running.athrow(KeyError()) == 2
        await running.aclose()

    asyncio.run(use())
    assert (timer.calls, timer.diff, closed) == (2, 28, [True, True])


def test_threads_have_their_own_measurements(clock: Clock) -> None:
    timer = Timer()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            with pytest.raises(UsageError):
                timer.toc()
            with timer.start():
                clock.goes_on(5)
        except BaseException as error:
            failures.append(error)

    timer.tic()
    clock.goes_on(1)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert timer.diff == 5
    assert timer.toc() == 6
    assert failures == []
    assert (timer.calls, timer.acc_time) == (2, 11)  # of two threads, so more than went by


def test_a_block_may_be_left_in_another_thread(clock: Clock) -> None:
    timer = Timer()
    block = timer.start()
    block.__enter__()
    clock.goes_on(2)
    thread = threading.Thread(target=block.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    assert (timer.diff, timer.acc_time) == (2, 2)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda timer: pickle.loads(pickle.dumps(timer))])
def test_copies_keep_the_sums(copied: Any, clock: Clock) -> None:
    timer = Timer(sync=True)
    with timer.start():
        clock.goes_on(2)
    again: Timer = copied(timer)
    with again.start():
        clock.goes_on(1)
    assert (again.acc_time, again.calls, again.sync, timer.calls) == (3, 2, True, 1)
    assert "calls=2" in repr(again)


class Accelerator:
    """What torch has for a device, and what was asked of it."""

    def __init__(self, clock: Clock, initialized: bool = True) -> None:
        self.asked: list[Any] = []
        self._clock = clock
        self._initialized = initialized
        self.fails = False

    def is_initialized(self) -> bool:
        return self._initialized

    def device_count(self) -> int:
        return 3

    def current_device(self) -> int:
        return 1

    def memory_reserved(self, index: int) -> int:
        return 100 if index == 2 else 0

    def synchronize(self, index: int | None = None) -> None:
        self.asked.append(index)
        self._clock.goes_on(7)
        if self.fails:
            raise RuntimeError("illegal memory access")


def fake_torch(monkeypatch: pytest.MonkeyPatch, kind: str, backend: Any) -> None:
    accelerator = SimpleNamespace(current_accelerator=lambda: SimpleNamespace(type=kind))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(accelerator=accelerator, **{kind: backend}))


def test_sync_waits_for_every_device_in_use(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Accelerator(clock)
    fake_torch(monkeypatch, "cuda", cuda)
    timer = Timer()
    with timer.start(sync=True):
        clock.goes_on(1)
    assert cuda.asked == [1, 2, 1, 2]
    assert timer.diff == 1 + 14  # what it waits for at the end, not at the beginning
    with timer.start():
        clock.goes_on(1)
    assert (timer.diff, len(cuda.asked)) == (1, 4)
    with Timer(sync=True) as always:
        always.lap()
    assert len(cuda.asked) == 10


def test_a_device_that_nobody_used_is_left_alone(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Accelerator(clock, initialized=False)
    fake_torch(monkeypatch, "cuda", cuda)
    with Timer().start(sync=True):
        pass
    assert cuda.asked == []


def test_a_device_of_which_there_is_one(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    fake_torch(monkeypatch, "mps", SimpleNamespace(synchronize=lambda: asked.append("mps"), device_count=lambda: 1))
    with Timer().start(sync=True):
        pass
    assert asked == ["mps", "mps"]


def test_what_the_device_complains_of_is_told_and_the_time_kept(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Accelerator(clock)
    fake_torch(monkeypatch, "cuda", cuda)
    timer = Timer()
    with pytest.raises(RuntimeError, match="illegal"), timer.start(sync=True):
        cuda.fails = True
    assert (timer.calls, timer.diff) == (1, 7)
    cuda.fails = False

    def broken() -> None:
        cuda.fails = True
        raise KeyError

    with pytest.raises(KeyError), timer.start(sync=True):  # the user's own exception goes first
        broken()
    assert timer.calls == 2


def test_the_class_itself_decorates_nothing() -> None:
    with pytest.raises(UsageError, match="then @timer"):
        Timer(lambda: None)  # type: ignore[arg-type]


def test_it_needs_no_torch() -> None:
    code = (
        "import sys, cordwood.doctor.timer as t\n"
        "timer = t.Timer()\n"
        "with timer.start(sync=True): pass\n"
        "assert timer.calls == 1 and 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
