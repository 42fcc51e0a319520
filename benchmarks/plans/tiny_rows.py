"""Two million samples of an int64 and eight float32, written with `extend`."""

import time
from typing import Any

import numpy as np

import cordwood as cw
from benchmarks.data.samples import nbytes
from benchmarks.data.tensors import scratch
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.timing import MismatchError, Spread

TITLE = "Two million tiny samples"
KEYS = ("plans-tiny-speed", "plans-tiny-size")
WANTED = 200_000  # samples a second
RAW_BYTES = 8 + 8 * 4
CHUNK = 20_000  # samples that `extend` is given at once
QUICK_COUNT = 20_000
SEED = 20260110


def measure(settings: Settings) -> Outcome:
    """Lists of samples, and batches of columns."""
    count = QUICK_COUNT if settings.quick else 2_000_000
    table = Table(
        f"{count:,} samples of an int64 and eight float32, written with extend",
        [("what extend is given", "text"), ("samples a second", "count"), ("bytes a sample", "bytes"),
         ("of raw", "ratio")],
    )  # fmt: skip
    speed, size = 0.0, 0.0
    with scratch(settings) as folder:
        for name, is_list in (("lists of samples", True), ("batches of columns", False)):
            store = folder / f"{name}.cordwood"
            seconds = written(store, count, is_list=is_list)
            check(store, count)
            each = nbytes(store) / count
            table.add(name, count / seconds, each, each / RAW_BYTES)
            if is_list:
                speed, size = count / seconds / WANTED, each / RAW_BYTES
    table.notes.append(
        f"One pass, from an empty folder to a finished store; samples are made {CHUNK:,} at a time, off the clock. "
        f"Goals are judged by lists of samples, their speed as a part of {WANTED:,} samples a second."
    )
    return Outcome([table], {"plans-tiny-speed": Spread.exact(speed), "plans-tiny-size": Spread.exact(size)})


def columns(start: int, count: int) -> dict[str, Any]:
    """A part of the samples, the same each time."""
    chance = np.random.default_rng([SEED, start])
    return {
        "id": chance.integers(0, 1 << 40, count),
        "features": chance.standard_normal((count, 8), dtype=np.float32),
    }


def written(store: Any, count: int, *, is_list: bool) -> float:
    """Seconds that writing took."""
    seconds = 0.0
    start = time.perf_counter()
    writer = cw.Writer(store)
    with writer:
        seconds += time.perf_counter() - start
        for at in range(0, count, CHUNK):
            batch = columns(at, min(CHUNK, count - at))
            given: Any = batch
            if is_list:
                pairs = zip(batch["id"].tolist(), batch["features"], strict=True)
                given = [{"id": number, "features": row} for number, row in pairs]
            start = time.perf_counter()
            writer.extend(given)
            seconds += time.perf_counter() - start
        start = time.perf_counter()
    return seconds + time.perf_counter() - start


def check(store: Any, count: int) -> None:
    """Every sample of the last part."""
    dataset = cw.open(store)
    at = (count - 1) // CHUNK * CHUNK
    expected = columns(at, count - at)
    found = dataset[list(range(at, count))]
    if len(dataset) != count or not all(np.array_equal(np.asarray(found[name]), expected[name]) for name in expected):
        raise MismatchError("tiny samples: what was written is not what is read")
