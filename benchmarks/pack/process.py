"""A process that packs tiny samples, watched from outside: what it holds, how far it is, and when it begins to write.

    run = Run.start(Job("tiny.cordwood", "counter", samples=1_000_000, workers=2))
    looks = run.watched(until=900_000)
    run.kill()                          # the process and all that it started, at once

How far it is, is told by the workers themselves: each notes the number of a sample that it reads in a file that all of
them have mapped.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from benchmarks.harness.timing import MismatchError, UnavailableError
from benchmarks.tensors.memory import ROOT, status

NOTED = 64  # every so many samples
LOOK_EVERY = 0.02  # seconds
SLEEP = 0.001


@dataclass(frozen=True)
class Job:
    """What the process packs, and into which store."""

    store: str
    counter: str
    samples: int
    workers: int


@dataclass(frozen=True)
class Look:
    """When the worker that was farthest was at this sample: bytes that the process and its workers held."""

    samples: int
    own: int


class Numbers:
    """Samples of two numbers; reading one leaves its number in the counter."""

    def __init__(self, count: int, counter: str) -> None:
        self.count, self.counter = count, counter
        self.noted: np.ndarray | None = None

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> dict[str, Any]:
        if number % NOTED == 0:
            if self.noted is None:
                self.noted = np.memmap(self.counter, np.int64, "r+")
            self.noted[0] = max(self.noted[0], number)
        return {"number": number, "half": number / 2}

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"noted": None}


@dataclass
class Run:
    """The process that packs."""

    job: Job
    process: "subprocess.Popen[str]"
    started: float  # when it called `pack`, by the clock that all processes share

    @classmethod
    def start(cls, job: Job) -> Self:
        """Wait until it has imported everything and is about to pack."""
        if not Path("/proc/self/status").exists():
            raise UnavailableError("this system does not tell what memory a process holds")
        np.zeros(1, np.int64).tofile(job.counter)
        command = [sys.executable, "-m", "benchmarks.pack.process", json.dumps(asdict(job))]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            process.stdout.close()
            raise MismatchError(f"the process that was to pack ended with {process.wait()}")
        return cls(job, process, float(line))

    def reached(self) -> int:
        """The highest number that a worker has noted."""
        return int(np.fromfile(self.job.counter, np.int64)[0])

    def watched(self, until: int) -> list[Look]:
        """Look again and again, until a worker is there or the process has ended."""
        looks = []
        while self.process.poll() is None and (reached := self.reached()) < until:
            if own := sum(map(own_memory, self.everyone())):  # nothing: it has just ended
                looks.append(Look(reached, own))
            time.sleep(LOOK_EVERY)
        return looks

    def first_written(self) -> float:
        """Seconds from the call of `pack` until the store has more bytes than it had at its least since then."""
        store = Path(self.job.store)
        least = stored_bytes(store)
        while (size := stored_bytes(store)) <= least:
            least = size
            if self.process.poll() is not None:
                raise MismatchError(f"the process that was to resume ended with {self.process.returncode}")
            time.sleep(SLEEP)
        return time.monotonic() - self.started

    def everyone(self) -> list[int]:
        """The process and all processes below it."""
        found, left = [], [self.process.pid]
        while left:
            found.append(left.pop())
            left += children(found[-1])
        return found

    def kill(self) -> None:
        """All of them, without a word before."""
        for pid in self.everyone():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.finish()

    def finish(self) -> int:
        """Wait for the end; the exit code."""
        code = self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


def children(pid: int) -> list[int]:
    """Processes that any thread of this one has started."""
    found = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(word) for word in file.read_text().split()]
        except OSError:
            continue
    return found


def own_memory(pid: int) -> int:
    """Bytes of memory that no file stands behind; none if the process has just ended."""
    try:
        return status("RssAnon", f"/proc/{pid}/status")
    except (OSError, StopIteration):
        return 0


def stored_bytes(store: Path) -> int:
    """Of the files that samples are written to; the lists of inputs and the job's own notes do not count."""
    total = 0
    for file in store.glob("*shard*"):
        try:
            total += file.stat().st_size
        except OSError:
            continue
    return total


def main(argument: str) -> None:
    """The process's side."""
    import cordwood as cw

    job = Job(**json.loads(argument))
    pack = cw.pack
    print(time.monotonic(), flush=True)
    pack(Numbers(job.samples, job.counter), job.store, workers=job.workers, progress=False)


if __name__ == "__main__":
    # Named by its module and not as __main__: that is how workers import it.
    from benchmarks.pack.process import main as run

    run(sys.argv[1])
