"""Measures what it costs to start worker processes, which import torch for seconds before they do anything.

    seconds = measured(job, workers=8)          # by starting them, for a dry run
    advice(seconds=6.0, starting=4.0, workers=2)

Small jobs are done sooner without them. That is said, not done by itself: by default the caller's process runs none of
the caller's code. An input that ends its process is then named, not the end of a notebook; generators of random numbers
and datasets that remember things stay as they are; and how many threads NumPy has, on which bits of a product depend,
is the same for all samples, however long each took.
"""

import time
from collections.abc import Callable

from cordwood.common.numbers import clock_text
from cordwood.packing.workers.pool import Died, Pool
from cordwood.packing.workers.work import Job
from cordwood.packing.workers.worker import Task

TOLD = 0.5  # seconds from which on it is worth a word
_SHARE = 5  # and so many times of it is no less than all the time
_LESS = 0.8  # of the time: what is saved must be more than noise
_WAIT = 0.1


def measured(job: Job, workers: int, clock: Callable[[], float] = time.monotonic) -> float:
    """Seconds until that many processes have the job; UsageError or PackError if it cannot be sent to any."""
    start = clock()
    with Pool(job, workers) as pool:
        for number in range(workers):
            pool.give(Task(number, []))  # nothing to do: the answer tells that it could begin
        answers = 0
        while answers < workers:
            for event in pool.wait(_WAIT):
                # One that dies at once will die in earnest, too, which the job tells about.
                answers += workers if isinstance(event, Died) else 1
        return clock() - start


def counts(seconds: float, starting: float) -> bool:
    """Whether starting took so much of the time that it is to be told."""
    return starting >= TOLD and starting * _SHARE > seconds


def advice(seconds: float, starting: float, workers: int) -> str:
    """What to do about it, for a job that took or would take that long; empty if there is nothing to gain."""
    alone = (seconds - starting) * workers
    if not workers or starting < TOLD or alone > _LESS * seconds:
        return ""
    told = clock_text(max(1.0, alone))
    return f"a job as small as this is done sooner in one process: workers=0 (--workers 0), about {told} or less"
