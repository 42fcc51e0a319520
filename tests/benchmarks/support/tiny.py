"""Benchmarks on tiny data: made-up photographs and text, rivals that are NumPy files, and what a part must give."""

from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from benchmarks.data import samples
from benchmarks.data.photographs import Photographs
from benchmarks.data.samples import Counts, Epoch, Samples, nbytes
from benchmarks.harness.outcome import Outcome, Settings
from benchmarks.harness.packages import PackageCache
from benchmarks.harness.timing import UnavailableError
from benchmarks.store.rivals.entrants import FFCV, HDF5, LITDATA, LMDB, TENSORDICT, WEBDATASET, Rival
from benchmarks.store.rivals.indexed import NumpyFile, OneFileEach

TINY = Counts(
    photographs=5, images=40, tokens=30, files=10, packed=7, singles=3, reads=64, watched_photographs=4
)  # fmt: skip


def tiny_settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Tiny sizes, no worker processes: nothing is downloaded, and nobody waits for the disk."""

    def made_up(cache: PackageCache, count: int) -> Photographs:
        ramp = np.arange(224 * 224 * 3).reshape(224, 224, 3)
        return Photographs([(ramp // (i + 50)).astype(np.uint8) for i in range(count)], ["ramp"] * count, [])

    monkeypatch.setattr("os.sync", lambda: None)
    monkeypatch.setattr(samples, "QUICK", TINY)
    monkeypatch.setattr(samples, "load_photographs", made_up)
    monkeypatch.setattr(samples, "token_ids", lambda cache: (np.arange(2000) % 777, "made up"))
    monkeypatch.setattr(OneFileEach, "workers", (0,))
    return Settings(True, PackageCache(folder), 2, 0.0, 2, None, 0, 0, 0, 0)


class Copies(NumpyFile):
    """A rival that is there: a NumPy file that bears its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def optimize(self, samples: Samples, folder: Path, *, ordered: bool) -> None:
        self.pack(samples, folder)

    def bytes_of_many(self, samples: Samples, folder: Path) -> float:
        place = folder / "many"
        place.mkdir()
        self.pack(samples, place)
        return nbytes(place) / len(samples)

    def epochs(self, samples: Samples, folder: Path, batch: int) -> list[Epoch]:
        (one,) = super().epochs(samples, folder, batch)
        return [Epoch(f"{self.name}, {word}", one.start, one.count) for word in ("fast", "slow")]


def copies_of(modules: Iterable[ModuleType], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Copies in the place of all rivals that have to be installed, wherever these modules name them."""
    installed: dict[str, Rival] = {
        "FFCV": FFCV,
        "LITDATA": LITDATA,
        "LMDB": LMDB,
        "TENSORDICT": TENSORDICT,
        "HDF5": HDF5,
        "WEBDATASET": WEBDATASET,
    }
    copies: dict[str, Any] = {word: Copies(rival.name) for word, rival in installed.items()}
    copies |= {"FFCV_BYTES": copies["FFCV"], "FFCV_FROM_DISK": copies["FFCV"], "FFCV_ARRAYS": copies["FFCV"]}
    for module in modules:
        for word in copies.keys() & vars(module).keys():
            monkeypatch.setattr(module, word, copies[word])
    return copies


def hide_rivals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what torch and NumPy themselves do is left."""

    def missing(self: object) -> None:
        raise UnavailableError("not here")

    for rival in (FFCV, LITDATA, LMDB, TENSORDICT, HDF5, WEBDATASET):
        monkeypatch.setattr(type(rival), "available", missing)


def rows_of(outcome: Outcome, table: int = 0) -> dict[str, list[Any]]:
    return {str(row[0]): row[1:] for row in outcome.tables[table].rows}


def measured(part: ModuleType, settings: Settings) -> Outcome:
    """Runs a part; every goal has a figure or a reason, and no file is left behind."""
    outcome: Outcome = part.measure(settings)
    assert set(outcome.measured) | set(outcome.reasons) == set(part.KEYS)
    assert not set(outcome.measured) & set(outcome.reasons)
    assert list(settings.cache.folder.iterdir()) == []
    return outcome
