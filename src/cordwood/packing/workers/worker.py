"""A worker process: receives the job, then tasks, and sends back the results, until its parent closes the pipe.

The parent starts it with an interpreter of its own that imports this module, never the caller's script: so a script
without ``if __name__ == "__main__"`` does not start itself again.
"""

import mmap
import os
import queue
import signal
import struct
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple

from cordwood.errors import UsageError
from cordwood.packing.journal.failure import Failure
from cordwood.packing.workers.one_thread import one_thread
from cordwood.packing.workers.wire import Parts, receive, send, unpack
from cordwood.packing.workers.work import Job, RawResult, Result, Work
from cordwood.store.writing.first_samples import FixedSchema

NOWHERE = -1
# In memory that the parent sees: the first input that is being done, how many are being done at once, and the number of
# times that this was written. 0 inputs: nothing runs that could take too long.
PLACE = struct.Struct("<qqq")
NO_PLACE = (NOWHERE, 0, 0)


class Task(NamedTuple):
    """Inputs that follow each other; those in `failed`, by their numbers, are not tried again."""

    first: int
    handles: Sequence[Any]
    failed: Mapping[int, Failure] = {}


class Finished(NamedTuple):
    """The answer to a task."""

    first: int
    result: Result


class JobRejected(NamedTuple):
    """The job itself could not be unpacked: there will be no answers."""

    error: str


def main(tasks_fd: int, results_fd: int, place_fd: int) -> None:
    """Work until there are no more tasks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's: it ends workers when it has tidied up
    os.dup2(2, 1)  # what a transform prints must not be taken for anything else
    sys.stdout = sys.stderr  # which keeps nothing back: workers end suddenly
    place = mmap.mmap(place_fd, PLACE.size)
    arrived: queue.SimpleQueue[Parts] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(tasks_fd, arrived), daemon=True).start()
    try:
        job: Job = unpack(arrived.get())
    except Exception as error:
        import traceback

        send(results_fd, JobRejected("".join(traceback.format_exception(error))))
        return
    beats = count(1)
    work = Work(job, watch=lambda first, inputs: PLACE.pack_into(place, 0, first, inputs, next(beats)))
    with one_thread(), suppress(BrokenPipeError):  # the parent is gone, and wants no words
        while True:
            message = unpack(arrived.get())
            if isinstance(message, FixedSchema):
                work.fix_schema(message)
                continue
            done = Finished(message.first, work.do(*message))
            PLACE.pack_into(place, 0, *NO_PLACE)
            try:
                send(results_fd, done)
            except OSError:
                raise
            except Exception as error:  # samples of the caller's that cannot be pickled, and so not be stored either
                send(results_fd, done._replace(result=_unsendable(done.result, error)))


def _unsendable(result: Result, error: Exception) -> Result:
    failure = Failure.of(
        UsageError(f"a sample cannot leave its worker process, nor be stored ({type(error).__name__}: {error})")
    )
    return RawResult.of_failures([result.failures.get(each, failure) for each in range(len(result.counts))])


def _read(fd: int, arrived: "queue.SimpleQueue[Parts]") -> None:
    """Take in what comes, so that the parent never waits; when it is gone, end at once, whatever is being done."""
    while (parts := receive(fd)) is not None:
        arrived.put(parts)
    os._exit(0)
