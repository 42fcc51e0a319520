"""Photographs in shuffled epochs of batches of 64: as normalised float32, and as uint8."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.data.samples import Epoch, Samples, photographs, random_batches
from benchmarks.data.tensors import scratch
from benchmarks.feed.ours import NORMALIZE, Fed, as_bytes
from benchmarks.feed.turns import take_turns
from benchmarks.harness.outcome import Outcome, Settings
from benchmarks.harness.timing import Spread
from benchmarks.store.contest import Contest
from benchmarks.store.ours import THREADS
from benchmarks.store.rivals.entrants import (
    FEW,
    FFCV,
    FFCV_BYTES,
    FILES,
    HDF5,
    LITDATA,
    LMDB,
    TENSORDICT,
    WEBDATASET,
    ZIPPED,
    Rival,
    installed,
)
from benchmarks.store.rivals.ffcv import LONG_EPOCH
from benchmarks.store.rivals.indexed import each_batch

TITLE = "Photographs from the Loader"
AGAINST: dict[str, Rival] = {
    "ffcv": FFCV,
    "litdata": LITDATA,
    "tensordict": TENSORDICT,
    "files": FILES,
    "zipped": ZIPPED,
}
KEYS = (
    *(f"feed-balanced-{word}" for word in AGAINST),
    "feed-balanced-bytes",
    "feed-raw-floats",
    "feed-raw-bytes",
)
BATCH = 64

BALANCED = (Fed("balanced", "float32"), Fed("balanced", "uint8", NORMALIZE))
RAW = Fed("raw", "uint8", NORMALIZE)
FLOATS = (
    *BALANCED,
    RAW,
    Fed("raw", "uint8", NORMALIZE | {"channels_last": True}),
    Fed("raw", "float32"),
)
BYTES = (Fed("raw", "uint8"), Fed("balanced", "uint8"))
COPIED = "memory to memory"


def measure(settings: Settings) -> Outcome:
    """A table for each kind of batch."""
    samples = photographs(settings)
    with scratch(settings) as folder:
        theirs = FFCV.bytes_of_many(samples, folder) if installed((FFCV,))[0] else 0.0
    with scratch(settings) as folder:
        outcome = measure_floats(settings, samples, folder, theirs)
    with scratch(settings) as folder:
        outcome.absorb(measure_bytes(settings, as_bytes(samples), folder, theirs))
    return outcome


def entered(ours: Sequence[Fed], rivals: Sequence[Rival], samples: Samples, folder: Path, theirs: float) -> Contest:
    """All of them with the samples, the slowest with a few; epochs of ours as long as FFCV's, whose size is known."""
    contest = Contest(folder, BATCH)
    for fed in ours:
        contest.enter(replace(fed, least=LONG_EPOCH), samples)
    for contender in rivals:
        contest.enter(contender, samples.first(FEW) if contender is ZIPPED else samples)
        if contender in (FFCV, FFCV_BYTES):
            contest.sizes |= dict.fromkeys(contest.ways[contender.name], theirs)
    return contest


def measure_floats(settings: Settings, samples: Samples, folder: Path, theirs: float) -> Outcome:
    """Compressed stores against everybody; uncompressed uint8 against FFCV's."""
    rivals, missing = installed((*AGAINST.values(), LMDB, HDF5, WEBDATASET))
    contest = entered(FLOATS, rivals, samples, folder, theirs)
    contest.check(samples)
    turns = take_turns(settings, contest.epochs)
    balanced = [one.name for one in BALANCED]
    title = f"Shuffled batches of {BATCH} photographs as normalised float32, from the page cache"
    table = turns.table(title, contest.sizes, (*balanced, RAW.name))
    table.notes += [
        "The goals of `balanced` are judged by the slower of its rows: that which is stored as float32, and that "
        "which is stored as uint8 and normalised while it is decoded. Both arrive as the same bits.",
        "A rival is judged by the fastest of its rows in each round. FFCV stores uint8; everybody else float32. A "
        "batch of FFCV's is memory that it uses again a few batches later; ours is the caller's for good. Every frame "
        "of ours is verified by its checksum; of the others, only the zipped .pt are.",
        f"{ZIPPED.name}: {min(FEW, len(samples)):,} of the {len(samples):,} photographs.",
        *(f"Not measured: {line}" for line in missing.values()),
    ]
    outcome = Outcome([table])
    for word, rival in AGAINST.items():
        if rival in rivals:
            outcome.measured[f"feed-balanced-{word}"] = contest.ratio(turns.seconds, rival.name, balanced)
        else:
            outcome.reasons[f"feed-balanced-{word}"] = missing[rival.name]
    if FFCV in rivals:
        outcome.measured["feed-balanced-bytes"] = Spread.exact(max(contest.sizes[name] for name in balanced) / theirs)
        outcome.measured["feed-raw-floats"] = contest.ratio(turns.seconds, FFCV.name, [RAW.name])
    else:
        outcome.reasons |= dict.fromkeys(("feed-balanced-bytes", "feed-raw-floats"), missing[FFCV.name])
    return outcome


def measure_bytes(settings: Settings, samples: Samples, folder: Path, theirs: float) -> Outcome:
    """The usual choice with a GPU: pixels arrive as they are stored."""
    rivals, missing = installed((FFCV_BYTES,))
    contest = entered(BYTES, rivals, samples, folder, theirs)
    contest.epochs.append(copied(samples))
    contest.sizes[COPIED] = samples.rows[0].nbytes
    contest.check(samples)
    turns = take_turns(settings, contest.epochs)
    names = [one.name for one in BYTES]
    title = f"Shuffled batches of {BATCH} photographs as uint8, from the page cache"
    table = turns.table(title, contest.sizes, names)
    table.notes += [
        "Compression costs processor time, which the figure for one core shows; what it saves is bytes. Where a core "
        "is free and the disk, the network or the page cache is not large enough, `balanced` is the faster; where "
        "all is in the page cache and no core is free, `raw` is.",
        f"`{COPIED}` is what two cores copy: NumPy's take, from one array in memory into another, without labels, "
        "checksums or files.",
        *(f"Not measured: {line}" for line in missing.values()),
    ]
    outcome = Outcome([table])
    if FFCV_BYTES in rivals:
        outcome.measured["feed-raw-bytes"] = contest.ratio(turns.seconds, FFCV_BYTES.name, names[:1])
    else:
        outcome.reasons["feed-raw-bytes"] = missing[FFCV_BYTES.name]
    return outcome


def copied(samples: Samples) -> Epoch:
    """The least that there is to do: rows in memory, copied by two threads into memory that was used before."""
    batches = random_batches(len(samples), BATCH)
    rows = samples.rows.numpy()
    memory = np.zeros((BATCH, *rows.shape[1:]), rows.dtype)
    pool = ThreadPoolExecutor(THREADS)

    def copy(numbers: Sequence[int], out: npt.NDArray[Any]) -> None:
        rows.take(numbers, 0, out, mode="clip")  # the mode that needs no buffer; no number is outside

    def gather(numbers: list[int]) -> torch.Tensor:
        half = BATCH // 2
        list(pool.map(copy, (numbers[:half], numbers[half:]), (memory[:half], memory[half:])))
        return torch.from_numpy(memory)

    return Epoch(COPIED, partial(each_batch, gather, batches), len(batches) * BATCH)
