"""Batches of small samples on one thread, against python-zstandard called for each sample."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import cordwood as cw
from benchmarks.data.rivals import threads
from benchmarks.data.synthetic import boxes, digits, json_texts
from benchmarks.data.tensors import scratch
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.packages import need
from benchmarks.harness.timing import Contender, Spread, interleave, ratio
from benchmarks.plans.orders import Case, token_rows
from benchmarks.plans.packing import packed
from benchmarks.plans.text_rows import as_bytes, dictionary, zstd_frames

TITLE = "Decoding small samples, batches of 256, one thread"
KEYS = ("plans-small-decode",)
BATCH = 256
BATCHES = 8  # in a turn
MOST_ROUNDS = 9
QUICK_COUNT = 2048
SEED = 20260109


def measure(settings: Settings) -> Outcome:
    """Random batches from the page cache; the slowest kind counts."""
    table = Table(
        TITLE,
        [("samples", "text"), ("balanced", "rate"), ("zstd for each sample", "rate"), ("speed, of zstd's", "ratio"),
         ("balanced, bytes a sample", "bytes"), ("zstd, bytes a sample", "bytes")],
    )  # fmt: skip
    table.columns = [(name, "count" if kind == "rate" else kind) for name, kind in table.columns]
    count = QUICK_COUNT if settings.quick else 8192
    slowest: Spread | None = None
    with scratch(settings) as folder, threads(1):
        for name, rows in kinds(settings, count).items():
            with packed(Case(name, rows), folder) as store:
                size = sum(path.stat().st_size for path in store.rglob("*") if path.is_file()) / count
                values = cw.open(store, threads=1)
                chance = np.random.default_rng(SEED)
                order = chance.permutation(count)[: BATCH * BATCHES].reshape(-1, BATCH)
                samples = list(map(as_bytes, rows))
                frames = zstd_frames(samples)
                decompressor = need("zstandard").ZstdDecompressor(dict_data=dictionary(samples))
                done = order.size
                times = interleave(
                    [
                        Contender("ours", partial(read_ours, values, [batch.tolist() for batch in order]), done),
                        Contender("zstd", partial(read_zstd, decompressor, frames, order.tolist()), done),
                    ],
                    min(settings.rounds, MOST_ROUNDS),
                    least_seconds=settings.least_seconds,
                )
                del values
            speed = ratio(times["zstd"], times["ours"])
            rates = [Spread.of([1 / seconds for seconds in times[who]]) for who in ("ours", "zstd")]
            table.add(name, *rates, speed, size, sum(map(len, frames)) / count)
            slowest = speed if slowest is None or speed.median < slowest.median else slowest
    assert slowest is not None
    table.notes.append(
        "Samples per second. Ours gives tensors or strings from the store's files, in the page cache; Zstandard (level "
        "3, a dictionary of 16,384 bytes) gives bytes from frames in a list in memory."
    )
    return Outcome([table], {"plans-small-decode": slowest})


def kinds(settings: Settings, count: int) -> dict[str, Sequence[Any]]:
    """Samples by their name."""
    chance = np.random.default_rng(SEED)
    tokens = token_rows(settings.cache, count, 64)
    floats: npt.NDArray[np.float32] = chance.standard_normal((count, 100), dtype=np.float32)
    return {
        "28x28 uint8": list(digits(count, SEED)),
        "100 float32": list(floats),
        "64 int32 tokens": [row.astype(np.int32) for row in tokens],
        "boxes, [N, 4] float32": boxes(count, SEED),
        "JSON strings": json_texts(count, SEED),
    }


def read_ours(values: cw.Dataset, batches: Sequence[list[int]]) -> None:
    for batch in batches:
        values[batch]


def read_zstd(decompressor: Any, frames: Sequence[bytes], batches: Sequence[Sequence[int]]) -> None:
    for batch in batches:
        _ = [decompressor.decompress(frames[number]) for number in batch]
