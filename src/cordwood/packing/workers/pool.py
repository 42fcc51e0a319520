"""The worker processes of a job: starts them, gives them tasks, collects results, replaces those that die.

    with Pool(job, workers=4) as pool:
        pool.give(Task(0, handles))
        for event in pool.wait(timeout=0.2):
            ...

What happens is told as events: a task is done, or a worker is dead and these tasks were its.
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
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import cloudpickle

from cordwood.errors import PackError, StorageError, UsageError
from cordwood.packing.workers.wire import Parts, receive, send, unpack
from cordwood.packing.workers.work import Job
from cordwood.packing.workers.worker import NOWHERE, PLACE, Finished, JobRejected, Task
from cordwood.sources import dumps
from cordwood.store.writing.first_samples import FixedSchema

QUEUED = 2  # tasks that a worker has: one that it does, and one that waits so that it need not
_PATIENCE = 5  # seconds for a worker to end by itself
_LISTENING = 1  # seconds for its listener, which ends at once unless a process of the worker's own has its pipe
_BOOT = (
    "import json,sys; sys.path[:]=json.loads(sys.argv[1]); "
    "from cordwood.packing.workers.worker import main; main(*map(int,sys.argv[2:]))"
)
_QUIET = {"OPENCV_LOG_LEVEL": "ERROR"}  # broken images are told of by name
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class Died(NamedTuple):
    """A worker is dead, and was replaced. `at` is the first input of the unit it was doing, -1 if it did none."""

    at: int
    tasks: list[Task]
    how: str  # "was killed by signal 9 (SIGKILL)"

    @property
    def advice(self) -> str:
        """What the system may have meant by it."""
        killed = f"signal {int(signal.SIGKILL)} " in self.how
        return "; the system does that when memory runs out: try fewer workers" if killed else ""


class Pool:
    """Processes that do tasks."""

    def __init__(self, job: Job, workers: int) -> None:
        try:
            self._job = dumps(job)
        except Exception as error:  # whatever the caller's objects raise
            raise UsageError(
                f"the source or the transform cannot be sent to worker processes ({type(error).__name__}: {error}): "
                "open files, database handles and locks where they are used, or do without workers (workers=0)"
            ) from error
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
        """Send the schema to all workers, also to those that are still to come, once it is known."""
        if fixed is not None and self._fixed is None:
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
        except OSError:
            raise
        except Exception as error:  # whatever the caller's objects raise when they are pickled
            raise UsageError(
                f"input {task.first}, or one of the {len(task.handles) - 1} behind it, cannot be sent to a worker "
                f"process ({type(error).__name__}: {error}): let the source give what can be pickled, or do without "
                "workers (workers=0)"
            ) from error

    def wait(self, timeout: float) -> "Iterator[Finished | Died]":
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
        return Died(worker.place, worker.tasks, how)

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
        self.place = NOWHERE  # the first input of the unit that it was at, when it has ended
        with tempfile.TemporaryFile() as file:
            file.write(PLACE.pack(NOWHERE))
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
        self._listener = threading.Thread(target=self._listen, args=(arrived,), daemon=True, name="cordwood-pack")
        self._listener.start()

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

    def tell(self, message: Any) -> int:
        """Send a message, and tell its bytes; a dead worker is found by its listener."""
        with suppress(BrokenPipeError):
            return send(self._tasks, message)
        return 0

    def hang_up(self) -> None:
        """Let it end: it does when nobody can send tasks any more."""
        if self._tasks >= 0:
            os.close(self._tasks)
            self._tasks = -1

    def end(self) -> str:
        """Wait for its end, and bring it about if need be; says how it ended."""
        self.hang_up()
        try:
            code = self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self._listener.join(_LISTENING)
        self.place = PLACE.unpack_from(self._place)[0]
        self._place.close()
        if code >= 0:
            return f"ended with exit code {code}"
        try:
            name = f" ({signal.Signals(-code).name})"
        except ValueError:
            name = ""
        return f"was killed by signal {-code}{name}"
