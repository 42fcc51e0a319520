"""What `pack` adds to a transform that takes five milliseconds and to the encoding of what it gives."""

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cordwood as cw
from benchmarks.data import rivals
from benchmarks.data.photographs import load_photographs, normalise
from benchmarks.data.tensors import scratch
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.timing import Spread
from benchmarks.pack.data import counts
from cordwood.packing.transform.transform import prepare_transform
from cordwood.packing.workers.work import Job, Work
from cordwood.store.format import manifest
from cordwood.store.writing.first_samples import FixedSchema

TITLE = "Overhead of packing"
KEYS = ("pack-overhead",)
TRANSFORM = 0.005  # seconds of a core
MAY_ADD = 0.1  # of that
ROUNDS = 5
WORKERS = 1
AT_ONCE = 16  # samples: about what a worker gets in a task


class Prepared(torch.utils.data.Dataset[dict[str, Any]]):
    """Prepared photographs in one file, the same ones again and again; a worker opens the file by its name."""

    def __init__(self, file: Path, count: int) -> None:
        self.file, self.count = str(file), count
        self.rows: np.ndarray | None = None

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> dict[str, Any]:
        if self.rows is None:
            self.rows = np.load(self.file, mmap_mode="r")
        return {"image": torch.from_numpy(self.rows[number % len(self.rows)].copy()), "label": number}

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"rows": None}


def five_milliseconds(sample: dict[str, Any]) -> dict[str, Any]:
    """Keeps its core busy for so long, however fast that is."""
    end = time.thread_time() + TRANSFORM
    while time.thread_time() < end:
        pass
    return sample


@dataclass(frozen=True)
class Cost:
    """Seconds by the clock, and of all cores."""

    wall: float
    cpu: float

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(self.wall - other.wall, self.cpu - other.cpu)

    def __truediv__(self, samples: int) -> "Cost":
        return Cost(self.wall / samples, self.cpu / samples)


def measure(settings: Settings) -> Outcome:
    """One table, and the larger of the two overheads."""
    few = counts(settings).burned
    photographs = load_photographs(settings.cache, settings.photographs)
    with scratch(settings) as folder, rivals.threads(1):
        file = folder / "prepared.npy"
        floats = [normalise(pixels) for pixels in photographs.pixels]
        np.save(file, np.stack(floats))
        packed: list[Cost] = []
        alone: list[Cost] = []
        for turn in range(2 if settings.quick else ROUNDS):
            once, twice = (
                cost_of(partial(pack, Prepared(file, count), folder / f"{turn}-{count}.cordwood"))
                for count in (few, 2 * few)
            )
            packed.append((twice - once) / few)
            store = folder / f"{turn}-{few}.cordwood"
            alone.append(cost_of(partial(work_alone, Prepared(file, few), store)) / few)
    added = [one - other for one, other in zip(packed, alone, strict=True)]
    table = Table(
        "A transform of five milliseconds on prepared photographs: a sample's milliseconds",
        [("what", "text"), ("by the clock, one worker", "ms"), ("CPU of all processes", "ms")],
    )
    for name, costs in (("cw.pack", packed), ("transform and encoding alone", alone), ("what pack adds", added)):
        table.add(name, Spread.of([cost.wall for cost in costs]), Spread.of([cost.cpu for cost in costs]))
    table.notes += [
        f"`pack` runs with one worker over {few:,} and over {2 * few:,} samples, and the difference of the two is "
        "divided by the difference in samples: starting and ending cancel out. Alone, one process reads the same "
        "samples, runs the same transform, and encodes by the same plans and the same code as a worker; it writes "
        "nothing. What pack adds has everything else in it: handing over, ordering, writing, syncing.",
        f"The transform takes {TRANSFORM * 1e3:g} ms of CPU time. The goal allows a tenth of that, for the larger of "
        "the two figures.",
    ]
    shares = [
        Spread.of([cost.wall / TRANSFORM / MAY_ADD for cost in added]),
        Spread.of([cost.cpu / TRANSFORM / MAY_ADD for cost in added]),
    ]
    return Outcome([table], {"pack-overhead": max(shares, key=lambda spread: spread.median)})


def cost_of(work: Callable[[], object]) -> Cost:
    """Of this process and of the children that it has waited for."""
    start, used = time.perf_counter(), cpu_seconds()
    work()
    return Cost(time.perf_counter() - start, cpu_seconds() - used)


def cpu_seconds() -> float:
    """Of this process and of the children that it has waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def pack(source: Prepared, store: Path) -> None:
    cw.pack(source, store, transform=five_milliseconds, workers=WORKERS, progress=False)


def work_alone(source: Prepared, store: Path) -> None:
    """What has to be done in any case, as a worker does it; `store` tells the schema and the plans."""
    work = Work(Job(source.__getitem__, prepare_transform(five_milliseconds)))
    work.fix_schema(FixedSchema.load(store, manifest.read(store)))
    for first in range(0, len(source), AT_ONCE):
        work.do(first, range(first, min(first + AT_ONCE, len(source))))
