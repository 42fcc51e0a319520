"""A file that is replaced while it is read: what was opened is what is loaded, never a mixture."""

from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from cordwood.tensors.io.source import ByteSource
from cordwood.tensors.loading import storages


@pytest.mark.parametrize("suffix", ["cord", "pt"])
def test_a_mapping_is_of_the_file_that_was_opened(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"x.{suffix}"
    goal: dict[str, Any] = {"goal": "raw"} if suffix == "cord" else {}
    first = {"pad": torch.zeros(100_000), "x": torch.full((600_000,), 1.0)}
    second = {"x": torch.full((600_000,), 2.0), "pad": torch.zeros(10)}
    cw.save(first, path, **goal)
    map_whole = storages.map_whole

    def replaced_first(source: ByteSource) -> torch.UntypedStorage:
        cw.save(second, path, **goal)
        return map_whole(source)

    monkeypatch.setattr(storages, "map_whole", replaced_first)
    loaded = cw.load(path, mmap=True)
    assert (loaded["x"] == 1).all()
    assert len(loaded["pad"]) == 100_000
    monkeypatch.setattr(storages, "map_whole", map_whole)
    assert (cw.load(path, mmap=True)["x"] == 2).all()


def test_writing_to_a_mapped_tensor_never_changes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.cord"
    cw.save(torch.arange(600_000), path, goal="raw")
    before = path.read_bytes()
    for mmap in (True, None):
        loaded = cw.load(path, mmap=mmap)
        loaded += 1
        assert loaded[-1] == 600_000
    assert path.read_bytes() == before


def test_a_small_file_is_mapped_as_it_was_when_it_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    cw.save(torch.arange(10), path)
    loaded = cw.load(path, mmap=True)
    cw.save(torch.zeros(10), path)
    assert loaded.tolist() == list(range(10))
