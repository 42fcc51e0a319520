"""Packs a case into a store that is looked at and removed again.

packed_bytes(case, folder)                  # of the whole store
predicted_bytes(case, folder)               # what `limit=200` says before
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import cordwood as cw
from benchmarks.data.samples import nbytes
from benchmarks.harness.timing import MismatchError
from benchmarks.plans.orders import Case
from cordwood.codecs import Goal

LIMIT = 200
LOOKED_AT = 25  # every so many samples of a store are compared with the source


@contextmanager
def packed(case: Case, folder: Path, goal: Goal = "balanced") -> Iterator[Path]:
    """The store of all samples, compared with them, and removed in the end."""
    place = Path(tempfile.mkdtemp(dir=folder))
    try:
        store = place / "samples.cordwood"
        cw.pack(case, store, goal=goal, workers=0, progress=False)
        check(case, store)
        yield store
    finally:
        shutil.rmtree(place)


def packed_bytes(case: Case, folder: Path, goal: Goal = "balanced") -> int:
    """Bytes of all files of the store."""
    with packed(case, folder, goal) as store:
        return nbytes(store)


def predicted_bytes(case: Case, folder: Path) -> int:
    """What packing says that it would write, before it does."""
    predicted = cw.pack(case, folder / "never.cordwood", limit=LIMIT, workers=0, progress=False).all_bytes
    if predicted is None:
        raise MismatchError(f"{case.name}: no bytes were predicted")
    return predicted


def check(case: Case, store: Path) -> None:
    """The store gives the samples back: some of them, the first and the last among these."""
    dataset = cw.open(store)
    if len(dataset) != len(case):
        raise MismatchError(f"{case.name}: {len(case)} samples were packed, and {len(dataset)} are there")
    for number in {*range(0, len(case), LOOKED_AT), len(case) - 1}:
        found, expected = dataset[number]["value"], case.rows[number]
        if isinstance(expected, str):
            same = found == expected
        else:
            array = np.asarray(found)
            same = array.dtype == expected.dtype and np.array_equal(array, expected, equal_nan=array.dtype.kind == "f")
        if not same:
            raise MismatchError(f"{case.name}: sample {number} is not what was packed")
