"""What a process holds that does nothing but read a store: told by the process itself, on one line of JSON.

    looks = watch(Job("batches", "train.cordwood", reads=1_000_000, batch=256, looks=20))
    looks[-1].own - looks[3].own

`own` is memory that no file stands behind; `mapped` are pages of the store's files, which the system takes back when
it needs them.
"""

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.harness import MismatchError, UnavailableError
from benchmarks.tensor_memory import ROOT, status

SEED = 20260103


@dataclass(frozen=True)
class Job:
    """`batches` of so many samples, `singles`, or just to `open`."""

    action: str
    store: str
    reads: int = 0
    batch: int = 1
    looks: int = 1


@dataclass(frozen=True)
class Look:
    """After so many samples, or after opening: bytes held, and for opening how long it took."""

    samples: int
    own: int
    mapped: int
    seconds: float = 0.0


def watch(job: Job) -> list[Look]:
    """Run the job in a process of its own."""
    if not Path("/proc/self/status").exists():
        raise UnavailableError("this system does not tell what memory a process holds")
    command = [sys.executable, "-m", "benchmarks.store_memory", json.dumps(asdict(job))]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise MismatchError(f"the process that was to read {job.action} ended with {done.returncode}")
    return [Look(**look) for look in json.loads(done.stdout)]


def look(samples: int, seconds: float = 0.0) -> Look:
    return Look(samples, status("RssAnon"), status("RssFile"), seconds)


def opened(job: Job) -> list[Look]:
    """Before and after opening; everything that is imported is imported before."""
    import cordwood as cw

    kinds = cw.open, cw.Dataset  # public names are imported when they are first asked for
    before = look(0)
    start = time.perf_counter()
    dataset = kinds[0](job.store)
    seconds = time.perf_counter() - start
    return [before, look(len(dataset), seconds)]


def read(job: Job) -> list[Look]:
    """Random samples, with looks evenly spread over them."""
    import cordwood as cw

    dataset = cw.open(job.store, threads=2)
    chance = np.random.default_rng(SEED)
    found = [look(0)]
    done = 0
    for number in range(1, job.looks + 1):
        until = job.reads * number // job.looks
        while done < until:
            if job.action == "singles":
                dataset[int(chance.integers(len(dataset)))]
                done += 1
            else:
                dataset[chance.integers(len(dataset), size=job.batch)]
                done += job.batch
        found.append(look(done))
    return found


def main(argument: str) -> None:
    """The process's side."""
    job = Job(**json.loads(argument))
    looks = opened(job) if job.action == "open" else read(job)
    print(json.dumps([asdict(each) for each in looks]))


if __name__ == "__main__":
    main(sys.argv[1])
