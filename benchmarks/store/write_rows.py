"""Packing photographs that are in memory, with two threads or processes."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.data.samples import Epoch, Samples, counts, nbytes, photographs
from benchmarks.data.tensors import emptied, scratch
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.timing import Contender, Spread, interleave, ratio
from benchmarks.store.contest import Packer
from benchmarks.store.ours import Ours
from benchmarks.store.rivals.entrants import FFCV, FILES, LITDATA, Rival, installed
from cordwood.codecs import Goal

TITLE = "Writing a store"
KEYS = ("store-write-litdata", "store-write-ffcv")
MOST_ROUNDS = 5  # a turn writes gigabytes
BATCH = 64  # when what was written is looked at
GOALS: tuple[Goal, ...] = ("balanced", "fast", "raw")
BALANCED = "ours, balanced"


@dataclass
class Packing:
    """One way to write the samples to an empty folder."""

    name: str
    pack: Callable[[Samples, Path], None]
    reader: Callable[[Samples, Path], Epoch]
    samples: Samples
    folder: Path
    seconds: list[float] = field(default_factory=list)  # of every pass, as the tool calls it done

    def run(self) -> None:
        """Until everything is on the disk; how long the tool itself took is noted."""
        start = time.perf_counter()
        self.pack(self.samples, self.folder)
        self.seconds.append(time.perf_counter() - start)
        os.sync()

    def checked_bytes(self) -> float:
        """Pack, compare everything with the source; bytes a sample."""
        emptied(self.folder)
        self.pack(self.samples, self.folder)
        self.reader(self.samples, self.folder).check(self.samples)
        return nbytes(self.folder) / len(self.samples)


def measure(settings: Settings) -> Outcome:
    """Rates as the tools have them, and with everything on the disk."""
    samples = repeated(photographs(settings), counts(settings).packed)
    rivals, missing = installed((LITDATA, FFCV, FILES))
    with scratch(settings) as folder:
        packings = all_packings(samples, folder, rivals)
        sizes = {one.name: one.checked_bytes() for one in packings}
        contenders = [
            Contender(one.name, one.run, len(samples), before=partial(emptied, one.folder)) for one in packings
        ]
        rounds = 2 if settings.quick else MOST_ROUNDS
        synced = interleave(contenders, rounds, least_seconds=0)
    alone = {one.name: [seconds / len(samples) for seconds in one.seconds[-rounds:]] for one in packings}
    table = Table(
        f"Packing {len(samples):,} photographs, 3x224x224, from memory, two threads or processes",
        [("way", "text"), ("bytes a sample", "bytes"), ("samples a second", "bytes"),
         ("ours, balanced: speed, of this", "ratio"), ("and all on the disk, samples a second", "bytes"),
         ("ours, balanced: speed, of this", "ratio")],
    )  # fmt: skip
    for name, size in sizes.items():
        cells = []
        for times in (alone, synced):
            cells += [Spread.of([1 / second for second in times[name]]), ratio(times[name], times[BALANCED])]
        table.add(name, size, *cells)
    table.notes += [
        "Ours syncs every shard before it counts; the rivals leave that to the system. Goals are judged by when each "
        "tool says that it is done, the last columns by when everything is on the disk.",
        "FFCV gets the uint8 pixels and copies them; everybody else gets normalised float32. LitData is judged by the "
        "faster of its rows in each round.",
        *(f"Not measured: {line}" for line in missing.values()),
    ]
    return judge(table, alone, missing)


def judge(table: Table, times: dict[str, list[float]], missing: dict[str, str]) -> Outcome:
    outcome = Outcome([table])
    for key, rival in (("store-write-litdata", LITDATA.name), ("store-write-ffcv", FFCV.name)):
        found = [seconds for name, seconds in times.items() if name.startswith(rival)]
        if found:
            outcome.measured[key] = ratio([min(each) for each in zip(*found, strict=True)], times[BALANCED])
        else:
            outcome.reasons[key] = missing[rival]
    return outcome


def all_packings(samples: Samples, folder: Path, rivals: list[Rival]) -> list[Packing]:
    """Ours with every goal, then the rivals; LitData in both orders, as now the one, now the other is faster."""
    found = []
    for ours in map(Ours, GOALS):
        reader = partial(first_epoch, ours)
        found.append(Packing(ours.name, ours.pack, reader, samples, folder / ours.goal))
    for number, rival in enumerate(rivals):
        reader = partial(first_epoch, rival)
        place = folder / f"rival{number}"
        if rival is LITDATA:
            for ordered, word in ((True, "in order"), (False, "as it comes")):
                pack = partial(LITDATA.optimize, ordered=ordered)
                found.append(Packing(f"{rival.name}, {word}", pack, reader, samples, place))
        else:
            found.append(Packing(rival.name, rival.pack, reader, samples, place))
    return found


def first_epoch(contender: Packer, samples: Samples, folder: Path) -> Epoch:
    return contender.epochs(samples, folder, BATCH)[0]


def repeated(samples: Samples, count: int) -> Samples:
    """So many samples, the same ones again and again, with labels of their own."""
    times = -(-count // len(samples))
    if times == 1:
        return samples.first(count)
    pixels = None if samples.pixels is None else np.tile(samples.pixels, (times, 1, 1, 1))[:count]
    rows = samples.rows.repeat(times, 1, 1, 1)[:count]
    return Samples(samples.title, samples.field, rows, samples.labelled, pixels)
