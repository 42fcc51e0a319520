"""Damaged stores: batches before the damage arrive, and then an error says what is damaged; or it is left out."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from cordwood import Loader
from cordwood.errors import FeedError, FormatError, UsageError
from tests.feed.support.leftovers import Leftovers
from tests.feed.support.numbered import batches_of, numbered, numbers_in
from tests.marks import slow_after
from tests.store.support.small_stores import cut, first_of, flip, frame_of, row_of, shard

COUNT, SHARD = 60, 1  # the shard that is damaged
BATCH = 4


def a_frame(path: Path) -> set[int]:
    flip(shard(path, SHARD), frame_of(path, SHARD, row=2, field="values")[30])
    return {first_of(path, SHARD) + 2}


def two_frames(path: Path) -> set[int]:
    for row in (0, 1):
        flip(shard(path, SHARD), frame_of(path, SHARD, row=row, field="values")[40])
    return {first_of(path, SHARD), first_of(path, SHARD) + 1}


def a_row(path: Path) -> set[int]:
    flip(shard(path, SHARD), row_of(path, SHARD, row=3)[-1])
    return {first_of(path, SHARD) + 3}


def all_of_a_shard(path: Path) -> set[int]:
    return set(range(first_of(path, SHARD), first_of(path, SHARD + 1)))


def a_missing_shard(path: Path) -> set[int]:
    bad = all_of_a_shard(path)
    shard(path, SHARD).unlink()
    return bad


def a_short_shard(path: Path) -> set[int]:
    bad = all_of_a_shard(path)
    cut(shard(path, SHARD), -20)
    return bad


KINDS = [a_frame, two_frames, a_row, a_missing_shard, a_short_shard]
Damage = Callable[[Path], set[int]]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> cw.Dataset:
    # Arrays of more than 256 bytes, which have frames.
    ds = numbered(tmp_path_factory.mktemp("good") / "s", COUNT, 40, shard_bytes=2000)
    assert len(all_of_a_shard(ds.path)) > BATCH
    return ds


def damaged(good: cw.Dataset, folder: Path, damage: Damage) -> tuple[cw.Dataset, set[int]]:
    """A damaged copy, and the numbers of the samples that cannot be read."""
    shutil.copytree(good.path, folder / "s")
    bad = damage(folder / "s")
    return cw.open(folder / "s"), bad


def same(sample: Any) -> Any:
    return sample


OPTIONS: dict[str, dict[str, Any]] = {
    "native": {},
    "many a call": {"prefetch": 32},
    "one thread": {"threads": 1, "prefetch": 1},
    "ram": {"memory": "ram"},
    "samples": {"sample_transform": same},
    "collate": {"collate": torch.utils.data.default_collate},
}


@pytest.mark.parametrize("options", slow_after(1, OPTIONS))
@pytest.mark.parametrize("damage", KINDS)
def test_batches_before_the_damage_arrive_and_then_the_error(
    good: cw.Dataset, tmp_path: Path, damage: Damage, options: str
) -> None:
    ds, bad = damaged(good, tmp_path, damage)
    before = Leftovers.now()
    loader = Loader(ds, BATCH, **OPTIONS[options])
    iterator = iter(loader)
    whole = min(bad) // BATCH
    for number in range(whole):
        assert numbers_in(next(iterator)) == list(range(number * BATCH, (number + 1) * BATCH))
    with pytest.raises(FormatError, match="shard-0000000") as caught:
        next(iterator)
    assert str(min(bad)) in str(caught.value)
    assert loader.state_dict()["consumed"] == whole * BATCH
    assert list(iterator) == []  # it does not go on behind the damage
    assert loader.state_dict()["consumed"] == whole * BATCH
    assert loader.stats().damaged == 0
    assert [name for name in Leftovers.now().threads if name != "cordwood-ram"] == list(before.threads)


def test_the_file_may_be_put_right_and_the_epoch_resumed(good: cw.Dataset, tmp_path: Path) -> None:
    ds, bad = damaged(good, tmp_path, a_frame)
    loader = Loader(ds, BATCH, shuffle=True)
    found: list[int] = []

    def read() -> None:
        for batch in loader:
            found.extend(numbers_in(batch))

    with pytest.raises(FormatError):
        read()
    assert not bad & set(found)
    shutil.copy(shard(good.path, SHARD), shard(ds.path, SHARD))
    loader = Loader(cw.open(ds.path), BATCH, shuffle=True)
    whole = [number for batch in batches_of(Loader(good, BATCH, shuffle=True)) for number in batch]
    state = {**loader.state_dict(), "consumed": len(found)}
    loader.load_state_dict(state)
    assert found + [number for batch in batches_of(loader) for number in batch] == whole


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("damage", KINDS)
def test_damaged_samples_are_left_out_logged_and_counted(
    good: cw.Dataset, tmp_path: Path, damage: Damage, options: str, caplog: pytest.LogCaptureFixture
) -> None:
    ds, bad = damaged(good, tmp_path, damage)
    loader = Loader(ds, BATCH, on_damage="skip", **OPTIONS[options])
    for _ in range(2):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "cordwood.feed"):
            found = batches_of(loader)
        expected = [
            [number for number in range(start, start + BATCH) if number not in bad] for start in range(0, COUNT, BATCH)
        ]
        assert found == [batch for batch in expected if batch]
        stats = loader.stats()
        assert (stats.damaged, stats.samples) == (len(bad), COUNT - len(bad))
        assert f"skipped {len(bad)} damaged" in str(stats)
        told = [record for record in caplog.records if "left out" in record.getMessage()]
        assert len(told) == len(bad)
        for number, record in zip(sorted(bad), told, strict=True):
            assert f"sample {number} is left out" in record.getMessage()
            assert "shard-0000000" in record.getMessage()
    assert loader.state_dict()["epoch"] == 2


@pytest.mark.parametrize("on_damage", ["skip", "raise"])
@pytest.mark.parametrize("damage", [a_frame, a_missing_shard])
def test_stores_that_are_larger_than_memory_are_no_different(
    good: cw.Dataset, tmp_path: Path, damage: Damage, on_damage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their samples are announced to the system before they are read, and that is not where damage is told."""
    ds, bad = damaged(good, tmp_path, damage)
    monkeypatch.setattr(ds.reader.shards, "is_sparse", True)
    loader = Loader(ds, BATCH, on_damage=on_damage, memory="mmap")
    found: list[int] = []
    try:
        for batch in loader:
            found += numbers_in(batch)
    except FormatError:
        assert on_damage == "raise"
        assert found == list(range(min(bad) // BATCH * BATCH))
    else:
        assert on_damage == "skip"
        assert found == [number for number in range(COUNT) if number not in bad]


def test_seeds_of_other_samples_do_not_change_when_one_is_left_out(good: cw.Dataset, tmp_path: Path) -> None:
    ds, bad = damaged(good, tmp_path, a_frame)

    def with_seed(sample: dict[str, Any], seed: int) -> dict[str, Any]:
        return {"number": sample["number"], "seed": seed % (1 << 62)}

    def drawn(dataset: cw.Dataset) -> dict[int, int]:
        found: dict[int, int] = {}
        for batch in Loader(dataset, BATCH, True, sample_transform=with_seed, on_damage="skip"):
            found.update(zip(batch["number"].tolist(), batch["seed"].tolist(), strict=True))
        return found

    whole = drawn(good)
    assert drawn(ds) == {number: seed for number, seed in whole.items() if number not in bad}


@pytest.mark.parametrize("options", ["native", "samples"])
def test_a_batch_without_a_good_sample_must_not_be_missing_on_one_rank(
    good: cw.Dataset, tmp_path: Path, options: str
) -> None:
    ds, _ = damaged(good, tmp_path, a_missing_shard)
    loaders = [
        Loader(ds, 2, on_damage="skip", rank=rank, world_size=2, **OPTIONS[options]) for rank in range(2)
    ]  # fmt: skip
    for loader in loaders:
        with pytest.raises(FeedError, match="2 ranks would not have the same number of batches"):
            list(loader)


def test_where_nothing_is_good_nothing_comes(good: cw.Dataset, tmp_path: Path) -> None:
    ds, bad = damaged(good, tmp_path, a_missing_shard)
    loader = Loader(ds.subset(sorted(bad)), 3, on_damage="skip")
    assert list(loader) == []
    assert loader.stats().damaged == len(bad)


def test_samples_in_processes_are_left_out_too(good: cw.Dataset, tmp_path: Path) -> None:
    ds, bad = damaged(good, tmp_path, a_row)
    loader = Loader(ds, BATCH, on_damage="skip", sample_transform=same, sample_workers=1)
    found = [number for batch in batches_of(loader) for number in batch]
    assert found == [number for number in range(COUNT) if number not in bad]
    raising = Loader(ds, BATCH, sample_transform=same, sample_workers=1)
    with pytest.raises(FormatError, match="shard-00000001"):
        list(raising)


def test_errors_of_a_callers_function_are_no_damage(good: cw.Dataset) -> None:
    def fails(sample: dict[str, Any]) -> dict[str, Any]:
        if sample["number"] == 10:
            raise UsageError("mine")
        return sample

    iterator = iter(Loader(good, BATCH, sample_transform=fails, on_damage="skip"))
    assert numbers_in(next(iterator)) + numbers_in(next(iterator)) == list(range(8))
    with pytest.raises(UsageError, match="mine"):
        next(iterator)
