"""Where shards are read from makes no difference to what is read."""

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

import cordwood as cw
from cordwood import Loader
from cordwood.codecs import Goal
from cordwood.feed.ahead import shard_memory as memories
from cordwood.feed.ahead.shard_memory import Chosen, chosen, is_remote
from cordwood.store.reading import shards
from tests.feed.support.leftovers import Leftovers
from tests.feed.support.numbered import numbered, numbers_in, numbers_of
from tests.store.support.packed import coded, images, pack
from tests.store.support.samples import assert_same_sample


def wait_until_loaded() -> None:
    for thread in threading.enumerate():
        if thread.name == "cordwood-ram":
            thread.join()


@pytest.mark.parametrize("goal", ["raw", "fast", "small"])
def test_all_give_the_same_batches(tmp_path: Path, goal: Goal) -> None:
    samples = [{**image, "x": x} for image, x in zip(images(50), coded(50), strict=True)]
    ds = pack(tmp_path / "s", samples, goal, shard_bytes=1500)
    assert len(list(ds.path.glob("shard-*"))) > 3
    loaders = {memory: Loader(ds, 8, True, memory=memory) for memory in ("mmap", "ram", "auto")}
    for _ in range(3):  # the first while the shards are still on their way
        epochs = {memory: list(loader) for memory, loader in loaders.items()}
        assert_same_sample(epochs["ram"], epochs["mmap"])
        assert_same_sample(epochs["auto"], epochs["mmap"])
        wait_until_loaded()
    assert {memory: loader.stats().memory for memory, loader in loaders.items()} == {
        "mmap": "mmap",
        "ram": "ram",
        "auto": "mmap",
    }


def test_what_is_in_memory_needs_its_files_no_more(tmp_path: Path) -> None:
    ds = numbered(tmp_path / "s", 60, shard_bytes=2000)
    loader = Loader(ds, 8, memory="ram")
    iterator = iter(loader)
    found = numbers_in(next(iterator))
    wait_until_loaded()
    shutil.rmtree(tmp_path / "s")
    assert found + numbers_of(iterator) == list(range(60))
    assert numbers_of(loader) == list(range(60))


def test_it_is_a_copy(tmp_path: Path) -> None:
    ds = numbered(tmp_path / "s", 20)
    (file,) = (tmp_path / "s").glob("shard-*")
    loader = Loader(ds, 8, memory="ram")
    list(loader)
    wait_until_loaded()
    file.write_bytes(bytes(file.stat().st_size))
    assert numbers_of(loader) == list(range(20))
    with pytest.raises(cw.FormatError):
        list(Loader(cw.open(ds.path), 8, memory="mmap"))


def test_only_the_shards_that_are_needed_are_read(tmp_path: Path) -> None:
    ds = numbered(tmp_path / "s", 60, shard_bytes=2000)
    needed, _ = ds.reader.shards.shard_of(30)
    for path in (tmp_path / "s").glob("shard-*"):
        if path != needed:
            path.unlink()
    for memory in ("ram", "mmap"):
        loader = Loader(ds.subset([30, 31, 30]), 2, memory=memory)
        assert numbers_of(loader) == [30, 31, 30]
        wait_until_loaded()
        assert numbers_of(loader) == [30, 31, 30]


@pytest.mark.slow
def test_loading_ends_with_the_loader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = numbered(tmp_path / "s", 20_000)
    monkeypatch.setattr(shards, "_PIECE", 1)  # a byte at a time, of more than a million
    before = Leftovers.now()
    loader = Loader(ds, 8, memory="ram")
    iterator = iter(loader)
    assert numbers_in(next(iterator)) == list(range(8))
    assert "cordwood-ram" in Leftovers.now().threads
    del iterator, loader
    assert Leftovers.now() == before


def test_a_loader_without_samples_may_ask_for_memory(tmp_path: Path) -> None:
    assert list(Loader(numbered(tmp_path / "s", 5)[:0], 2, memory="ram")) == []


# ---- "auto" ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("remote", "free", "expected"),
    [
        (False, 1 << 40, Chosen("mmap", is_sparse=False)),
        (True, 1 << 40, Chosen("ram", is_sparse=False)),
        (True, 10, Chosen("mmap", is_sparse=True)),
        (False, 10, Chosen("mmap", is_sparse=True)),
    ],
)
def test_memory_is_for_stores_on_a_network_that_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remote: bool, free: int, expected: Any
) -> None:
    ds = numbered(tmp_path / "s", 20)
    monkeypatch.setattr(memories, "is_remote", lambda path: remote)
    monkeypatch.setattr(memories, "available_memory", lambda: free)
    assert chosen("auto", ds.reader, ds.reader.shards.shards_of(range(20))) == expected
    loader = Loader(ds, 8)
    assert numbers_of(loader) == list(range(20))
    assert loader.stats().memory == expected.memory


def test_processes_on_one_machine_share_its_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = numbered(tmp_path / "s", 20).reader
    needed = sum(path.stat().st_size for path in (tmp_path / "s").glob("shard-*"))
    monkeypatch.setattr(memories, "is_remote", lambda path: True)
    monkeypatch.setattr(memories, "available_memory", lambda: needed * 10)
    kept = {}
    for processes in ("1", "4", "16", "many"):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", processes)
        kept[processes] = chosen("auto", reader, reader.shards.shards_of(range(20))).memory
    assert kept == {"1": "ram", "4": "ram", "16": "mmap", "many": "ram"}


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/data /mnt/data nfs4 rw 0 0
/dev/sdb1 /mnt/data/local ext4 rw 0 0
bucket /mnt/my\\040bucket fuse.s3fs rw 0 0
broken
""".splitlines()


@pytest.mark.parametrize(
    ("path", "remote"),
    [
        ("/home/me/train.cordwood", False),
        ("/mnt/data/train.cordwood", True),
        ("/mnt/database/train.cordwood", False),
        ("/mnt/data/local/train.cordwood", False),
        ("/mnt/my bucket/train.cordwood", True),
    ],
)
def test_file_systems_of_other_machines_are_known_by_their_kind(path: str, remote: bool) -> None:
    assert is_remote(Path(path), MOUNTS) is remote
