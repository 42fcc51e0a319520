"""A shard being written: where it ends, what its footer tells, and that it is there whole or not at all."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import cordwood as cw
from cordwood import codecs
from cordwood.errors import StorageError
from cordwood.native import _native
from cordwood.store.format.rows import RowLayout
from cordwood.store.format.shard_file import read_ends, read_footer, shard_name
from cordwood.store.format.shard_table import ShardTable
from cordwood.store.writing import open_shard
from cordwood.store.writing.encode import Chunk, Encoded, encode
from cordwood.store.writing.infer import infer
from cordwood.store.writing.open_shard import OpenShard, SpooledRows
from cordwood.store.writing.prepare import Preparer
from tests.store.support.photos import photo, write


def encoded(samples: list[Any]) -> tuple[RowLayout, Encoded]:
    schema = infer(samples)
    preparer = Preparer(schema)
    chunk = Chunk(len(schema.frames))
    for sample in samples:
        chunk.add(*preparer.prepare(sample))
    coders = [codecs.plan([np.zeros(1, leaf.stored)], "raw") for leaf in schema.frames]
    return RowLayout(schema), encode(chunk, coders, 1)


def footers(path: Path) -> list[dict[str, Any]]:
    shards = sorted(path.glob("shard-*.cws"))
    return [read_footer(shard, read_ends(shard)) for shard in shards]


def test_it_appears_when_it_is_finished(tmp_path: Path) -> None:
    layout, part = encoded([torch.arange(9)] * 4)
    shard = OpenShard(tmp_path, 3, layout, [None], {"plans": []}, 1 << 20)
    shard.add(part)
    (aside,) = tmp_path.iterdir()
    assert aside.name.startswith(".shard-00000003.cws.cordwood-")
    ends = shard.finish()
    assert list(tmp_path.iterdir()) == [tmp_path / shard_name(3)]
    assert read_ends(tmp_path / shard_name(3)) == ends
    data = (tmp_path / shard_name(3)).read_bytes()
    with (tmp_path / shard_name(3)).open("rb") as file:
        table = ShardTable.read(file.fileno(), "here", ends, layout)
        rows, intact = table.read_rows(file.fileno(), ends.file_size, ends.rows_offset, ends.count, layout)
    assert intact.all()
    assert layout.sound(rows, table.frames_end).all()
    assert data[32 : table.frames_end] == b"".join(part.frames)
    assert data[table.frames_end : ends.rows_offset] == table.packed
    written = np.frombuffer(data[ends.rows_offset : ends.footer_offset], np.uint8).reshape(4, -1)
    assert _native.crc32c(written[:, -4:].tobytes()) == ends.rows_crc


def test_it_disappears_when_it_is_dropped(tmp_path: Path) -> None:
    layout, part = encoded([torch.arange(9)] * 4)
    shard = OpenShard(tmp_path, 0, layout, [None], {}, 1 << 20)
    shard.add(part)
    shard.drop()
    shard.drop()
    assert list(tmp_path.iterdir()) == []


def test_an_error_while_it_is_finished_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout, part = encoded([torch.arange(9)] * 4)
    shard = OpenShard(tmp_path, 0, layout, [None], {}, 1 << 20)
    shard.add(part)

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        shard.finish()
    assert list(tmp_path.iterdir()) == []


def test_it_ends_with_the_sample_that_makes_it_full(tmp_path: Path) -> None:
    layout, part = encoded([torch.zeros(100, dtype=torch.uint8)] * 10)
    one = int(part.sizes[0, 0]) + 8 + 2  # an offset, a checksum and a size
    for wanted, fits in ((1, 1), (one, 1), (one + 1, 2), (3 * one, 3), (3 * one + 1, 4), (10 * one, 10), (1 << 30, 10)):
        shard = OpenShard(tmp_path, 0, layout, [None], {}, wanted)
        assert shard.room_for(part.frame_bytes()) == fits
        shard.add(part.part(0, 1))
        assert shard.is_full == (fits == 1)
        if fits > 1:
            assert shard.room_for(part.frame_bytes()[1:]) == fits - 1
            shard.add(part.part(1, fits))
        assert shard.is_full == (wanted <= 10 * one)
        shard.drop()


def test_it_ends_when_it_has_as_many_samples_as_a_shard_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_shard, "MOST_SAMPLES", 3)
    path = write(tmp_path / "s", list(range(8)))
    assert [read_ends(shard).count for shard in sorted(path.glob("shard-*"))] == [3, 3, 2]


def test_numbers_alone_make_shards_too(tmp_path: Path) -> None:
    path = write(tmp_path / "s", [{"x": i, "y": i / 2} for i in range(100)], shard_bytes=1000)
    assert len(footers(path)) == -(-100 // -(-1000 // (8 + 16 + 1)))
    assert [cw.open(path)[i] for i in (0, 57, 99)] == [{"x": i, "y": i / 2} for i in (0, 57, 99)]


def test_what_the_footer_tells(tmp_path: Path) -> None:
    samples = [photo(i) for i in range(10)]
    path = write(tmp_path / "s", samples, goal="raw", fields={"meta.boxes": cw.Field(store_as="float16")})
    (footer,) = footers(path)
    fields = {field.pop("name"): field for field in footer["fields"]}
    assert list(fields) == list(cw.open(path).schema.names)
    assert fields["image"] == {
        "raw_bytes": 10 * 192,
        "stored_bytes": 10 * (1 + 192),  # the number of the chain, and the array: its shape is in the plan
        "present": 10,
        "none": 0,
        "absent": 0,
        "ranks": [3, 3],
        "shapes": {"min": [3, 8, 8], "max": [3, 8, 8]},
        "worst_error": None,
    }
    assert fields["label"] == {
        "raw_bytes": 80,
        "stored_bytes": 80,
        "present": 10,
        "none": 0,
        "absent": 0,
        "ranks": None,
        "shapes": None,
        "worst_error": None,
    }
    boxes = fields["meta.boxes"]
    assert boxes["shapes"] == {"min": [0, 4], "max": [2, 4]}
    assert boxes["raw_bytes"] == sum(sample["meta"]["boxes"].nbytes for sample in samples)
    exact = torch.arange(8) / 7
    assert boxes["worst_error"] == (exact.half().float() - exact).abs().max().item()
    assert [fields["note"][state] for state in ("present", "none", "absent")] == [1, 1, 8]
    assert footer["store"] == json.loads((path / "store.json").read_text())["body"]
    assert footer["plans"] == list(dict.fromkeys(e["plan"] for e in footer["store"]["fields"] if e["plan"]))


def test_shapes_of_different_ranks(tmp_path: Path) -> None:
    path = write(tmp_path / "s", [np.zeros(3), np.zeros((2, 2)), np.zeros((0, 5, 1))])
    (field,) = footers(path)[0]["fields"]
    assert (field["ranks"], field["shapes"], field["present"]) == ([1, 3], None, 3)


def test_each_shard_has_its_own_statistics(tmp_path: Path) -> None:
    fields = {"value": cw.Field(store_as="float32")}
    samples = [torch.full((n,), 0.1, dtype=torch.float64) for n in range(1, 5)]
    shards = footers(write(tmp_path / "s", samples, shard_bytes=1, fields=fields))
    assert [shard["fields"][0]["raw_bytes"] for shard in shards] == [8, 16, 24, 32]
    assert [shard["fields"][0]["shapes"]["max"] for shard in shards] == [[1], [2], [3], [4]]
    error = abs(float(np.float32(0.1)) - 0.1)
    assert [shard["fields"][0]["worst_error"] for shard in shards] == [error] * 4


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(1, 64), st.data())
def test_what_was_added_is_read_anywhere(parts: list[bytes], in_memory: int, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_shard, "_IN_MEMORY", in_memory)
        patch.setattr(open_shard, "_AT_ONCE", data.draw(st.integers(1, 50)))
        rows = SpooledRows("/tmp")
        for part in parts:
            rows.append(part)
        whole = b"".join(parts)
        assert rows.size == len(whole)
        start = data.draw(st.integers(0, len(whole)))
        end = data.draw(st.integers(start, len(whole)))
        assert rows.read(start, end) == whole[start:end]
        assert b"".join(rows.pieces(data.draw(st.integers(1, 9)))) == whole
        rows.close()


def test_the_file_has_no_name_and_a_forked_process_changes_nothing(tmp_path: Path) -> None:
    rows = SpooledRows(tmp_path)
    rows.append(b"a" * (2 << 20))
    assert list(tmp_path.iterdir()) == []
    child = os.fork()
    if child == 0:
        rows.append(b"b")
        rows.close()
        os._exit(0)
    os.waitpid(child, 0)
    rows.append(b"c")
    assert rows.read((2 << 20) - 1, rows.size) == b"ac"
    rows.close()


def test_a_folder_that_takes_no_file(tmp_path: Path) -> None:
    rows = SpooledRows(tmp_path / "missing")
    rows.append(b"a")
    with pytest.raises(StorageError, match="rows of a shard cannot be kept"):
        rows.append(b"a" * (1 << 20))
