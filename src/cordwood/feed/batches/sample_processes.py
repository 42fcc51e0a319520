"""Makes batches sample by sample in worker processes, for transforms that hold the GIL.

    for batch in process_batches(fetch, transform, Collation(), workers=4, plans=[(numbers, seeds), ...]):
        ...

The workers are those of torch's own ``DataLoader``: batches come back through shared memory, in order. The generators
of Python, NumPy and torch are set by every sample's own seed before its turn, so what a transform draws from them
depends on nothing else: not on the number of workers, and not on where an epoch was resumed.

The processes are used from a thread, which gets no signals. So nothing here relies on torch's handler of SIGCHLD, which
tells the main thread, and no other, that a worker died.
"""

import multiprocessing
import multiprocessing.connection
import multiprocessing.queues
import os
import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from multiprocessing.reduction import ForkingPickler
from traceback import walk_tb
from typing import Any, Final, NamedTuple

import torch
from torch._C import _remove_worker_pids
from torch.utils.data import DataLoader

from cordwood.common.seeding import seed_generators
from cordwood.errors import FeedError, FormatError, UsageError
from cordwood.feed.batches.collate import Collation, Remark
from cordwood.feed.batches.sample_threads import Fetch, SampleTransform, collated
from cordwood.store import Numbers, Seeds

Plan = tuple[Numbers, Seeds]

# How often a worker looks whether the process that it works for lives, and how long it then has to end by itself:
# torch's own way out looks every 5 seconds. Both in seconds.
_LOOK: Final = 1.0
_GRACE: Final = 10.0
# How long to wait for the system to say of a process that it is dead, or for a lock that is held for microseconds.
_SOON: Final = 5.0
# The bytes of a message that go through the pipe themselves. A pipe takes 4096 bytes whole or not at all, so a worker
# that is killed leaves no half of a message, for whose other half the reader would wait forever.
_SMALL: Final = 3000


def process_batches(
    fetch: Fetch,
    transform: Callable[..., Any] | None,
    collation: Collation,
    workers: int,
    plans: Iterable[Plan],
    ahead: int = 2,
    context: str | None = None,
    mend: Callable[[Numbers, Seeds], Any] | None = None,
) -> Generator[Any, None, None]:
    """The batches of these plans, made by `workers` processes that are `ahead` batches ahead each.

    Closing the generator ends the processes. `fetch`, `transform` and the collation must survive pickling where
    processes are not forked; `context` is the way they are started (default: the system's). `mend` makes, in this
    process, what takes the place of a batch that a worker could not make for damaged samples.
    """
    if workers < 1:
        raise UsageError(f"sample_workers is {workers}, but at least one process must do the work: 0 uses threads")
    loader: DataLoader[Any] = DataLoader(
        _Samples(fetch, transform),  # type: ignore[arg-type] # all that it is asked for is `__getitems__`
        batch_sampler=(given := _Plans(plans)),  # type: ignore[arg-type] # what it yields goes to `__getitems__` as it is
        num_workers=workers,
        collate_fn=_Collator(collation),
        prefetch_factor=ahead,
        worker_init_fn=_end_with_the_parent,
        multiprocessing_context=context,
        generator=torch.Generator(),  # seeds of workers are not drawn from the caller's
    )
    try:
        arriving: Any = iter(loader)
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        error.add_note(
            "worker processes that are not forked get sample_transform and collate by pickling: make them functions or "
            "classes of a module, or use sample_workers=0"
        )
        raise
    # Where some other DataLoader has set torch's handler, it would raise a worker's death wherever the main thread is.
    _remove_worker_pids(id(arriving))
    arriving._worker_pids_set = False
    arriving._workers_done_event = _DoneEvent(arriving._workers_done_event, arriving._workers)
    try:
        while True:
            try:
                made = _unpacked(next(arriving))
            except StopIteration:
                return
            except FormatError:
                if mend is None:
                    raise
                made = _Made(mend(*given.waiting[0]), [])
            except Exception as error:
                if not _died(arriving._workers, error):
                    raise
                raise FeedError(
                    f"a worker process of sample_transform died: {str(error) or repr(error)}; the system may have "
                    "ended it for want of memory (use fewer sample_workers or smaller batches), or native code crashed "
                    "in it (sample_workers=0 shows where)"
                ) from error
            given.waiting.popleft()
            collation.tell(made.remarks)
            yield made.batch
            del made  # its memory is the caller's now
    finally:
        # The errors that it raised refer to it, so it would not go by itself.
        arriving._shutdown_workers()


def _died(workers: list[Any], error: Exception) -> bool:
    """Whether an error comes of a worker's death."""
    if isinstance(error, RuntimeError) and str(error).startswith("DataLoader worker (pid"):
        return True
    # Tensors are fetched from the worker that made them, and fetching them from a dead one fails in many ways. (What a
    # transform raised was received well, and a plan that fails is not received at all.)
    if not any(frame.f_code in _RECEIVING for frame, _ in walk_tb(error.__traceback__)):
        return False
    # The system closes what a process had open first, and says a little later that it is dead: torch did not wait.
    return bool(multiprocessing.connection.wait([worker.sentinel for worker in workers], _SOON))


class _DoneEvent:
    """The event by which torch tells its workers to end, as this process uses it.

    Every look at it takes a lock. A worker that dies at such a moment keeps that forever.
    """

    def __init__(self, event: Any, workers: list[Any]) -> None:
        self._event = event
        self._workers = workers
        self._told = False

    def is_set(self) -> bool:
        return self._told  # nobody else sets it

    def set(self) -> None:
        self._told = True
        if self._event._cond.acquire(timeout=_SOON):
            self._event._cond.release()
            self._event.set()
        else:
            for worker in self._workers:
                worker.kill()  # it waits for the lock


class _Made(NamedTuple):
    batch: Any
    remarks: list[Remark]


def _packed(made: _Made) -> bytes | torch.Tensor:
    """What a worker sends: the message, or shared memory that holds it.

    Pickled here and not by the queue, whose thread would tell nobody that something cannot be pickled.
    """
    try:
        message = bytes(ForkingPickler.dumps(made, pickle.HIGHEST_PROTOCOL))
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        error.add_note("what sample_transform and collate give in a worker process comes back by pickling")
        raise
    return message if len(message) <= _SMALL else torch.frombuffer(bytearray(message), dtype=torch.uint8)


def _unpacked(message: bytes | torch.Tensor) -> _Made:
    made: _Made = ForkingPickler.loads(message if isinstance(message, bytes) else message.numpy())
    return made


_RECEIVING: Final = (multiprocessing.queues.Queue.get.__code__, _unpacked.__code__)


class _Plans:
    """What a DataLoader takes for a sampler of batches; `waiting` are the plans whose batches have not arrived."""

    def __init__(self, plans: Iterable[Plan]) -> None:
        self.waiting: deque[Plan] = deque()
        self._plans = plans

    def __iter__(self) -> Iterator[Plan]:
        for plan in self._plans:
            self.waiting.append(plan)
            yield plan


class _Samples:
    """What a DataLoader takes for a dataset: the samples of a plan, transformed."""

    def __init__(self, fetch: Fetch, transform: Callable[..., Any] | None) -> None:
        self._fetch = fetch
        self._transform = SampleTransform(transform)

    def __getitems__(self, plan: Plan) -> list[tuple[int, Any]]:
        numbers, seeds = plan
        found = []
        for sample, number, seed in zip(self._fetch(numbers, seeds), numbers.tolist(), seeds.tolist(), strict=True):
            seed_generators(seed)
            found.append((number, self._transform(sample, number, seed)))
        return found


class _Collator:
    """Puts samples together; what is to be told travels with the batch."""

    def __init__(self, collation: Collation) -> None:
        self._collation = collation

    def __call__(self, found: list[tuple[int, Any]]) -> bytes | torch.Tensor:
        samples, numbers = [sample for _, sample in found], [number for number, _ in found]
        return _packed(_Made(*collated(self._collation, samples, numbers)))


def _end_with_the_parent(_: int) -> None:
    """In a worker: begin to watch the process that it works for, and end when that is gone, whatever happens.

    torch has its workers do so too. But they remember their parent when they are up, so one whose parent was killed
    before takes the system's first process for it; and at their end they wait until what they sent has been read.
    """
    threading.Thread(target=_watch, name="cordwood-parent", daemon=True).start()


def _watch() -> None:
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    # Not so where a server forks the workers, or when the parent is gone already. Then its pipe tells, which is closed
    # when it and all workers that were forked later are gone, and so the last one ends first.
    child = os.getppid() == parent.pid
    while parent.is_alive() and not (child and os.getppid() != parent.pid):
        parent.join(_LOOK)
    time.sleep(_GRACE)
    os._exit(1)
