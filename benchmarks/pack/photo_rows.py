"""A folder of JPEG files to prepared tensors, once: `pack`, LitData's `optimize`, loops with torch.save."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

import cordwood as cw
from benchmarks.data import rivals
from benchmarks.data.samples import nbytes
from benchmarks.data.tensors import emptied, scratch
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.packages import need
from benchmarks.harness.timing import MismatchError, Spread, UnavailableError, ratio
from benchmarks.pack.data import Entry, PhotographFolder, Preparing, counts, prepare
from benchmarks.pack.rivals import (
    WORKERS,
    Write,
    plain_loop,
    pool_loop,
    require_chunks,
    require_files,
    require_sample,
)
from benchmarks.store.rivals.loaders import optimize
from cordwood import images
from cordwood.codecs import Goal

TITLE = "Packing a folder of photographs"
KEYS = ("pack-workers", "pack-litdata", "pack-plain", "pack-size")
ROUNDS = 5  # a turn writes gigabytes
STORE = "photographs.cordwood"
ONE, TWO = "cw.pack, one worker", "cw.pack, two workers"
LITDATA, PLAIN, POOL = "LitData optimize, two workers", "a loop with torch.save", "the same, a pool of two"
SMALL = "cw.pack, two workers, small"  # for its size alone

Check = Callable[[Sequence[Entry], Path, Callable[[Entry], dict[str, Any]]], None]


@dataclass
class Packing:
    """One way to write the samples of all files to an empty folder."""

    name: str
    write: Write
    check: Check
    expected: Preparing
    entries: list[Entry]
    folder: Path
    seconds: list[float] = field(default_factory=list)  # of every pass, as the tool calls it done

    def run(self) -> None:
        """One pass, whose time is noted."""
        start = time.perf_counter()
        self.write(self.entries, self.folder)
        self.seconds.append(time.perf_counter() - start)

    def checked_bytes(self) -> float:
        """Write everything, compare it with the source; bytes a sample."""
        emptied(self.folder)
        self.write(self.entries, self.folder)
        self.check(self.entries, self.folder, self.expected)
        return nbytes(self.folder) / len(self.entries)

    def clear(self) -> None:
        """Leave no gigabytes of one contender on the disk while another is timed."""
        shutil.rmtree(self.folder, ignore_errors=True)


def measure(settings: Settings) -> Outcome:
    """One table and all goals of the folder."""
    amount = counts(settings)
    with scratch(settings) as scratch_folder, rivals.threads(1):
        folder = PhotographFolder.made(settings, scratch_folder / "photographs", amount.made, amount.files)
        packings, missing = all_packings(folder, scratch_folder)
        sizes = {}
        for one in packings:
            sizes[one.name] = one.checked_bytes()
            one.clear()
        timed = [one for one in packings if one.name != SMALL]
        for _ in range(2 if settings.quick else ROUNDS):  # checking was the pass to warm up
            for one in timed:
                alone(one, packings)
                one.run()
        size = folder.mean_bytes()
    times = {one.name: [seconds / len(folder.entries) for seconds in one.seconds] for one in timed}
    table = photo_table(sizes, times, len(folder.entries), amount.made, size)
    table.notes += [f"Not measured: {line}" for line in (*missing.values(), *folder.missing)]
    return Outcome([table], judge(sizes, times), {"pack-litdata": missing[LITDATA]} if LITDATA in missing else {})


def alone(one: Packing, everyone: Sequence[Packing]) -> None:
    """An empty folder for this one, nothing of the others, and a disk with nothing left to write."""
    for other in everyone:
        other.clear()
    emptied(one.folder)


def all_packings(folder: PhotographFolder, place: Path) -> tuple[list[Packing], dict[str, str]]:
    """Ours, then the rivals, with the decoder that `pack` uses, which is the fastest that they could have."""
    same = Preparing(by_cordwood)
    found: list[Packing] = []

    def add(name: str, write: Write, check: Check, expected: Preparing) -> None:
        found.append(Packing(name, write, check, expected, folder.entries, place / f"way{len(found)}"))

    add(TWO, partial(our_pack, folder.path, WORKERS, "balanced"), require_stored, same)
    add(ONE, partial(our_pack, folder.path, 1, "balanced"), require_stored, same)
    add(SMALL, partial(our_pack, folder.path, WORKERS, "small"), require_stored, same)
    missing: dict[str, str] = {}
    try:
        need("litdata")
    except UnavailableError as reason:
        missing[LITDATA] = f"LitData: {reason}"
    if LITDATA not in missing:
        add(LITDATA, partial(optimize, same, ordered=True), require_chunks, same)
    add(PLAIN, partial(plain_loop, same), require_files, same)
    add(POOL, partial(pool_loop, same), require_files, same)
    return found, missing


def by_cordwood(path: str) -> torch.Tensor:
    """The decoder that `pack` chooses."""
    return images.decode(Path(path).read_bytes())


def our_pack(source: Path, workers: int, goal: Goal, entries: Sequence[Entry], folder: Path) -> None:
    cw.pack(source, folder / STORE, transform={"image": prepare}, goal=goal, workers=workers, progress=False)


def require_stored(entries: Sequence[Entry], folder: Path, expected: Callable[[Entry], dict[str, Any]]) -> None:
    """The store has every entry, in order, and some of them are looked at."""
    dataset = cw.open(folder / STORE)
    if len(dataset) != len(entries):
        raise MismatchError(f"pack stored {len(dataset)} samples of {len(entries)}")
    for number in range(0, len(entries), 50):
        require_sample(dataset[number], expected(entries[number]), entries[number].name)


def photo_table(
    sizes: dict[str, float], times: dict[str, list[float]], count: int, made: int, jpeg_bytes: float
) -> Table:
    table = Table(
        f"{count:,} JPEG files to 3x224x224 float32: resize 256, centre crop 224, Normalize",
        [("way", "text"), ("bytes a sample", "bytes"), ("of the .pt files", "ratio"), ("samples a second", "bytes"),
         ("cw.pack, two workers: speed, of this", "ratio")],
    )  # fmt: skip
    for name, size in sizes.items():
        if name in times:
            rate = Spread.of([1 / second for second in times[name]])
            table.add(name, size, size / sizes[PLAIN], rate, ratio(times[name], times[TWO]))
        else:
            table.add(name, size, size / sizes[PLAIN], None, None)
    table.notes += [
        f"{made:,} different photographs, {jpeg_bytes:,.0f} bytes each, their shorter side 375 pixels long. "
        "Everybody runs the same transform and stores the same samples: image, label and name.",
        "`pack` decodes by the fastest decoder that is installed, and rivals are given the same one. The loop is one "
        "process, as people write it; a pool of two is shown beside it.",
        "From the start of the call to its end: `pack` starts its workers in that time, which import torch; the "
        "rivals' are forked. `pack` syncs every shard before it counts, the rivals leave that to the system.",
    ]
    return table


def judge(sizes: dict[str, float], times: dict[str, list[float]]) -> dict[str, Spread]:
    """The goals' ratios."""
    found = {
        "pack-workers": ratio(times[ONE], times[TWO]),
        "pack-plain": ratio(times[PLAIN], times[TWO]),
        "pack-size": Spread.exact(sizes[PLAIN] / sizes[TWO]),
    }
    if LITDATA in times:
        found["pack-litdata"] = ratio(times[LITDATA], times[TWO])
    return found
