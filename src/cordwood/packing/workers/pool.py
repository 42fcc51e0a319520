"""The worker processes of a job: starts them, gives them tasks, collects results, replaces those that die.

    with Pool(job, workers=4) as pool:
        pool.give(Task(0, handles))
        for event in pool.wait(timeout=0.2):
            ...

What happens is told as events: a task is done, a worker is dead and these tasks were its, or a worker was killed since
an input of these tasks took too long.
"""

import json
import mmap
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import cloudpickle

from cordwood.errors import PackError, StorageError, UsageError
from cordwood.packing.workers.wire import Parts, packed, receive, unpack, write
from cordwood.packing.workers.work import Job
from cordwood.packing.workers.worker import NO_PLACE, PLACE, Finished, JobRejected, Task
from cordwood.sources import dumps
from cordwood.store.writing.first_samples import FixedSchema

QUEUED = 2  # tasks that a worker has: one that it does, and one that waits so that it need not
_PATIENCE = 5  # seconds for a worker to end by itself
_LISTENING = 1  # seconds for its threads, which end at once unless a process of the worker's own has their pipes
_BOOT = (
    "import json,sys; sys.path[:]=json.loads(sys.argv[1]); "
    "from cordwood.packing.workers.worker import main; main(*map(int,sys.argv[2:]))"
)
_QUIET = {"OPENCV_LOG_LEVEL": "ERROR"}  # broken images are told of by name
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class Died(NamedTuple):
    """A worker is dead, and was replaced. `at` is the input, or the first one, it was doing, -1 if it did none."""

    at: int
    tasks: list[Task]
    how: str  # "was killed by signal 9 (SIGKILL)"

    @property
    def advice(self) -> str:
        """What the system may have meant by it."""
        killed = f"signal {int(signal.SIGKILL)} " in self.how
        return "; the system does that when memory runs out: try fewer workers" if killed else ""


class UnderWay(NamedTuple):
    """What a worker is doing: `inputs` of them, from number `first` on, for so many seconds."""

    first: int
    inputs: int
    seconds: float


class Overdue(NamedTuple):
    """A worker took longer than the timeout, was killed and replaced; `at` is None if it was just done with that."""

    at: UnderWay | None
    tasks: list[Task]


Event = Finished | Died | Overdue


class Pool:
    """Processes that do tasks; one that takes more than `timeout` seconds for one or a batch of inputs is killed."""

    def __init__(self, job: Job, workers: int, timeout: float | None = None) -> None:
        try:
            self._job = dumps(job)
        except Exception as error:  # whatever the caller's objects raise
            raise UsageError(
                f"the source or the transform cannot be sent to worker processes ({type(error).__name__}: {error}): "
                "open files, database handles and locks where they are used, or do without workers (workers=0)"
            ) from error
        self._timeout = timeout
        self._fixed: FixedSchema | None = None
        self._arrived: queue.SimpleQueue[tuple[_Worker, Parts | None]] = queue.SimpleQueue()
        self._workers: list[_Worker] = []
        try:
            for _ in range(workers):
                self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        worker = _Worker(self._arrived)
        self._workers.append(worker)
        worker.tell(_PickledOnce(self._job))
        if self._fixed is not None:
            worker.tell(self._fixed)

    def fix_schema(self, fixed: FixedSchema | None) -> None:
        """Send the schema to all workers, also to those to come, once it is known and when its plans change."""
        if fixed is not None and fixed is not self._fixed:
            self._fixed = fixed
            for worker in self._workers:
                worker.tell(fixed)

    @property
    def pids(self) -> list[int]:
        """The processes."""
        return [worker.process.pid for worker in self._workers]

    @property
    def has_room(self) -> bool:
        """Whether a worker would wait without another task."""
        return any(len(worker.tasks) < QUEUED for worker in self._workers)

    def give(self, task: Task) -> int:
        """To the worker that has the least to do; the bytes of the message."""
        worker = min(self._workers, key=lambda one: len(one.tasks))
        worker.tasks.append(task)
        try:
            return worker.tell(task)
        except Exception as error:  # whatever the caller's objects raise when they are pickled
            raise UsageError(
                f"input {task.first}, or one of the {len(task.handles) - 1} behind it, cannot be sent to a worker "
                f"process ({type(error).__name__}: {error}): let the source give what can be pickled, or do without "
                "workers (workers=0)"
            ) from error

    def slowest(self) -> UnderWay | None:
        """What has been under way longest; None if no worker is at anything."""
        found = filter(None, (worker.look() for worker in self._workers))
        return max(found, key=lambda one: one.seconds, default=None)

    def wait(self, timeout: float) -> Iterator[Event]:
        """What has happened; if nothing has, what happens within that many seconds."""
        with suppress(queue.Empty):
            worker, parts = self._arrived.get(timeout=timeout)
            while True:
                # What a worker sent before it was found dead comes too late: its tasks are others' by now.
                if worker in self._workers:
                    yield self._died(worker) if parts is None else self._finished(worker, parts)
                worker, parts = self._arrived.get_nowait()
        # A process that a dead worker left behind may hold its end of the pipe.
        for worker in [one for one in self._workers if one.process.poll() is not None]:
            yield self._died(worker)
        if self._timeout is not None:
            yield from self._overdue(self._timeout)

    def _overdue(self, timeout: float) -> Iterator[Overdue]:
        for worker in list(self._workers):
            at = worker.look()
            if at is None or at.seconds <= timeout:
                continue
            seen = worker.seen
            worker.kill()
            tasks = self._died(worker).tasks
            yield Overdue(at if worker.seen == seen else None, tasks)

    def _finished(self, worker: "_Worker", parts: Parts) -> Finished:
        message = unpack(parts)
        if isinstance(message, JobRejected):
            raise PackError(
                "a worker process cannot take the source and the transform as they arrive there; it says\n"
                f"{message.error}\nmodules that they need must be importable in a new process: check PYTHONPATH and "
                "the working folder, or use workers=0"
            )
        assert isinstance(message, Finished)  # noqa: S101 - for the type checker: workers send nothing else
        worker.tasks = [task for task in worker.tasks if task.first != message.first]
        return message

    def _died(self, worker: "_Worker") -> Died:
        self._workers.remove(worker)
        how = worker.end()
        self._start()
        return Died(worker.seen[0], worker.tasks, how)

    def close(self) -> None:
        """End all workers, whatever they are doing."""
        for worker in self._workers:
            worker.hang_up()
        while self._workers:
            self._workers.pop().end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


class _PickledOnce:
    """Something that was pickled before, in a message: pickled once for all workers."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __reduce__(self) -> tuple[Any, ...]:
        return cloudpickle.loads, (self._data,)


class _Worker:
    """One process, and what it was given."""

    def __init__(self, arrived: "queue.SimpleQueue[tuple[_Worker, Parts | None]]") -> None:
        self.tasks: list[Task] = []
        self.seen = NO_PLACE  # what it was doing when it was last looked at, or when it ended
        self._since = 0.0
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        with tempfile.TemporaryFile() as file:
            file.write(PLACE.pack(*NO_PLACE))
            file.flush()
            self._place = mmap.mmap(file.fileno(), PLACE.size)
            tasks_read, self._tasks = os.pipe()
            self._results, results_write = os.pipe()
            theirs = (tasks_read, results_write, file.fileno())
            try:
                self.process = self._launch(theirs)
            except OSError as error:
                os.close(self._tasks)
                os.close(self._results)
                raise StorageError(
                    error.errno, f"{error.strerror or error}: a worker process cannot be started", sys.executable
                ) from error
            finally:
                os.close(tasks_read)
                os.close(results_write)
        listen = threading.Thread(target=self._listen, args=(arrived,), daemon=True, name="cordwood-pack")
        self._threads = listen, threading.Thread(target=self._write, daemon=True, name="cordwood-pack-tasks")
        for thread in self._threads:
            thread.start()

    def _launch(self, theirs: tuple[int, int, int]) -> "subprocess.Popen[bytes]":
        flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined] # as multiprocessing does
        paths = json.dumps([path or str(Path.cwd()) for path in sys.path])
        return subprocess.Popen(  # noqa: S603 - our own interpreter
            [sys.executable, *flags, "-c", _BOOT, paths, *map(str, theirs)],
            stdin=subprocess.DEVNULL,
            pass_fds=theirs,
            # Ctrl-C in a terminal goes to a whole group of processes: workers are ended by their parent instead.
            start_new_session=True,
            env={**_QUIET, **os.environ, **dict.fromkeys(_THREAD_VARIABLES, "1")},
        )

    def _listen(self, arrived: "queue.SimpleQueue[tuple[_Worker, Parts | None]]") -> None:
        try:
            while (parts := receive(self._results)) is not None:
                arrived.put((self, parts))
        finally:
            os.close(self._results)
            arrived.put((self, None))

    def _write(self) -> None:
        """A thread of its own: a worker reads nothing while a call of others holds its interpreter's lock."""
        with suppress(BrokenPipeError):  # a dead worker is found by its listener
            while (data := self._outgoing.get()) is not None:
                write(self._tasks, data)
        os.close(self._tasks)

    def tell(self, message: Any) -> int:
        """Send a message, and return its size in bytes."""
        data = packed(message)
        self._outgoing.put(data)
        return len(data)

    def look(self) -> UnderWay | None:
        """The inputs that it works on, and how long they have been observed: a lower bound of the time they take."""
        now, seen = time.monotonic(), PLACE.unpack_from(self._place)
        if seen != self.seen:
            self.seen, self._since = seen, now
        first, inputs, _ = seen
        return UnderWay(first, inputs, now - self._since) if inputs else None

    def kill(self) -> None:
        """End it, whatever it is doing, and the processes that it started and may be waiting for."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()

    def hang_up(self) -> None:
        """Let it end: it does when it has read all tasks, and no more can be sent."""
        self._outgoing.put(None)

    def end(self) -> str:
        """Wait for its end, and bring it about if need be; says how it ended."""
        self.hang_up()
        try:
            code = self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        for thread in self._threads:
            thread.join(_LISTENING)
        self.seen = PLACE.unpack_from(self._place)
        self._place.close()
        if code >= 0:
            return f"ended with exit code {code}"
        try:
            name = f" ({signal.Signals(-code).name})"
        except ValueError:
            name = ""
        return f"was killed by signal {-code}{name}"
