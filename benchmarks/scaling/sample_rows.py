"""A thousand samples to ten million of them: random batches from anywhere in the store."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cordwood as cw
from benchmarks.data.samples import Samples, random_batches
from benchmarks.data.tensors import scratch
from benchmarks.harness.outcome import Chart, Outcome, Settings
from benchmarks.harness.timing import Contender
from benchmarks.scaling.curves import Curves, fastest_ways, rates
from benchmarks.store.contest import Contest, Packer
from benchmarks.store.memory_rows import multiply
from benchmarks.store.ours import THREADS, Ours
from benchmarks.store.rivals.entrants import FOR_CURVES, installed
from cordwood.store.format import shard_file

TITLE = "Many samples"
KEYS: tuple[str, ...] = ()
FULL = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
QUICK = (1_000, 10_000)
SHARD = 100_000  # samples of one shard of ours
NUMBERS = 8  # int64 of a sample: 64 bytes
BATCH = 256
# Beyond so many samples it takes minutes only to write them.
REACH = {
    "FFCV": 100_000,
    "TensorDict memmap": FULL[-1],
    "LMDB": 1_000_000,
    "HDF5": FULL[-1],
    "LitData": 10_000,
    "one .pt a sample": 10_000,
}
GATHERED = "NumPy, an array in memory"


class Copied(Ours):
    """One shard as the library writes it, then copies of it: a shard tells nothing of its place in the store."""

    def pack(self, samples: Samples, folder: Path) -> None:
        shards = -(-len(samples) // SHARD)
        store = self.place(folder)
        with cw.Writer(store, self.goal, threads=THREADS) as writer:
            writer.extend({samples.field: samples.rows[: len(samples) // shards]})
        for number in range(1, shards):
            shutil.copyfile(store / shard_file.shard_name(0), store / shard_file.shard_name(number))
        if shards > 1:
            multiply(store, shards)


def measure(settings: Settings) -> Outcome:
    """One table: as many samples as there are, everybody who can keep so many."""
    counts = QUICK if settings.quick else FULL
    curves = Curves()
    rivals, missing = installed([rival for rival in FOR_CURVES if rival.name in REACH])
    for place, count in enumerate(counts):
        samples = numbered(count)
        with scratch(settings) as folder:
            contest = Contest(folder, BATCH)
            contenders: list[Packer] = [Copied("raw"), Copied("balanced")]
            contenders += [rival for rival in rivals if count <= REACH[rival.name]]
            for contender in contenders:
                contest.enter(contender, samples)
            contest.check(samples)
            curves.add(place, rates(settings, fastest_ways(contest), [gather(samples)], unit=1.0))
    chart = Chart("samples", "samples in the store", "samples a second", [float(each) for each in counts], [GATHERED])
    headings = [f"{count:,}" if count < 1_000_000 else f"{count // 1_000_000} million" for count in counts]
    title = f"Random batches of {BATCH} from so many samples of 64 bytes, from the page cache: samples a second"
    table = curves.table(title, chart, headings, "bytes")
    table.notes += [
        f"Ours is `ds[[...]]`. Its stores have shards of {SHARD:,} samples. `{GATHERED}` is one thread that gathers "
        "rows of an array that is in memory already: of more rows, fewer are in the processor's caches.",
        "LMDB, FFCV, LitData and the .pt files are measured as far as they can be written in seconds. WebDataset reads "
        "files from one end to the other, and no sample in the middle; zipped .pt files cost more than they hold here.",
        *(f"Not measured: {line}" for line in missing.values()),
    ]
    return Outcome([table])


def numbered(count: int) -> Samples:
    """Rows that tell their number within a shard, so that shards may be copies of one."""
    numbers = torch.arange(count) % SHARD
    rows = numbers[:, None] * NUMBERS + torch.arange(NUMBERS)
    return Samples(f"{count:,} rows of 64 bytes", "numbers", rows, labelled=False)


def gather(samples: Samples) -> Contender:
    """The rows of the same batches, out of memory."""
    batches = [np.asarray(numbers) for numbers in random_batches(len(samples), BATCH)]
    rows: Any = samples.rows.numpy()

    def run() -> None:
        for numbers in batches:
            rows.take(numbers, 0)

    return Contender(GATHERED, run, len(batches) * BATCH)
