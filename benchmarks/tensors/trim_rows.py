"""Trim of a file with 99% waste: time, memory and reading follow the bytes that are kept, not the file."""

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import cordwood as cw
from benchmarks.data.tensors import emptied, require_same, scratch
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.packages import need
from benchmarks.harness.timing import Contender, Spread, interleave, ratio
from benchmarks.tensors.memory import Job, watch

TITLE = "Trim of a file with 99% waste"
KEYS = ("trim-time", "trim-reads", "trim-memory")
STORAGES = 4
KEPT = 100  # one of so many bytes
ALLOWED, FLOOR = 1.1, 4 << 20  # of the largest kept storage, and what any trim takes


def measure(settings: Settings) -> Outcome:
    """Three files: one with waste around what is kept, one with waste between it, and one without waste."""
    torch = need("torch")
    numbers = 2 * settings.memory_bytes // STORAGES // 4
    kept = numbers // KEPT
    storages = [torch.randn(numbers) for _ in range(STORAGES)]
    objects: dict[str, Any] = {
        "kept bytes in one piece": {f"{i}": one[kept * i : kept * (i + 1)] for i, one in enumerate(storages)},
        "every 100th number": {f"{i}": one[::KEPT][:kept] for i, one in enumerate(storages)},
        "no waste": {f"{i}": one[kept * i : kept * (i + 1)].clone() for i, one in enumerate(storages)},
    }
    del storages
    table = Table(
        f"Trim of {STORAGES} storages of {numbers * 4 / 1e6:,.0f} MB, of which a hundredth is reached",
        [("file", "text"), ("bytes", "bytes"), ("trimmed", "bytes"), ("ms", "ms"), ("of no waste", "ratio"),
         ("read, cold", "bytes"), ("of the kept", "ratio"), ("memory held", "bytes"), ("and files' pages", "bytes")],
    )  # fmt: skip
    with scratch(settings) as folder:
        contenders = []
        for name, obj in objects.items():
            source, target = folder / f"{name}.pt", folder / name
            torch.save(obj, source)
            run = partial(cw.trim, source, target / "trimmed.pt")
            emptied(target)
            run()
            require_same(torch.load(target / "trimmed.pt"), obj, name)
            contenders.append(Contender(name, run, before=partial(emptied, target)))
        times = interleave(contenders, settings.rounds, least_seconds=0)
        growths = {name: watch(Job("trim", str(folder), source=str(folder / f"{name}.pt"))) for name in objects}
        for name in objects:
            growth = growths[name]
            table.add(
                name, size(folder / f"{name}.pt"), size(folder / name / "trimmed.pt"), Spread.of(times[name]),
                ratio(times[name], times["no waste"]), growth.read, growth.read / (STORAGES * kept * 4), growth.own,
                growth.peak - growth.own,
            )  # fmt: skip
            shutil.rmtree(folder / name)
    table.notes.append(
        "A trim ends with the file on the disk, so its time has a sync in it. What is spread over every page of a file "
        "cannot be read without reading the pages: the second row has no goal. Goals are judged by the first."
    )
    wasteful = "kept bytes in one piece"
    measured = {
        "trim-time": ratio(times[wasteful], times["no waste"]),
        "trim-reads": Spread.exact(growths[wasteful].read / (STORAGES * kept * 4)),
        "trim-memory": Spread.exact(growths[wasteful].own / (ALLOWED * kept * 4 + FLOOR)),
    }
    return Outcome([table], measured)


def size(path: Path) -> int:
    return path.stat().st_size
