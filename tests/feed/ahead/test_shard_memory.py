"""Which memory is chosen: a copy for files on a network that fit, else the files; and whether those fit at all."""

from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from cordwood.errors import UsageError
from cordwood.feed.ahead import shard_memory as memory
from cordwood.feed.ahead.shard_memory import Chosen, chosen, is_remote

MOUNTS = [
    "/dev/vda / ext4 rw 0 0",
    "server:/data /data nfs4 rw 0 0",
    "/dev/vdb /data/local xfs rw 0 0",
    "bucket /with\\040space fuse.s3fs rw 0 0",
    "broken",
]


@pytest.mark.parametrize(
    ("path", "remote"),
    [
        ("/home/me", False),
        ("/data/set", True),
        ("/data/local/set", False),
        ("/with space/a", True),
        ("/database", False),
    ],
)
def test_the_innermost_mount_counts(path: str, remote: bool) -> None:
    assert is_remote(Path(path), MOUNTS) is remote


@pytest.fixture
def dataset(tmp_path: Path) -> cw.Dataset:
    with cw.Writer(tmp_path / "store", "raw") as writer:
        for number in range(100):
            writer.append({"x": torch.full((1000,), number, dtype=torch.int32)})
    return cw.open(tmp_path / "store")


@pytest.mark.parametrize(
    ("asked", "remote", "free", "ranks", "found"),
    [
        ("auto", False, 1 << 40, 1, Chosen("mmap", is_sparse=False)),
        ("auto", True, 1 << 40, 1, Chosen("ram", is_sparse=False)),
        ("auto", True, 1_000_000, 1, Chosen("ram", is_sparse=False)),
        ("auto", True, 1_000_000, 4, Chosen("mmap", is_sparse=False)),
        ("auto", True, 100_000, 1, Chosen("mmap", is_sparse=True)),
        ("mmap", True, 1 << 40, 1, Chosen("mmap", is_sparse=False)),
        ("mmap", False, 100_000, 1, Chosen("mmap", is_sparse=True)),
        ("ram", False, 1_000_000, 1, Chosen("ram", is_sparse=False)),
    ],
)
def test_the_choice(
    dataset: cw.Dataset,
    monkeypatch: pytest.MonkeyPatch,
    asked: str,
    remote: bool,
    free: int,
    ranks: int,
    found: Chosen,
) -> None:
    monkeypatch.setattr(memory, "is_remote", lambda path: remote)
    monkeypatch.setattr(memory, "available_memory", lambda: free)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(ranks))
    reader = dataset.reader
    assert chosen(asked, reader, reader.shards.shards_of(range(100))) == found


def test_a_copy_that_does_not_fit_is_refused(dataset: cw.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    with pytest.raises(UsageError, match=r"memory='ram' would copy .* are free"):
        next(iter(cw.Loader(dataset, memory="ram")))


@pytest.mark.parametrize("wrong", ["disk", "", None, 3])
def test_other_words_are_refused(dataset: cw.Dataset, wrong: Any) -> None:
    with pytest.raises(UsageError, match="'auto', 'mmap' or 'ram'"):
        cw.Loader(dataset, memory=wrong)


def test_a_store_larger_than_the_memory_gives_the_same_batches(
    dataset: cw.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    loader = cw.Loader(dataset, batch_size=7, shuffle=True)
    found = [batch["x"][:, 0] for batch in loader]
    assert loader._reading is not None
    assert loader._reading.reader.shards.is_sparse
    monkeypatch.undo()
    plain = [batch["x"][:, 0] for batch in cw.Loader(dataset, batch_size=7, shuffle=True)]
    assert torch.equal(torch.cat(found), torch.cat(plain))
