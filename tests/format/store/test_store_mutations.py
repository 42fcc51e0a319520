"""Damaged stores: FormatError and nothing else, and the two readers agree on which are still good.

Most of the damage gets past the checksums (see mutate_store.py), so that what lies behind them is tested too.
"""

from collections import Counter
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from cordwood.errors import FormatError
from tests.format.store.craft_store import write
from tests.format.store.mutate_store import StoreMutator
from tests.format.store.store_readers import native_checksums, plain, read_cordwood, read_plain
from tests.store.support.samples import assert_same_sample


def answer(read: Any, path: Path, refusal: type[Exception]) -> list[Any] | None:
    """The samples, or None if they are refused. Any other exception fails the test."""
    try:
        samples: list[Any] = read(path)
    except refusal:
        return None
    return samples


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_damaged_stores(seed: int, tmp_path: Path) -> None:
    mutator = StoreMutator(seed)
    counts: Counter[tuple[str, bool]] = Counter()
    with native_checksums():
        for case in range(250):
            what, folder = mutator.mutate()
            path = write(folder, tmp_path / str(case))
            found, expected = answer(read_cordwood, path, FormatError), answer(read_plain, path, plain.BadStore)
            assert (found is None) == (expected is None), f"{what}, case {case}: {found} and {expected}"
            if found is not None and expected is not None:
                assert_same_sample(expected, found)
            counts[what, found is not None] += 1
            rmtree(path)
    for what, _ in list(counts):
        assert counts[what, False] > 2  # damage must neither be harmless nor all caught by one early check
    assert sum(counts[what, True] for what in ("shard", "index", "value")) > 10
