"""The other ways to preprocess a folder once: LitData's `optimize`, and loops with torch.save.

Each is told by a function that writes the samples of all entries into an empty folder. They run the very transform that
`pack` runs, and store the same samples.
"""

import multiprocessing
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness.packages import need
from benchmarks.harness.timing import MismatchError
from benchmarks.pack.data import Entry, Preparing

WORKERS = 2

Write = Callable[[Sequence[Entry], Path], None]


def saved(preparing: Preparing, folder: Path, entry: Entry) -> None:
    """One sample to a file that bears its name."""
    target = folder / f"{entry.name.removesuffix('.jpg')}.pt"
    torch.save(preparing(entry), target)


def plain_loop(preparing: Preparing, entries: Sequence[Entry], folder: Path) -> None:
    """What people write first: one process, one file after the other."""
    make_class_folders(entries, folder)
    for entry in entries:
        saved(preparing, folder, entry)


def pool_loop(preparing: Preparing, entries: Sequence[Entry], folder: Path) -> None:
    """The same by two forked processes.

    Each has one thread: torch's threads do not survive a fork, and who asks for them there waits for ever.
    """
    make_class_folders(entries, folder)
    with multiprocessing.get_context("fork").Pool(WORKERS, torch.set_num_threads, (1,)) as pool:
        for _ in pool.imap_unordered(partial(saved, preparing, folder), entries, chunksize=8):
            pass


def make_class_folders(entries: Sequence[Entry], folder: Path) -> None:
    for name in {entry.name.partition("/")[0] for entry in entries}:
        (folder / name).mkdir()


def require_files(entries: Sequence[Entry], folder: Path, expected: Callable[[Entry], dict[str, Any]]) -> None:
    """Every entry has a file, and some of them are looked at."""
    for number, entry in enumerate(entries):
        file = folder / f"{entry.name.removesuffix('.jpg')}.pt"
        if not file.is_file():
            raise MismatchError(f"{entry.name}: no .pt file was written for it")
        if number % 50 == 0:
            require_sample(torch.load(file), expected(entry), entry.name)


def require_chunks(entries: Sequence[Entry], folder: Path, expected: Callable[[Entry], dict[str, Any]]) -> None:
    """LitData's chunks have every entry once, and some of them are looked at."""
    litdata = need("litdata")
    by_name = {entry.name: entry for entry in entries}
    dataset = litdata.StreamingDataset(str(folder))
    if len(dataset) != len(entries):
        raise MismatchError(f"LitData wrote {len(dataset)} samples of {len(entries)}")
    for number in range(0, len(dataset), 50):
        found = dataset[number]
        require_sample(found, expected(by_name[found["path"]]), found["path"])


def require_sample(found: dict[str, Any], expected: dict[str, Any], what: str) -> None:
    """The same bits in the image, the same label and the same name."""
    same = torch.equal(found["image"], expected["image"])
    if not same or (int(found["label"]), found["path"]) != (expected["label"], expected["path"]):
        raise MismatchError(f"{what}: not what the transform gives")
