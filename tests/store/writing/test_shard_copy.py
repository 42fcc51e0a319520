"""Samples of a shard taken over into another one: which, in what pieces, and byte for byte."""

import os
from pathlib import Path

import numpy as np
import pytest

import cordwood as cw
from cordwood.store.format.manifest import read as read_manifest
from cordwood.store.format.rows import RowLayout
from cordwood.store.format.shard_file import shard_name
from cordwood.store.writing import shard_copy
from cordwood.store.writing.shard_copy import LeafFrames, Rows, copied, leaf_frames, pieces
from tests.store.support.photos import photo, write
from tests.store.support.small_stores import rows_of


def frames_of(store: Path) -> list[LeafFrames]:
    """Of each frame leaf of a store's first shard, on its way to a shard with the same plans."""
    plans = read_manifest(store).frame_plans
    return leaf_frames(store, plans, plans)


def opened(path: Path) -> tuple[bytes, RowLayout, Rows]:
    """The bytes of a store's first shard, its layout, and its rows."""
    schema = read_manifest(path).schema
    assert schema is not None
    return (path / shard_name(0)).read_bytes(), RowLayout(schema), rows_of(path, 0)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return write(tmp_path / "s", [photo(number) for number in range(30)])


def test_the_chosen_rows_come_in_pieces(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, layout, rows = opened(store)
    chosen = np.arange(30) % 3 == 0
    (whole,) = pieces(layout, rows, chosen)
    assert whole.tobytes() == rows[chosen].tobytes()
    monkeypatch.setattr(shard_copy, "_AT_ONCE", 200)
    found = list(pieces(layout, rows, chosen))
    assert len(found) > 2
    assert np.concatenate(found).tobytes() == whole.tobytes()
    for piece in found:
        assert int((piece["offsets"][:, -1] - piece["offsets"][:, 0]).sum()) <= 200 + 100  # and the last one's


def test_frames_columns_and_shapes_are_those_of_the_shard(store: Path) -> None:
    data, layout, rows = opened(store)
    chosen = np.zeros(30, np.bool_)
    chosen[[4, 5, 29]] = True
    fd = os.open(store / shard_name(0), os.O_RDONLY)
    try:
        part = copied(fd, layout, rows[chosen], frames_of(store), ())
    finally:
        os.close(fd)
    assert len(part) == 3
    frames = iter(part.frames)
    for row, sizes in zip(rows[chosen], part.sizes.tolist(), strict=True):
        places = row["offsets"].tolist()
        for place, end, size in zip(places, places[1:], sizes, strict=False):
            assert next(frames) == data[place:end]
            assert size == end - place
    assert part.columns.tolist() == rows["columns"][chosen].tolist()
    assert part.states.tolist() == rows["states"][chosen].tolist()
    images = [tuple(shape) for shape in part.shapes if shape is not None and len(shape) == 3]
    assert images == [(3, 8, 8)] * 3


def test_a_frame_that_is_none_is_refused(store: Path) -> None:
    data, layout, rows = opened(store)
    place = int(rows["offsets"][2, 0])
    (store / shard_name(0)).write_bytes(data[:place] + bytes(20) + data[place + 20 :])
    fd = os.open(store / shard_name(0), os.O_RDONLY)
    try:
        with pytest.raises(cw.FormatError):
            copied(fd, layout, rows[:5], frames_of(store), ())
    finally:
        os.close(fd)


def test_no_rows_are_one_piece_without_any(store: Path) -> None:
    _, layout, rows = opened(store)
    (piece,) = pieces(layout, rows, np.zeros(30, np.bool_))
    assert piece.size == 0
