"""Feeds damaged stores to the reader, for a stated time: run by ``make fuzz``.

    python fuzz/fuzz_store.py --seconds 60 --seed 1

Every input is a folder that is on disk before it is used: after a crash, or anything but success and a FormatError,
the folder named at the start holds the store that did it. Damage that leaves checksums as they were must not change a
sample: what is still read is compared.
"""

import faulthandler
import shutil
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import cordwood
from cordwood.errors import FormatError, StorageError
from fuzz.kept_input import HANG, main
from tests.format.store.craft_store import Folder, write
from tests.format.store.mutate_store import StoreMutator
from tests.format.store.store_damage import folder_of
from tests.format.store.store_readers import some_of
from tests.format.support.readers import ROOT
from tests.store.support.samples import assert_same_sample

GOLDEN_DIR = ROOT / "tests" / "golden" / "store"


def feed(path: Path, good: list[Any] | None = None) -> str:
    """What came of a store: "read", or the kind of refusal. Samples that are read must be those of `good`."""
    try:
        dataset = cordwood.open(path)
    except (FormatError, StorageError):
        return "refused at once"
    refused = 0
    numbers = some_of(len(dataset))
    for number in numbers:
        try:
            found = dataset[number]
        except FormatError:
            refused += 1
            continue
        if good is not None:
            assert_same_sample(good[number], found)
    try:
        dataset.__getitems__(numbers)
    except FormatError:
        return "samples refused"
    if refused:
        raise AssertionError("samples that are refused one by one are read together")
    return "read"


class Inputs:
    """Golden stores with damage that checksums must find, and crafted ones with damage that they do not."""

    def __init__(self, seed: int) -> None:
        self.mutator = StoreMutator(seed)
        self.random = self.mutator.random
        folders = sorted(GOLDEN_DIR.glob("*.cordwood"))
        self.golden = [(folder_of(folder), list(cordwood.open(folder))) for folder in folders]

    def next(self) -> tuple[str, Folder, list[Any] | None]:
        """What was damaged, the store, and the samples that it may hold."""
        if self.random.random() < 0.5:
            return (*self.mutator.mutate(), None)
        folder, samples = self.random.choice(self.golden)
        made = dict(folder)
        for _ in range(self.random.choice((1, 1, 1, 2, 4))):
            name = self.random.choice(list(made))
            if self.random.random() < 0.1 and name != "store.json":
                del made[name]
            else:
                made[name] = self.mutator.damage(made[name])
        return "golden", made, samples


def run(seconds: float, seed: int, last: Path) -> tuple[int, Counter[str]]:
    """Cases, and what they came to."""
    inputs = Inputs(seed)
    counts: Counter[str] = Counter()
    start, cases = time.monotonic(), 0
    while time.monotonic() - start < seconds:
        if cases % 100 == 0:
            faulthandler.dump_traceback_later(HANG, exit=True)
        what, folder, good = inputs.next()
        shutil.rmtree(last, ignore_errors=True)
        write(folder, last)
        counts[f"{what}: {feed(last, good)}"] += 1
        cases += 1
    faulthandler.cancel_dump_traceback_later()
    return cases, counts


if __name__ == "__main__":
    main(__doc__, "last.cordwood", run, feed)
