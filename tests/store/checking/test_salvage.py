"""A new store of what is good: complete, in order, byte for byte, and the old one is as it was."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cordwood as cw
from cordwood.errors import UsageError
from cordwood.store.checking.salvage import salvage
from cordwood.store.checking.verify import verify
from cordwood.store.inspecting.inspect import inspect_store
from cordwood.store.writing.open_shard import OpenShard
from tests.store.support.samples import assert_same_sample
from tests.store.support.small_stores import (
    assert_holds,
    cut,
    ends_of,
    files_of,
    first_of,
    flip,
    frame_of,
    put_back,
    row_of,
    sample,
    shard,
    write_planned,
    write_store,
)

COUNT = 24


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return write_store(tmp_path / "x.cordwood", COUNT)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "saved.cordwood"


def assert_saved(store: Path, out: Path, lost: list[int]) -> None:
    """Salvage, and fail unless all but these samples are in a store that is good."""
    before = files_of(store)
    result = salvage(store, out)
    assert files_of(store) == before
    assert verify(out).ok, str(verify(out))
    kept = [number for number in range(COUNT) if number not in lost]
    assert_holds(out, kept)
    assert result.kept == len(kept)
    assert [n for first, last in result.verification.lost for n in range(first, last + 1)] == lost
    assert sorted(file.name for file in out.parent.iterdir()) == sorted([store.name, out.name])


def test_a_good_store_is_copied(store: Path, out: Path) -> None:
    assert_saved(store, out, [])
    assert files_of(out) == files_of(store)


def test_samples_with_damage_are_left_out(store: Path, out: Path) -> None:
    flip(shard(store, 1), frame_of(store, 1, 1, "image")[-2])
    flip(shard(store, 1), frame_of(store, 1, 0, "meta.path")[3])
    flip(shard(store, 2), row_of(store, 2, 2)[20])
    assert_saved(store, out, [first_of(store, 1), first_of(store, 1) + 1, first_of(store, 2) + 2])
    assert shard(out, 0).read_bytes() == shard(store, 0).read_bytes()


@pytest.mark.parametrize("how", ["header", "trailer", "footer", "without footer", "with more behind"])
def test_a_shard_whose_ends_are_damaged_is_saved(store: Path, out: Path, how: str) -> None:
    path = shard(store, 1)
    match how:
        case "header":
            flip(path, 9)
        case "trailer":
            flip(path, -20)
        case "footer":
            flip(path, ends_of(store, 1).footer_offset + 3)
        case "without footer":
            cut(path, ends_of(store, 1).footer_offset)
        case _:
            path.write_bytes(path.read_bytes() + b"more")
    assert_saved(store, out, [])


def test_a_shard_cut_short_loses_what_has_no_row(store: Path, out: Path) -> None:
    first, count = first_of(store, 1), ends_of(store, 1).count
    cut(shard(store, 1), row_of(store, 1, 1)[3])
    assert_saved(store, out, list(range(first + 1, first + count)))


def test_a_shard_that_is_gone(store: Path, out: Path) -> None:
    first, count = first_of(store, 1), ends_of(store, 1).count
    shard(store, 1).unlink()
    assert_saved(store, out, list(range(first, first + count)))


@pytest.mark.parametrize("name", ["store.json", "shards.bin"])
@pytest.mark.parametrize("how", ["gone", "damaged"])
def test_without_manifest_or_index(store: Path, out: Path, name: str, how: str) -> None:
    whole = files_of(store)
    if how == "gone":
        (store / name).unlink()
    else:
        flip(store / name, 70)
    assert_saved(store, out, [])
    assert files_of(out) == whole


def test_index_and_a_shard_are_both_damaged(store: Path, out: Path) -> None:
    (store / "shards.bin").unlink()
    flip(shard(store, 1), -20)
    assert_saved(store, out, [])


def test_a_lost_plan_costs_only_what_needs_it(tmp_path: Path, out: Path) -> None:
    store = tmp_path / "x.cordwood"
    samples = [{"n": n, "x": None if n % 4 == 0 else torch.arange(500 - n % 3) * n} for n in range(COUNT)]
    with cw.Writer(store) as writer:
        for each in samples:
            writer.append(each)
    (plan,) = (store / "plans").iterdir()
    plan.unlink()
    result = salvage(store, out)
    assert [n for first, last in result.verification.lost for n in range(first, last + 1)] == [
        n for n in range(COUNT) if n % 4
    ]
    assert verify(out).ok, str(verify(out))
    with cw.Writer(out, mode="append") as writer:  # the field without a plan gets its goal's usual one
        writer.append(samples[5])
        writer.append(samples[8])
    assert verify(out).ok
    for one, expected in zip(cw.open(out), [*samples[::4], samples[5], samples[8]], strict=True):
        assert_same_sample(one, expected)


def test_nothing_can_be_saved(tmp_path: Path, out: Path) -> None:
    store = write_planned(tmp_path / "x.cordwood", 20)
    (plan,) = (store / "plans").iterdir()
    plan.unlink()
    with pytest.raises(
        cw.FormatError, match=r"no sample is good; there is nothing to salvage: .*pack its source again"
    ):
        salvage(store, out)
    for file in store.glob("*.cws"):
        cut(file, -100)
    (store / "store.json").unlink()
    with pytest.raises(cw.FormatError, match=r"nothing can be saved.*no shard has a copy of it.*pack its source again"):
        salvage(store, out)
    assert [file.name for file in tmp_path.iterdir()] == ["x.cordwood"]


def test_an_empty_store_has_nothing_to_save(tmp_path: Path, out: Path) -> None:
    cw.Writer(tmp_path / "x.cordwood").close()
    with pytest.raises(cw.FormatError, match="there are no samples in it"):
        salvage(tmp_path / "x.cordwood", out)


def test_a_place_that_is_taken(store: Path, out: Path) -> None:
    for taken in (store, store / "store.json"):
        before = files_of(store)
        with pytest.raises(cw.UsageError, match="exists already"):
            salvage(store, taken)
        assert files_of(store) == before
    with pytest.raises(cw.StorageError, match="nothing was written"):
        salvage(store, out / "below" / "nothing")


def test_what_goes_wrong_half_way_leaves_nothing_behind(
    store: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flip(shard(store, 2), frame_of(store, 2, 0, "image")[-2])

    def full(*_: Any) -> None:
        raise cw.StorageError(28, "No space left on device")

    monkeypatch.setattr(OpenShard, "finish", full)
    with pytest.raises(cw.StorageError, match="No space left"):
        salvage(store, out)
    assert [file.name for file in out.parent.iterdir()] == [store.name]


def test_what_the_new_store_says_of_itself_is_right(store: Path, out: Path) -> None:
    flip(shard(store, 1), frame_of(store, 1, 0, "image")[-2])
    lost = first_of(store, 1)
    salvage(store, out)
    rows = {row.name: row for row in inspect_store(out).fields}
    kept = [sample(number) for number in range(COUNT) if number != lost]
    assert rows["image"].before == sum(each["image"].numel() for each in kept)
    assert rows["image"].largest == (3, 24, 20)
    assert rows["note"].absent == sum("note" not in each for each in kept)
    errors = [(each["features"] - each["features"].half().float()).abs().max().item() for each in kept]
    assert rows["features"].worst_error == pytest.approx(max(errors))


def test_an_error_that_is_not_known_any_more_is_told(store: Path, out: Path) -> None:
    flip(shard(store, 1), -20)
    assert "worst error" in salvage(store, out).notes[0]


@pytest.mark.slow
def test_whatever_is_damaged_only_good_samples_are_saved(store: Path, out: Path) -> None:
    draw = random.Random(2)
    files = files_of(store)
    for turn in range(12):
        for _ in range(4):
            name = draw.choice([name for name in files if name.endswith(".cws")])
            flip(store / name, draw.randrange(len(files[name])), draw.randrange(8))
        target = out.with_name(f"saved{turn}")
        result = salvage(store, target)
        lost = {n for first, last in result.verification.lost for n in range(first, last + 1)}
        assert_holds(target, [number for number in range(COUNT) if number not in lost])
        put_back(store, files)


def test_a_large_shard_is_saved_in_pieces(tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cordwood.store.writing.shard_copy._AT_ONCE", 1000)
    arrays = [torch.from_numpy(np.random.default_rng(n).integers(0, 256, 300 + n)) for n in range(30)]
    with cw.Writer(tmp_path / "x.cordwood", goal="raw") as writer:
        for array in arrays:
            writer.append(array)
    flip(shard(tmp_path / "x.cordwood", 0), 5000)
    result = salvage(tmp_path / "x.cordwood", out)
    ((gone, _),) = result.verification.lost
    saved = cw.open(out)
    assert len(saved) == 29
    for index, number in enumerate(n for n in range(30) if n != gone):
        assert torch.equal(saved[index], arrays[number])


def test_the_new_store_is_not_put_into_the_old_one(tmp_path: Path) -> None:
    with cw.Writer(tmp_path / "s") as writer:
        writer.append(1)
    with pytest.raises(UsageError, match="is inside of"):
        cw.salvage(tmp_path / "s", tmp_path / "s" / "new")
    assert not (tmp_path / "s" / "new").exists()
