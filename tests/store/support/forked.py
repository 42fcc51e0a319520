"""Work done in a child process, so that a crash or a deadlock there is a result and no dead test run.

ended = in_child(lambda: ds[0])
assert ended.code == 0, ended.text
"""

import os
import signal
import traceback
import warnings
from collections.abc import Callable
from typing import NamedTuple

import torch

SECONDS = 60  # then the child hangs, and an alarm ends it


class Ended(NamedTuple):
    """How a child ended: its exit code, or a signal's number below zero, and the exception that it met."""

    code: int
    text: str


def in_child(work: Callable[[], object]) -> Ended:
    """Fork, work, and tell how it ended."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # That other threads are running is the point of some tests.
        warnings.filterwarnings("ignore", message="This process .* is multi-threaded", category=DeprecationWarning)
        child = os.fork()
    if not child:
        _work_and_end(work, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read().decode(errors="replace")
    return Ended(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text)


def _work_and_end(work: Callable[[], object], writing: int) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(SECONDS)
    code = 1
    try:
        torch.set_num_threads(1)  # torch's own threads did not come along
        work()
        code = 0
    except BaseException:
        os.write(writing, traceback.format_exc().encode(errors="replace")[-60_000:])  # a pipe's worth, nobody waits
    finally:
        os._exit(code)
