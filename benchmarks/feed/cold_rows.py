"""Photographs that are not in the page cache: every byte of an epoch comes from the disk."""

import ctypes
import mmap
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from benchmarks.data.samples import counts, photographs
from benchmarks.data.tensors import forgotten, scratch
from benchmarks.feed.ours import NORMALIZE, Fed
from benchmarks.feed.turns import take_turns
from benchmarks.harness.outcome import Outcome, Settings
from benchmarks.harness.timing import Spread, UnavailableError
from benchmarks.store.contest import Contest, Packer
from benchmarks.store.rivals.entrants import FFCV_FROM_DISK, TENSORDICT, WEBDATASET, Rival, installed
from benchmarks.store.write_rows import repeated

TITLE = "Photographs that the page cache does not hold"
AGAINST: dict[str, Rival] = {"ffcv": FFCV_FROM_DISK, "tensordict": TENSORDICT}
KEYS = tuple(f"feed-cold-{what}-{word}" for what in ("speed", "read") for word in AGAINST)
BATCH = 64
MAPPED = {"memory": "mmap"}  # not kept in memory from one epoch to the next
OURS = (Fed("balanced", "float32", MAPPED), Fed("balanced", "uint8", NORMALIZE | MAPPED))


def measure(settings: Settings) -> Outcome:
    """Speeds, and bytes that the disk delivered."""
    samples = repeated(photographs(settings), counts(settings).packed)
    rivals, missing = installed((*AGAINST.values(), WEBDATASET))
    names = [one.name for one in OURS]
    with scratch(settings) as folder:
        contest = Contest(folder, BATCH)
        contenders: list[Packer] = [*OURS, Fed("raw", "uint8", NORMALIZE | MAPPED), *rivals]
        for contender in contenders:
            contest.enter(contender, samples)
        contest.check(samples)
        files = [path for path in folder.rglob("*") if path.is_file()]
        turns = take_turns(settings, contest.epochs, partial(let_go, files))
    title = f"Shuffled batches of {BATCH} photographs as normalised float32, {len(samples):,} of them, from the disk"
    table = turns.table(title, contest.sizes, names)
    table.columns.append(("bytes read a sample", "bytes"))
    for row in table.rows:
        row.append(Spread.of(turns.read[str(row[0])]))
    table.notes += [
        "Before every epoch, off the clock, all pages of all files are dropped from the page cache. The cache has no "
        "limit meanwhile: what a reader fetches beyond its need is still there when its turn comes, which in a memory "
        "smaller than the data it would not be.",
        "FFCV's quasi-random order is the one that it recommends for data larger than memory; it shuffles within a few "
        "pages of the file at a time, and WebDataset, which reads files from one end to the other, within a thousand "
        "samples. The goals are judged by the faster of FFCV's rows and by the slower of ours.",
        *(f"Not measured: {line}" for line in missing.values()),
    ]
    outcome = Outcome([table])
    for word, rival in AGAINST.items():
        speed, read = f"feed-cold-speed-{word}", f"feed-cold-read-{word}"
        if rival not in rivals:
            outcome.reasons |= dict.fromkeys((speed, read), missing[rival.name])
            continue
        outcome.measured[speed] = contest.ratio(turns.seconds, rival.name, names)
        if not all(all(turns.read[name]) for name in names):
            outcome.reasons[read] = "the cache is not one of a disk: files were read, and no disk had to deliver them"
        else:
            outcome.measured[read] = contest.ratio(turns.read, rival.name, names)
    return outcome


def let_go(files: Iterable[Path]) -> None:
    """Drop the files from the page cache, also those that this process has mapped."""
    files = list(files)
    unmap_pages(files)
    forgotten(files)


def unmap_pages(files: Iterable[Path]) -> None:
    """Take the pages of these files out of the process's tables: they stay mapped, and come again when looked at."""
    if not Path("/proc/self/maps").exists():
        raise UnavailableError("this system does not tell what a process has mapped")
    wanted = {str(file.resolve()) for file in files}
    advise = ctypes.CDLL(None, use_errno=True).madvise
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, *_, path = line.split(maxsplit=5)
        if path in wanted:
            start, end = (int(place, 16) for place in span.split("-"))
            if advise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED):
                raise OSError(ctypes.get_errno(), f"the pages of {path} cannot be let go")
