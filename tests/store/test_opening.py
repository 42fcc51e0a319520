"""``cw.open``: what is a store, what is not, and what opening costs."""

import os
import pickle
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import cordwood as cw
from cordwood.errors import FormatError, UsageError
from cordwood.store.format import shard_index
from tests.store.support.packed import assert_all_same, images, pack
from tests.store.support.samples import assert_same_sample


class Box(NamedTuple):
    """A class of the caller's."""

    low: Any
    high: Any


def test_a_store_has_its_samples(tmp_path: Path) -> None:
    samples = images(5)
    ds = pack(tmp_path / "s", samples, shard_bytes=1)
    assert len(ds) == 5
    assert ds.path == tmp_path / "s"
    assert ds.names == ("image", "label", "meta.path", "meta.size.0", "meta.size.1")
    assert ds.schema.names == ds.names
    assert_all_same(ds, samples)


def test_a_path_may_be_a_string(tmp_path: Path) -> None:
    pack(tmp_path / "s", images(1))
    assert len(cw.open(str(tmp_path / "s"))) == 1


def test_the_current_folder_may_change_after_opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = images(2)
    pack(tmp_path / "s", samples)
    monkeypatch.chdir(tmp_path)
    ds = cw.open("s")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert_same_sample(ds[1], samples[1])
    assert_same_sample(pickle.loads(pickle.dumps(ds))[0], samples[0])


def test_a_store_whose_update_was_killed_says_what_to_do(tmp_path: Path) -> None:
    """The old folder is set aside, the new one has not got its name."""
    path = tmp_path / "s"
    pack(path, images(1))
    path.rename(tmp_path / ".s.before-update")
    told = r"s was being brought up to date when a process was killed: run the same `cordwood pack --update` again"
    with pytest.raises(UsageError, match=told):
        cw.open(path)
    # One that was not removed yet is no matter.
    pack(path, images(2))
    assert len(cw.open(path)) == 2
    (tmp_path / ".s.before-update").rename(tmp_path / "other")
    with pytest.raises(UsageError, match="does not exist: make a store"):
        cw.open(tmp_path / "nothing")


@pytest.mark.parametrize("mapped", [0, 3])
def test_opening_reads_no_shard(tmp_path: Path, mapped: int) -> None:
    ds = pack(tmp_path / "s", images(4), shard_bytes=1)
    for shard in (tmp_path / "s").glob("shard-*"):
        shard.unlink()
    reopened = cw.open(tmp_path / "s")
    assert len(reopened) == len(ds) == 4
    with pytest.raises(FormatError, match=f"samples {mapped} to {mapped} cannot be read"):
        reopened[mapped]


def test_a_hundred_million_samples_open_by_their_index_alone(tmp_path: Path) -> None:
    pack(tmp_path / "s", images(1))
    index = tmp_path / "s" / shard_index.NAME
    one = np.frombuffer(index.read_bytes()[shard_index.HEADER_SIZE :], shard_index.RECORD)[0]
    count, shards = 1 << 20, 96
    records = np.zeros(shards, shard_index.RECORD)
    for name in ("file_size", "schema_hash", "trailer_crc"):
        records[name] = one[name]
    records["count"], records["first"] = count, np.arange(shards) * count
    index.write_bytes(index.read_bytes()[: shard_index.HEADER_SIZE] + resealed(records))
    ds = cw.open(tmp_path / "s")
    assert len(ds) == shards * count > 100_000_000
    assert len(ds[1:-1]) == len(ds) - 2
    assert len(pickle.dumps(ds[1:-1])) < 1000  # no list of numbers, either
    with pytest.raises(FormatError, match=f"samples {95 * count} to {96 * count - 1} cannot be read"):
        ds[-1]


def resealed(records: Any) -> bytes:
    from cordwood.native import _native

    records["crc"] = np.frombuffer(_native.crc32c_rows(records.tobytes(), 64, 60, 0), "<u4")
    return bytes(records.tobytes())


def test_a_store_without_samples(tmp_path: Path) -> None:
    cw.Writer(tmp_path / "s").close()
    ds = cw.open(tmp_path / "s")
    assert len(ds) == 0
    assert list(ds) == []
    assert ds.names == ()
    assert not hasattr(ds, "classes")
    with pytest.raises(IndexError, match="sample 0 of 0"):
        ds[0]
    with pytest.raises(IndexError, match="sample 0 of 0"):
        ds[[0]]
    assert len(ds[:]) == 0


def test_a_store_without_samples_is_opened_again_when_it_has_some(tmp_path: Path) -> None:
    cw.Writer(tmp_path / "s").close()
    empty = cw.open(tmp_path / "s")
    with cw.Writer(tmp_path / "s", mode="append") as writer:
        writer.append({"x": 1})
    assert len(empty) == 0
    assert len(pickle.loads(pickle.dumps(empty))) == 0
    assert len(cw.open(tmp_path / "s")) == 1


def test_what_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"does not exist: make a store with cw.pack or cw.Writer"):
        cw.open(tmp_path / "nothing")
    with pytest.raises(UsageError, match=r"is a folder without store.json"):
        cw.open(tmp_path)
    torch.save(torch.ones(1), tmp_path / "a.pt")
    with pytest.raises(UsageError, match=r"is a file, but a store is a folder: .* cw.load"):
        cw.open(tmp_path / "a.pt")
    pack(tmp_path / "s", images(1))
    (tmp_path / "s" / "store.json").unlink()
    with pytest.raises(UsageError, match=r"has shards but no store.json.*--salvage"):
        cw.open(tmp_path / "s")


@pytest.mark.parametrize("threads", [0, -1])
def test_threads_are_at_least_one(tmp_path: Path, threads: int) -> None:
    pack(tmp_path / "s", images(1))
    with pytest.raises(UsageError, match="threads must be 1 or more"):
        cw.open(tmp_path / "s", threads=threads)


@pytest.mark.parametrize("threads", [1, 3, None])
def test_any_number_of_threads_reads_the_same(tmp_path: Path, threads: int | None) -> None:
    samples = images(40)
    pack(tmp_path / "s", samples, "balanced")
    ds = cw.open(tmp_path / "s", threads=threads)
    numbers = list(range(39, -1, -1))
    assert_same_sample(ds[numbers]["image"], torch.stack([samples[i]["image"] for i in numbers]))
    assert pickle.loads(pickle.dumps(ds)).reader.threads == threads


def test_named_tuples_are_fresh_ones_unless_classes_are_given(tmp_path: Path) -> None:
    sample = {"box": Box(1, torch.ones(2)), "any": [Box("a", None)]}
    pack(tmp_path / "s", [sample, sample])
    fresh = cw.open(tmp_path / "s")[0]
    for box in (fresh["box"], fresh["any"][0]):
        assert type(box) is not Box
        assert type(box).__name__ == "Box"
        assert box._fields == ("low", "high")
    assert_same_sample(fresh, sample)
    ds = cw.open(tmp_path / "s", types=[Box])
    for again in (ds, pickle.loads(pickle.dumps(ds)), ds[:], ds.subset([0]), cw.concat([ds, ds])):
        assert type(again[0]["box"]) is type(again[0]["any"][0]) is Box
        assert type(again[[0, 0]]["box"]) is Box if len(again) > 1 else True
    assert type(ds.select("box")[1][0]) is Box


def test_only_a_class_of_that_name_and_these_fields_is_taken(tmp_path: Path) -> None:
    pack(tmp_path / "s", [Box(1, 2)])
    others = [namedtuple("Box", ["low", "height"]), namedtuple("Bax", ["low", "high"])]
    found = cw.open(tmp_path / "s", types=others)[0]
    assert type(found) not in others
    assert found == (1, 2)
    with pytest.raises(UsageError, match=r"types has .*int.*named tuple classes"):
        cw.open(tmp_path / "s", types=[int])


def test_nothing_that_a_store_names_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "surprise.py").write_text("from collections import namedtuple\nbox = namedtuple('surprise', 'a')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    surprise = namedtuple("surprise", "a")
    surprise.__module__ = "surprise"
    pack(tmp_path / "s", [surprise(1), surprise(2)])
    before = set(sys.modules)
    ds = cw.open(tmp_path / "s")
    assert_same_sample(ds[1], surprise(2))
    assert_same_sample(pickle.loads(pickle.dumps(ds[0])), surprise(1))  # as a worker sends it
    assert "surprise" not in set(sys.modules) - before


def test_a_reader_keeps_its_length_while_the_store_grows(tmp_path: Path) -> None:
    samples = images(6)
    ds = pack(tmp_path / "s", samples[:4], shard_bytes=1)
    sent = pickle.dumps(ds)
    with cw.Writer(tmp_path / "s", mode="append") as writer:
        writer.extend(samples[4:])
    assert len(ds) == len(pickle.loads(sent)) == 4
    assert_all_same(pickle.loads(sent), samples[:4])
    with pytest.raises(IndexError):
        pickle.loads(sent)[4]
    assert_all_same(cw.open(tmp_path / "s"), samples)


def test_a_pickle_of_more_than_there_is_says_so(tmp_path: Path) -> None:
    sent = pickle.dumps(pack(tmp_path / "s", images(3), shard_bytes=1))
    shards = tmp_path / "s" / shard_index.NAME
    (tmp_path / "s" / "shard-00000002.cws").unlink()
    os.truncate(shards, shards.stat().st_size - shard_index.RECORD_SIZE)
    with pytest.raises(FormatError, match="3 samples are expected, but 2 are there"):
        pickle.loads(sent)
