"""What a process must not have more of afterwards: threads of ours, open files, child processes.

before = Leftovers.now()
...
assert Leftovers.now() == before
"""

import gc
import multiprocessing
import os
import threading
from pathlib import Path
from typing import NamedTuple


class Leftovers(NamedTuple):
    """Names of threads, the number of open files, the number of child processes."""

    threads: tuple[str, ...]
    files: int
    processes: int

    @classmethod
    def now(cls) -> "Leftovers":
        """As it is, when what is about to close its files has: threads, and objects that refer to each other."""
        gc.collect()
        for thread in threading.enumerate():
            if thread.name == "QueueFeederThread":  # of the queues to a DataLoader's workers, which nobody joins
                thread.join()
        threads = sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("cordwood"))
        return cls(tuple(threads), sum(1 for _ in Path("/dev/fd").iterdir()), len(multiprocessing.active_children()))


def resident() -> int:
    """Bytes of memory that this process occupies."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
