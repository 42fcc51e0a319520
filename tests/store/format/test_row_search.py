"""Rows are found in a shard without a trailer, and nothing else is taken for them."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cordwood as cw
from cordwood.store.format import row_search
from cordwood.store.format.manifest import read as read_manifest
from cordwood.store.format.row_search import FoundRows, find_rows, read_at
from cordwood.store.format.rows import RowLayout
from cordwood.store.format.shard_table import table_size
from tests.store.support.small_stores import ends_of, rows_of, shard


def layout_of(path: Path) -> RowLayout:
    schema = read_manifest(path).schema
    assert schema is not None
    return RowLayout(schema)


def search(path: Path, size: int | None = None, count: int | None = None) -> FoundRows | None:
    fd = os.open(shard(path, 0), os.O_RDONLY)
    try:
        return find_rows(fd, os.fstat(fd).st_size if size is None else size, layout_of(path), count)
    finally:
        os.close(fd)


def write(path: Path, samples: list[Any]) -> Path:
    with cw.Writer(path, goal="raw") as writer:
        for sample in samples:
            writer.append(sample)
    return path


@pytest.mark.parametrize("count", [None, 50])
def test_all_rows_are_found(tmp_path: Path, count: int | None) -> None:
    path = write(tmp_path / "x", [{"x": torch.arange(number), "n": number} for number in range(50)])
    found = search(path, count=count)
    assert found is not None
    assert found.frames_end == ends_of(path, 0).rows_offset - table_size(layout_of(path))
    assert found.rows.tobytes() == rows_of(path, 0).tobytes()
    assert found.intact.all()


def test_what_looks_like_the_beginning_of_rows_is_passed_over(tmp_path: Path) -> None:
    decoy = torch.frombuffer(bytearray(b"CWST" * 3000), dtype=torch.uint8)  # how a table begins, three thousand times
    path = write(tmp_path / "x", [{"x": decoy, "n": number} for number in range(3)])
    found = search(path)
    assert found is not None
    assert found.frames_end == ends_of(path, 0).rows_offset - table_size(layout_of(path))


def test_a_search_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "x", [{"x": torch.frombuffer(bytearray(b"CWST" * 3000), dtype=torch.uint8)}])
    monkeypatch.setattr(row_search, "_MOST_TRIES", 10)
    assert search(path, size=ends_of(path, 0).rows_offset - 50) is None


def test_rows_across_the_borders_of_what_is_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "x", [{"x": torch.arange(number), "n": number} for number in range(20)])
    for block in range(40, 60):
        monkeypatch.setattr(row_search, "_AT_ONCE", block)
        found = search(path)
        assert found is not None
        assert found.frames_end == ends_of(path, 0).rows_offset - table_size(layout_of(path))


def test_rows_without_frames_are_where_frames_would_be(tmp_path: Path) -> None:
    path = write(tmp_path / "x", [{"a": number, "b": number / 2} for number in range(9)])
    found = search(path)
    assert found is not None
    assert (found.frames_end, len(found.rows)) == (32, 9)
    (path / "shard-00000000.cws").write_bytes(bytes(500))
    assert search(path) is None


def test_damaged_rows_among_good_ones(tmp_path: Path) -> None:
    path = write(tmp_path / "x", [{"x": torch.arange(3), "n": number} for number in range(9)])
    data = bytearray(shard(path, 0).read_bytes())
    ends = ends_of(path, 0)
    for row in (3, 8):
        data[ends.rows_offset + row * ends.row_size + 5] ^= 1
    shard(path, 0).write_bytes(data)
    found = search(path, count=9)
    assert found is not None
    assert np.flatnonzero(~found.intact).tolist() == [3, 8]
    without_count = search(path)
    assert without_count is not None
    assert len(without_count.rows) == 8  # where they end is only known by the last good one


def test_a_file_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_search, "_LARGEST_READ", 7)
    (tmp_path / "x").write_bytes(bytes(range(100)))
    with (tmp_path / "x").open("rb") as file:
        assert read_at(file.fileno(), 50, 20) == bytes(range(20, 70))
        assert read_at(file.fileno(), 50, 80) == bytes(range(80, 100))
        assert read_at(file.fileno(), 0, 3) == b""
