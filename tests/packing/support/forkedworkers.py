"""Workers forked from the parent of a job, which start at once: an interpreter of their own imports torch for seconds.

fork_workers()          # from now on, in this process
fork_in(monkeypatch)    # for one test

Everything else about them is as it always is: pipes, a session of their own, no files but those that are theirs.
"""

import os
import signal
import subprocess
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import pytest

from cordwood.packing.workers import pool, worker


class ForkedProcess(subprocess.Popen[bytes]):
    """A process that is waited for and killed as any other."""

    def __init__(self, theirs: tuple[int, int, int]) -> None:
        self._theirs = theirs
        super().__init__([sys.executable])

    def _execute_child(self, *args: Any, **options: Any) -> None:
        with warnings.catch_warnings():
            # The parent has threads, and what they hold is not needed here.
            warnings.filterwarnings("ignore", message="This process .* is multi-threaded", category=DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            self._work()
        self._child_created = True

    def _work(self) -> None:
        try:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            for fd in [int(path.name) for path in Path("/dev/fd").iterdir()]:
                if fd not in (0, 1, 2, *self._theirs):
                    os.closerange(fd, fd + 1)
            worker.main(*self._theirs)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(1)


def launch(self: Any, theirs: tuple[int, int, int]) -> ForkedProcess:
    """In the place of `pool._Worker._launch`."""
    return ForkedProcess(theirs)


def fork_workers() -> None:
    """Let all workers of this process's jobs be forked."""
    pool._Worker._launch = launch  # type: ignore[method-assign]


def fork_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of one test."""
    monkeypatch.setattr(pool._Worker, "_launch", launch)
