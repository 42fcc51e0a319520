"""What a process holds that does nothing but read or load a store: told by itself, on one line of JSON.

    looks = watch(Job("batches", "train.cordwood", reads=1_000_000, batch=256, looks=20))
    looks[-1].own - looks[3].own

`own` is memory that no file stands behind; `mapped` are pages of the store's files, which the system takes back when
it needs them.
"""

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.timing import MismatchError, UnavailableError
from benchmarks.tensors.memory import ROOT, status

SEED = 20260103


@dataclass(frozen=True)
class Job:
    """`batches` of so many samples, `singles`, just to `open`; `epochs` of the Loader, or its `first` batch."""

    action: str
    store: str
    reads: int = 0  # samples, or epochs
    batch: int = 1
    looks: int = 1
    options: dict[str, Any] = field(default_factory=dict)  # of the Loader


@dataclass(frozen=True)
class Look:
    """After so many samples, or after opening: bytes held, and how long it took, by the clock and of all cores."""

    samples: int
    own: int
    mapped: int
    seconds: float = 0.0
    cpu: float = 0.0


def watch(job: Job) -> list[Look]:
    """Run the job in a process of its own."""
    if not Path("/proc/self/status").exists():
        raise UnavailableError("this system does not tell what memory a process holds")
    command = [sys.executable, "-m", "benchmarks.store.memory", json.dumps(asdict(job))]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise MismatchError(f"the process that was to read {job.action} ended with {done.returncode}")
    return [Look(**look) for look in json.loads(done.stdout)]


def look(samples: int, seconds: float = 0.0) -> Look:
    return Look(samples, status("RssAnon"), status("RssFile"), seconds, time.process_time())


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


def loaded(job: Job) -> list[Look]:
    """Shuffled epochs of the Loader, with looks evenly spread over them."""
    import cordwood as cw

    loader = cw.Loader(cw.open(job.store), batch_size=job.batch, shuffle=True, **job.options)
    found = [look(0)]
    samples = 0
    for epoch in range(job.reads):
        for batch in loader:
            samples += len(next(iter(batch.values())))
            del batch  # as it would be by the next step: not held while the next epoch begins
        if (epoch + 1) * job.looks // job.reads > epoch * job.looks // job.reads:
            found.append(look(samples))
    return found


def first(job: Job) -> list[Look]:
    """Before opening, and when the first shuffled batch is there; it must hold what was stored."""
    import cordwood as cw

    kinds = cw.open, cw.Loader
    before = look(0)
    start = time.perf_counter()
    dataset = kinds[0](job.store)
    batch = next(iter(kinds[1](dataset, batch_size=job.batch, shuffle=True)))
    seconds = time.perf_counter() - start
    if batch["bytes"].numpy().view(np.int64)[:, 0].tolist() != batch["label"].tolist():
        raise MismatchError("the first batch is not what was stored")
    return [before, look(len(dataset), seconds)]


ACTIONS = {"open": opened, "batches": read, "singles": read, "epochs": loaded, "first": first}


def main(argument: str) -> None:
    """The process's side."""
    job = Job(**json.loads(argument))
    print(json.dumps([asdict(each) for each in ACTIONS[job.action](job)]))


if __name__ == "__main__":
    main(sys.argv[1])
