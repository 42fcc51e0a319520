"""A process that forks writers and lets them die, because importing torch for each of them would take long.

    host = KillHost()
    host.run(path=..., count=300, at=17)       # killed at its 17th call to the file system
    host.run(path=..., count=300)["calls"]     # how many calls there are

Each line that comes in is a job in JSON. The writer is forked, goes on where the store at `path` ends, appends
`samples(count)`, and is killed with SIGKILL right before its call number `at`, or by the host after `after` appends.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
from typing import Any

import torch

import cordwood as cw
from tests.store.support.photos import photo

CALLS = ("open", "write", "pwrite", "fsync", "replace", "close", "ftruncate", "mkdir")
OPTIONS: dict[str, Any] = {"shard_bytes": 12000, "goal": "fast", "threads": 2}


def samples(count: int) -> list[Any]:
    """Small ones, with arrays that lie in columns and apart; the last five are much larger."""
    made = [photo(i) for i in range(count)]
    for i, sample in enumerate(made):
        sample["embedding"] = torch.rand(8 if i % 30 else 11, generator=torch.Generator().manual_seed(i))
    for sample in made[-5:]:
        sample["meta"]["boxes"] = torch.arange(8000.0).reshape(-1, 4)
    return made


def write(job: dict[str, Any], progress: int) -> None:
    """In the forked process: go on until the end, or until the kill."""
    if "limit" in job:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (job["limit"], job["limit"]))
    tell = os.write
    calls = Calls(job.get("at"))
    told: dict[str, Any] = {}
    try:
        with cw.Writer(job["path"], mode="resume", **OPTIONS) as writer:
            told["began"] = writer.committed
            for sample in samples(job["count"])[writer.committed :]:
                writer.append(sample)
                tell(progress, b".")
    except cw.StorageError as error:
        told |= {"error": str(error), "errno": error.errno, "committed": writer.committed}
    calls.stop()
    print(json.dumps({**told, "calls": calls.count}), flush=True)


class Calls:
    """Counts calls to the file system from now on, and ends the process right before one of them."""

    def __init__(self, last: int | None) -> None:
        self.count = 0
        self._last = last
        self._lock = threading.Lock()
        self._originals = {name: getattr(os, name) for name in CALLS}
        self._process = os.getpid()
        for name in CALLS:
            setattr(os, name, self._counted(self._originals[name]))

    def _counted(self, original: Any) -> Any:
        def counted(*args: Any, **options: Any) -> Any:
            with self._lock:  # a thread writes shards beside the one that appends
                self.count += 1
                is_last = self.count == self._last
            if is_last:
                os.kill(self._process, signal.SIGKILL)
            return original(*args, **options)

        return counted

    def stop(self) -> None:
        for name, original in self._originals.items():
            setattr(os, name, original)


def serve() -> None:
    cw.Writer  # noqa: B018 - loads what the forked processes need
    for line in sys.stdin:
        job = json.loads(line)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            write(job, writing)
            os._exit(0)
        os.close(writing)
        left = job.get("after", -1)
        while left and os.read(reading, 1):
            left -= 1
        if not left:
            os.kill(child, signal.SIGKILL)
        os.close(reading)
        if os.WIFSIGNALED(os.waitpid(child, 0)[1]):
            print(json.dumps({"killed": True}), flush=True)


class KillHost:
    """The host, for a test."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.store.support.killhost"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, **job: Any) -> dict[str, Any]:
        """What the writer told at its end, or that it was killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(job), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer, "the host died"
        told: dict[str, Any] = json.loads(answer)
        return told

    def stop(self) -> None:
        self._process.communicate()


if __name__ == "__main__":
    serve()
