"""Every number of "A reader must reject": the plain reader gives that very number, the package a FormatError."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood
from cordwood.errors import FormatError, StorageError, UsageError
from cordwood.store.format.shard_file import read_ends, read_footer
from tests.format.store.bad_store_json import Bad
from tests.format.store.bad_stores import BAD, BAD_FOOTERS, FIRST, allowed_stores, samples_of_good
from tests.format.store.craft_store import ROWS, CraftedStore, body, good_store, one_shard, write
from tests.format.store.store_readers import PAGE, READERS, REFUSALS, plain

ALLOWED = allowed_stores()
# Files that are not there: without store.json there is no store, for another the system's word is as good.
MISSING: dict[int, Any] = {1: UsageError, 10: StorageError}


def test_every_number_of_the_page_has_a_case() -> None:
    listed = PAGE.read_text(encoding="utf-8").split("## A reader must reject")[1].split("\n## ")[0]
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", listed, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    by_hand = {25}  # test_the_limit_is_the_callers
    assert {bad.number for bad in (*BAD, *BAD_FOOTERS)} | by_hand == set(numbers)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("bad", BAD, ids=[f"{bad.number}: {bad.label}" for bad in BAD])
def test_rejects(bad: Bad, reader: str, tmp_path: Path) -> None:
    with pytest.raises((REFUSALS[reader], MISSING.get(bad.number, FormatError))) as caught:
        READERS[reader](write(bad.folder, tmp_path))
    if reader == "plain":
        assert caught.value.number == bad.number
    else:
        assert str(tmp_path) in str(caught.value)  # where it is


def plainly(value: Any) -> Any:
    """Tensors as lists."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return {key: plainly(item) for key, item in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ALLOWED)
def test_reads_all_else(name: str, reader: str, tmp_path: Path) -> None:
    found = READERS[reader](write(ALLOWED[name], tmp_path))
    assert [plainly(sample) for sample in found] == samples_of_good()
    assert found[0]["x"].dtype == torch.float32


@pytest.mark.parametrize("bad", BAD_FOOTERS, ids=[bad.label for bad in BAD_FOOTERS])
def test_a_bad_footer_costs_no_sample(bad: Bad, tmp_path: Path) -> None:
    write(bad.folder, tmp_path)
    for read in READERS.values():
        assert [plainly(sample) for sample in read(tmp_path)] == samples_of_good()
    with pytest.raises(plain.BadStore) as caught:
        plain.Store(tmp_path).shard(0).footer()
    assert caught.value.number == 26
    with pytest.raises(FormatError, match="footer"):
        read_footer(tmp_path / FIRST, read_ends(tmp_path / FIRST))


def test_a_good_footer_is_read(tmp_path: Path) -> None:
    write(good_store(), tmp_path)
    assert plain.Store(tmp_path).shard(0).footer() == {"fields": [], "plans": []}


def test_the_limit_is_the_callers(tmp_path: Path) -> None:
    write(one_shard(ROWS[0]), tmp_path)
    assert plain.Store(tmp_path, limit=16)[0]["n"] == 1
    with pytest.raises(plain.BadStore) as caught:
        plain.Store(tmp_path, limit=15)[0]
    assert caught.value.number == 25


@pytest.mark.parametrize("name", ["store.json", "shards.bin", FIRST])
@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_regular_file_is_not_read(name: str, kind: str, tmp_path: Path) -> None:
    write(good_store(), tmp_path)
    (tmp_path / name).unlink()
    if kind == "folder":
        (tmp_path / name).mkdir()
    else:
        os.mkfifo(tmp_path / name)
    for reader, read in READERS.items():
        try:
            found = read(tmp_path)
        except (REFUSALS[reader], StorageError):
            continue
        assert name == "shards.bin"  # which can be made again
        assert [plainly(sample) for sample in found] == samples_of_good()


@pytest.mark.parametrize("schema", [None, {"kind": "dict", "keys": [], "items": []}])
def test_a_store_without_shards_is_empty(schema: Any, tmp_path: Path) -> None:
    write(CraftedStore(body(schema, []), []).folder(), tmp_path)
    for read in READERS.values():
        assert read(tmp_path) == []


def test_good_samples_of_a_damaged_shard_are_read(tmp_path: Path) -> None:
    damaged = bytearray(good_store()[FIRST])
    damaged[60] ^= 1  # in the first frame
    write(good_store() | {FIRST: bytes(damaged)}, tmp_path)
    dataset, store = cordwood.open(tmp_path), plain.Store(tmp_path)
    for number in (1, 2):
        assert plainly(dataset[number]) == samples_of_good()[number]
        assert store[number]["t"] == samples_of_good()[number]["t"]
    with pytest.raises(FormatError, match=r"sample 0 .*field 'x'"):
        dataset[0]
    with pytest.raises(plain.BadStore):
        store[0]
    assert dataset.select("n", "t")[0] == (1, "one")
