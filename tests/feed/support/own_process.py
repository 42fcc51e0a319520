"""Scripts that run in a process of their own: for what a process does at its end, or when a signal comes."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from typing import Any


def run(script: str) -> str:
    """What the script prints; it ends well, in time, and complains of nothing."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


class CtrlC:
    """Interrupts the main thread as the terminal does, until it has noticed, and then no more.

    A signal that comes right before a thread begins to wait is noticed when that ends: so it is sent again.
    """

    def __init__(self) -> None:
        self.noticed = False
        signal.signal(signal.SIGINT, self._notice)

    def _notice(self, *_: Any) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.noticed = True
        raise KeyboardInterrupt

    def send(self) -> None:
        main = threading.main_thread().ident
        assert main is not None
        while not self.noticed:
            signal.pthread_kill(main, signal.SIGINT)
            os.sched_yield()
