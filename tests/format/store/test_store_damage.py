"""Damage anywhere in any file of a store: the very same samples, or an error that says what is lost; nothing else.

Every single byte of small stores, every length, every file: by the package and by the plain reader.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cordwood
from cordwood.errors import FormatError, StorageError, UsageError
from tests.format.store.craft_store import SHARD, Folder
from tests.format.store.store_damage import (
    Changes,
    Damage,
    Damaged,
    additions,
    bytes_set,
    exchanges,
    flips,
    folder_of,
    holes,
    removals,
    truncations,
)
from tests.format.store.store_readers import as_torch, native_checksums, plain, read_cordwood
from tests.format.support.readers import ROOT
from tests.store.support.samples import assert_same_sample

GOLDEN_DIR = ROOT / "tests" / "golden" / "store"
STORES = {name: folder_of(GOLDEN_DIR / f"{name}.cordwood") for name in ("example", "labelled-small", "optional")}
FIRST = SHARD.format(0)
pytestmark = pytest.mark.filterwarnings("ignore:.*the index was made again in memory")
REFUSED = "refused at once"


def assert_all_the_same(expected: list[Any], found: list[Any]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(expected, found, strict=True):
        assert_same_sample(one, other)


class CordwoodOutcome:
    """What the package makes of a damaged store."""

    def __init__(self, path: Path, expected: list[Any]) -> None:
        self.path, self.expected = path, expected

    def of(self, changes: Changes) -> list[str]:
        """What was lost: a word for the whole store, or the message for each sample."""
        try:
            dataset = cordwood.open(self.path)
        except UsageError as error:
            assert changes.get("store.json", b"") is None, error  # without it this is no store
            return [REFUSED]
        except (FormatError, StorageError) as error:
            assert str(self.path) in str(error)
            return [REFUSED]
        assert len(dataset) == len(self.expected)
        lost = []
        for number, expected in enumerate(self.expected):
            try:
                found = dataset[number]
            except FormatError as error:
                assert str(self.path) in str(error)
                lost.append(str(error))
            else:
                assert_same_sample(expected, found)
        self.check_together(lost)
        return lost

    def check_together(self, lost: list[str]) -> None:
        """All samples by one call, which is another way through the reader."""
        dataset = cordwood.open(self.path)
        try:
            found = dataset.__getitems__(list(range(len(dataset))))
        except FormatError:
            assert lost
        else:
            assert not lost
            assert_all_the_same(self.expected, found)


class PlainOutcome:
    """What the reader of the docs makes of it."""

    def __init__(self, path: Path, expected: list[Any]) -> None:
        self.path, self.expected = path, expected

    def of(self, changes: Changes) -> list[str]:
        try:
            store = plain.Store(self.path)
        except plain.BadStore:
            return [REFUSED]
        assert len(store) == len(self.expected)
        lost = []
        for number, expected in enumerate(self.expected):
            try:
                found = as_torch(store[number])
            except plain.BadStore as error:
                lost.append(str(error))
            else:
                assert_same_sample(expected, found)
        return lost


OUTCOMES: dict[str, Any] = {"cordwood": CordwoodOutcome, "plain": PlainOutcome}


def run(store: str, damage: Callable[[Folder], Damage], path: Path, reader: str) -> Counter[tuple[str, bool]]:
    """Every damage of a kind; how often each file was damaged, and whether something was lost."""
    damaged = Damaged(STORES[store], path)
    outcome = OUTCOMES[reader](path, read_cordwood(path))
    counts: Counter[tuple[str, bool]] = Counter()
    with native_checksums():
        assert outcome.of({}) == []
        for what, changes in damage(STORES[store]):
            with damaged.by(changes):
                try:
                    lost = outcome.of(changes)
                except BaseException as error:
                    error.add_note(what)
                    raise
            counts[next(iter(changes)), bool(lost)] += 1
        assert outcome.of({}) == []
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("reader", OUTCOMES)
@pytest.mark.parametrize("damage", [flips, bytes_set, truncations, holes], ids=lambda damage: damage.__name__)
def test_every_byte_of_a_small_store(damage: Callable[[Folder], Damage], reader: str, tmp_path: Path) -> None:
    counts = run("example", damage, tmp_path, reader)
    assert counts["store.json", True]
    assert counts["shards.bin", False]
    assert not counts["shards.bin", True]  # it can be made again
    assert counts[FIRST, True] > 50


@pytest.mark.slow
@pytest.mark.parametrize("reader", OUTCOMES)
@pytest.mark.parametrize("store", ["labelled-small", "optional"])
@pytest.mark.parametrize("damage", [flips, truncations], ids=lambda damage: damage.__name__)
def test_places_in_larger_stores(
    store: str, damage: Callable[[Folder, int], Damage], reader: str, tmp_path: Path
) -> None:
    counts = run(store, lambda folder: damage(folder, 23), tmp_path, reader)
    assert not counts["shards.bin", True]
    assert counts[FIRST, True] > 10


@pytest.mark.parametrize("reader", OUTCOMES)
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("damage", [removals, additions, exchanges], ids=lambda damage: damage.__name__)
def test_whole_files(damage: Callable[[Folder], Damage], store: str, reader: str, tmp_path: Path) -> None:
    counts = run(store, damage, tmp_path, reader)
    assert sum(count for (_, lost), count in counts.items() if lost)


@pytest.mark.parametrize("store", STORES)
def test_every_part_of_a_shard_counts_but_the_footer(store: str, tmp_path: Path) -> None:
    """Where a flipped bit is, there something is lost, and the message names what."""
    folder = STORES[store]
    damaged = Damaged(folder, tmp_path)
    outcome = CordwoodOutcome(tmp_path, read_cordwood(tmp_path))
    parts = parts_of_shard(folder[FIRST])
    for name, (start, end) in parts.items():
        for at in range(start, end, 1 + (end - start) // 40):
            flipped = bytearray(folder[FIRST])
            flipped[at] ^= 16
            with damaged.by({FIRST: bytes(flipped)}):
                lost = outcome.of({})
            if name == "footer":
                assert not lost
            else:
                assert lost, f"{name}, byte {at}"
                assert all(FIRST in message for message in lost)
            if name in ("frames", "rows"):
                assert len(lost) == 1  # the other samples are read
                assert " sample " in lost[0]


def parts_of_shard(data: bytes) -> dict[str, tuple[int, int]]:
    """Where each part begins and ends, as the trailer tells."""
    fields = plain.struct.unpack("<QQIIIIQ4xI", data[-48:])
    rows_at, footer_at = fields[0], fields[0] + fields[1] * fields[2]
    table_at = data.rfind(b"CWST", 0, rows_at)
    return {
        "header": (0, 32),
        "frames": (32, table_at),
        "table": (table_at, rows_at),
        "rows": (rows_at, footer_at),
        "footer": (footer_at, len(data) - 48),
        "trailer": (len(data) - 48, len(data)),
    }


def test_a_damaged_plan_costs_what_needs_it(tmp_path: Path) -> None:
    folder = STORES["labelled-small"]
    needed = 0
    for name in [name for name in folder if name.startswith("plans/")]:
        damaged = Damaged(folder, tmp_path)
        outcome = CordwoodOutcome(tmp_path, read_cordwood(tmp_path))
        for data in (None, folder[name][:-1], folder[name].replace(b'"small"', b'"smell"')):
            with damaged.by({name: data}):
                lost = outcome.of({})
            assert all(name in message for message in lost)
            needed += bool(lost)
    assert needed
