"""The main loop of a job: gives tasks to the workers, passes results in order to the store, handles deaths and Ctrl-C.

engine = Engine(job, tasks, output, workers=4)
engine.run(report, interrupted)
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Protocol

from cordwood.errors import CordwoodError, PackError
from cordwood.packing.journal.failure import Failure
from cordwood.packing.workers.one_thread import one_thread
from cordwood.packing.workers.pool import QUEUED, Died, Event, Overdue, Pool
from cordwood.packing.workers.tasks import Tasks, size_of
from cordwood.packing.workers.work import Job, RawResult, Result, Work
from cordwood.packing.workers.worker import NOWHERE, Finished, Task
from cordwood.sources import Input
from cordwood.store.writing.first_samples import FixedSchema

CHECKPOINT_SECONDS = 5.0
_CHECKPOINT_SHARE = 20  # and at least so many times as long as the last one took
_WAIT = 0.1  # seconds between two looks at what else there is to do
_WINDOW = 8  # tasks a worker that may be done or under way behind the next one to be written
_MOST_BUFFERED = 256 << 20  # bytes of inputs that are being done, and of frames that wait for their turn
_MOST_NAMES = 3
_MOST_DEATHS = 3  # of workers that did no input at all, one after the other
_SILENCE = 5.0  # seconds without a result after which the input that is being done is named

_LOG = logging.getLogger("cordwood.pack")

Step = Callable[[], object]


class Sink(Protocol):
    """What takes results; a store, usually. Results are raw samples until the schema is fixed."""

    @property
    def fixed(self) -> FixedSchema | None:
        """Schema and plans, once they are known."""

    def take(self, first: int, inputs: Sequence[Input], result: Result) -> None:
        """What became of the inputs from number `first` on, behind those of the call before."""

    def checkpoint(self) -> None:
        """Make sure of what has come."""


@contextmanager
def started(job: Job, workers: int, timeout: float | None) -> Iterator[Pool | None]:
    """The processes of a job, for several engines that run one after the other; None for a job without any."""
    if not workers:
        yield None
        return
    with Pool(job, workers, timeout) as pool:
        yield pool


class Engine:
    """Does tasks; `workers` is 0 for a job without other processes, which cannot have a `timeout`.

    The processes are those of `pool`, or are started for each `run`. A run that had enough can be gone on with.
    """

    def __init__(
        self,
        job: Job,
        tasks: Tasks,
        output: Sink,
        workers: int,
        timeout: float | None = None,
        pool: Pool | None = None,
    ) -> None:
        self._job = job
        self._tasks = tasks
        self._output = output
        self._workers = workers
        self._timeout = timeout
        self._given = pool
        self._pool: Pool | None = None
        self._heard_at = time.monotonic()  # of a result, or of the beginning
        self._next = tasks.first  # the input that is to be written next
        self._under_way: dict[int, Sequence[Input]] = {}  # by the first of a task
        self._sent: dict[int, int] = {}  # bytes that were sent for them
        self._again: list[tuple[Task, Sequence[Input]]] = []  # tasks of workers that died
        self._done: dict[int, tuple[Sequence[Input], Result]] = {}
        self._buffered = 0
        self._has_ended = False  # there are no more tasks
        self._deaths: dict[int, int] = {}  # by the first input of the unit
        self._early_deaths = 0
        self.notes: list[str] = []  # what else happened
        self.starting = 0.0  # seconds until the first worker could begin
        self._pause = CHECKPOINT_SECONDS / 8  # soon at first: jobs that are killed often get on
        self._checkpoint_at = time.monotonic() + self._pause

    def run(self, report: Step, interrupted: Callable[[], bool], enough: Callable[[], bool] = lambda: False) -> None:
        """Until all inputs are done, or enough of them, or something comes in between.

        Where there are enough, tasks that are under way are ended, and their results go to the output.
        What was written can be gone on with in any case.
        """
        try:
            if self._workers:
                self._with_workers(report, interrupted, enough)
            else:
                self._alone(report, lambda: interrupted() or enough())
        except BaseException:
            with suppress(CordwoodError):  # what went wrong first is told
                self._output.checkpoint()
            raise
        if interrupted() or not enough():  # else the job goes on at once, and has its checkpoints when it is time
            self._output.checkpoint()
        if interrupted():
            raise KeyboardInterrupt

    def _alone(self, report: Step, stop: Callable[[], bool]) -> None:
        work = Work(self._job)
        while not stop() and (found := self._tasks.next()) is not None:
            work.fix_schema(self._output.fixed)
            task, inputs = found
            with one_thread():
                result = work.do(*task)
            self._tasks.learn_size(len(inputs), sum(map(size_of, task.handles)))
            self._tasks.learn(result)
            self._output.take(task.first, _told(inputs, result), result)
            self._tick(report)

    def _with_workers(self, report: Step, interrupted: Callable[[], bool], enough: Callable[[], bool]) -> None:
        began = time.monotonic()
        given = self._given
        with started(self._job, self._workers, self._timeout) if given is None else nullcontext(given) as pool:
            assert pool is not None  # noqa: S101 - for the type checker
            self._pool, self._heard_at = pool, began
            while not interrupted():
                pool.fix_schema(self._output.fixed)
                self._submit(pool, enough())
                if not self._under_way and (self._has_ended or enough()):
                    break
                for event in pool.wait(_WAIT):
                    if not self.starting and isinstance(event, Finished):
                        self.starting = max(0.0, time.monotonic() - began - event.result.seconds)
                    self._on_event(event)
                self._tick(report)

    def _submit(self, pool: Pool, again_only: bool) -> None:
        """Keep the workers busy, as long as what they do can be kept."""
        while pool.has_room:
            if self._again:
                self._again.sort(key=lambda each: each[0].first)
                task, inputs = self._again.pop(0)
            elif again_only or self._has_ended or not self._has_room:
                return
            else:
                found = self._tasks.next()
                if found is None:
                    self._has_ended = True
                    return
                task, inputs = found
            self._under_way[task.first] = inputs
            sent = self._sent[task.first] = pool.give(task)
            self._tasks.learn_size(len(inputs), sent)

    @property
    def _has_room(self) -> bool:
        tasks = len(self._under_way) + len(self._done)
        window = _WINDOW if self._output.fixed is not None else QUEUED  # raw samples may be large
        nbytes = self._buffered + sum(self._sent.values())
        return tasks < window * self._workers and nbytes < _MOST_BUFFERED

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Died):
            self._on_worker_death(event)
        elif isinstance(event, Overdue):
            self._on_timeout(event)
        else:
            self._early_deaths = 0
            self._heard_at = time.monotonic()
            self._tasks.learn(event.result)
            del self._sent[event.first]
            # Without their handles, which may be whole samples: it may be long until it is their turn.
            inputs = [Input(None, *one[1:]) for one in self._under_way.pop(event.first)]
            self._finish(event.first, inputs, event.result)

    def _finish(self, first: int, inputs: Sequence[Input], result: Result) -> None:
        self._done[first] = inputs, result
        self._buffered += result.nbytes
        while self._next in self._done:
            first = self._next
            inputs, result = self._done.pop(first)
            self._buffered -= result.nbytes
            self._output.take(first, _told(inputs, result), result)
            self._next = self._tasks.behind(first + len(inputs))

    def _on_worker_death(self, died: Died) -> None:
        """Another worker does what a dead one had; the unit that it was at goes alone, or is given up."""
        if died.at == NOWHERE:
            self._early_deaths += 1
            if self._early_deaths >= _MOST_DEATHS:
                raise PackError(
                    f"{self._early_deaths} worker processes in a row died before they did anything; "
                    f"the last one {died.how}. What they printed is above; workers=0 does everything in this process"
                )
        for task, inputs in self._taken_back(died.tasks, died.at):
            self._deaths[task.first] = self._deaths.get(task.first, 0) + 1
            self._note_death(died, task.first, inputs)
            if self._deaths[task.first] > 1:
                error = f"the worker process that did it {died.how}, for the second time{died.advice}"
                self._give_up(task, inputs, Failure(error, f"{error}; workers=0 (--workers 0) shows where"))
            else:
                self._again.append((task, inputs))

    def _on_timeout(self, event: Overdue) -> None:
        """What took too long has failed; another worker does what else the one that was killed had."""
        at = event.at
        for task, inputs in self._taken_back(event.tasks, NOWHERE if at is None else at.first):
            assert at is not None and self._timeout is not None  # noqa: PT018, S101 - for the type checker
            failure = Failure.of_timeout(self._timeout, at.seconds, at.inputs)
            place = at.first - task.first
            _LOG.warning(
                "%s took longer than timeout=%g: a worker process was killed after %.1f s, and replaced",
                _called(at.first, inputs[place : place + at.inputs]),
                self._timeout,
                at.seconds,
            )
            if at.inputs >= len(inputs):
                self._give_up(task, inputs, failure)
            else:  # reading one of a batch, which is done without it
                failed = {**task.failed, at.first: failure}
                self._again.append((task._replace(failed=failed), inputs))

    def _taken_back(self, tasks: Sequence[Task], at: int) -> list[tuple[Task, Sequence[Input]]]:
        """Let other workers do the tasks of a dead one; but return the unit of input `at`, if it is in one of them."""
        found: list[tuple[Task, Sequence[Input]]] = []
        for task in tasks:
            inputs = self._under_way.pop(task.first)
            del self._sent[task.first]
            place = at - task.first
            if at == NOWHERE or not 0 <= place < len(inputs):
                self._again.append((task, inputs))
                continue
            begin = place - place % self._job.batch
            end = min(begin + self._job.batch, len(inputs))
            for start, stop in ((0, begin), (begin, end), (end, len(inputs))):
                if start < stop:
                    part = task._replace(first=task.first + start, handles=task.handles[start:stop])
                    (found if start == begin else self._again).append((part, inputs[start:stop]))
        return found

    def _note_death(self, died: Died, first: int, inputs: Sequence[Input]) -> None:
        """At once: somebody may be there to see that memory runs out."""
        which = _called(first, inputs)
        note = f"a worker process {died.how} while it did {which}; another one took its place{died.advice}"
        self.notes.append(note)
        _LOG.warning("%s", note)

    def _give_up(self, task: Task, inputs: Sequence[Input], failure: Failure) -> None:
        failures = [task.failed.get(number, failure) for number in range(task.first, task.first + len(inputs))]
        self._finish(task.first, [Input(None, *one[1:]) for one in inputs], RawResult.of_failures(failures))

    def waiting_for(self) -> tuple[str, float] | None:
        """What a worker has been doing longest, and for how many seconds; None while results come."""
        at = self._pool.slowest() if self._pool is not None else None
        if at is None or time.monotonic() - self._heard_at < _SILENCE:
            return None
        for first, inputs in self._under_way.items():
            if first <= at.first < first + len(inputs):
                return _called(at.first, inputs[at.first - first :][: at.inputs]), at.seconds
        return None

    def _tick(self, report: Step) -> None:
        report()
        now = time.monotonic()
        if now >= self._checkpoint_at:
            self._output.checkpoint()
            took = time.monotonic() - now
            self._pause = min(2 * self._pause, CHECKPOINT_SECONDS)
            self._checkpoint_at = now + took + max(self._pause, _CHECKPOINT_SHARE * took)


def _called(first: int, inputs: Sequence[Input]) -> str:
    """Inputs in a message: the names of a few, or their numbers if they have no names."""
    names = [one.name for one in inputs if one.name is not None]
    number = f"input {first}" if len(inputs) == 1 else f"inputs {first} to {first + len(inputs) - 1}"
    return ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "") or number


def _told(inputs: Sequence[Input], result: Result) -> Sequence[Input]:
    """Inputs with what was found out about them when they were read."""
    if not result.more_frames:
        return inputs
    return [one._replace(more_frames=place in result.more_frames) for place, one in enumerate(inputs)]
