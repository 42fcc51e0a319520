"""How soon the first shuffled batch of ten million samples is there, in a new process."""

import shutil
from pathlib import Path

import numpy as np
import torch

import cordwood as cw
from benchmarks.data.tensors import scratch
from benchmarks.feed.cold_rows import let_go
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.timing import MismatchError, Spread
from benchmarks.store.memory import Job, Look, watch
from benchmarks.store.memory_rows import multiply
from cordwood.store.format import shard_file

TITLE = "The first batch of ten million samples"
KEYS = ("feed-first-batch",)
SAMPLES = 10_000_000
SHARDS = 50
BATCH = 64
STARTS = 5
FEW_STARTS = 2  # of a quick run
MAY_TAKE = 0.2  # seconds


def measure(settings: Settings) -> Outcome:
    """From `cw.open` to the batch: with the store in the page cache, and from the disk."""
    table = Table(
        f"From cw.open to the first shuffled batch of {BATCH}: {SAMPLES:,} samples in {SHARDS} shards, a new process",
        [("the store is", "text"), ("ms", "ms"), ("CPU ms", "ms"), ("CPU ms a sample", "digits-ms"),
         ("memory, bytes", "bytes")],
    )  # fmt: skip
    with scratch(settings) as folder:
        store = folder / "many.cordwood"
        write_many(store)
        job = Job("first", str(store), batch=BATCH)
        starts = range(FEW_STARTS if settings.quick else STARTS)
        warm = [watch(job) for _ in starts]
        cold = [from_disk(job) for _ in starts]
    for what, looks in (("in the page cache", warm), ("on the disk", cold)):
        if any(after.samples != SAMPLES for _, after in looks):
            raise MismatchError(f"a store of {SAMPLES} samples was loaded as one of {looks[0][1].samples}")
        cpu = [after.cpu - before.cpu for before, after in looks]
        own = [after.own - before.own for before, after in looks]
        seconds = Spread.of([after.seconds for _, after in looks])
        table.add(what, seconds, Spread.of(cpu), Spread.of([each / BATCH for each in cpu]), Spread.of(own))
    table.notes.append(
        "Each start is that of a new process that has imported torch and Cordwood. The samples are small, 8 bytes and "
        "a label, as only their number matters: nothing is read for a batch but what is in it. The goal allows 200 ms, "
        "with the store in the page cache."
    )
    return Outcome([table], {"feed-first-batch": Spread.of([after.seconds / MAY_TAKE for _, after in warm])})


def from_disk(job: Job) -> list[Look]:
    """The same, after the store was dropped from the page cache."""
    let_go(Path(job.store).rglob("*.*"))
    return watch(job)


def write_many(store: Path) -> None:
    """One shard as the library writes it, then copies of it: a shard tells nothing of its place in the store."""
    count = SAMPLES // SHARDS
    numbers = np.arange(count)
    with cw.Writer(store, "raw") as writer:
        rows = torch.from_numpy(numbers.view(np.uint8).reshape(count, -1))
        writer.extend({"bytes": rows, "label": numbers.tolist()})
    for number in range(1, SHARDS):
        shutil.copyfile(store / shard_file.shard_name(0), store / shard_file.shard_name(number))
    multiply(store, SHARDS)
