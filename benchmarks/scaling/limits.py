"""What the machine itself can do: copy memory, and read a file from one end to the other.

memory = memory_copy(threads=2)                      # a Contender like the others: it takes its turns with them
disk = disk_read(folder / "rows.npy", let_go)
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.harness.timing import Contender

MEMORY, DISK = "memory copy", "disk read"
SOURCE = 1 << 27  # bytes: more than caches hold
BLOCK = 1 << 22  # bytes that are written again and again, like a small batch: caches may hold them
READ = 1 << 23  # bytes of one read


def memory_copy(threads: int, source: int = SOURCE) -> Contender:
    """Bytes from memory into memory that was used before, shared evenly among threads; its work is bytes."""
    share = source // threads
    block = min(BLOCK, share)
    wholes = [np.ones(share, np.uint8) for _ in range(threads)]
    targets = [np.zeros(block, np.uint8) for _ in range(threads)]
    pool = ThreadPoolExecutor(threads)

    def copy(number: int) -> None:
        whole, target = wholes[number], targets[number]
        for start in range(0, share - block + 1, block):
            target[:] = whole[start : start + block]

    def run() -> None:
        list(pool.map(copy, range(threads)))

    return Contender(MEMORY, run, share // block * block * threads)


def disk_read(file: Path, before: Callable[[], object]) -> Contender:
    """A file from one end to the other, in large blocks, into memory that was used before; its work is bytes."""
    target: npt.NDArray[np.uint8] = np.zeros(READ, np.uint8)

    def run() -> None:
        with file.open("rb", buffering=0) as opened:
            while opened.readinto(memoryview(target)):
                pass

    return Contender(DISK, run, file.stat().st_size, before)
