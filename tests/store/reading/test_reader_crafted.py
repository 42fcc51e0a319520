"""Rows and frames whose checksums are right, but which tell of what cannot be, in every way of reading."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cordwood as cw
from cordwood.errors import FormatError
from tests.format.store.bad_store_json import Bad
from tests.format.store.bad_stores import bad_fields, bad_rows, bad_shards
from tests.format.store.craft_store import (
    ROWS,
    CraftedStore,
    Row,
    body,
    byte_frame,
    good_store,
    mapping,
    node,
    number,
    one_shard,
    raw_frame,
    schema_hash,
    shard,
    shard_header,
    write,
)
from tests.format.support import craft
from tests.store.support.samples import assert_same_sample

BAD = [*bad_shards(), *bad_rows(), *bad_fields()]
IDS = [f"{bad.number}: {bad.label}" for bad in BAD]
WAYS: dict[str, Callable[[cw.Dataset], Any]] = {
    "samples": lambda ds: ds.__getitems__(list(range(len(ds)))),
    "a batch": lambda ds: ds[list(range(len(ds)))],
    "fields": lambda ds: [ds.select(name)[list(range(len(ds)))] for name in ds.names],
    "a whole": lambda ds: list(cw.concat([ds, ds])[::-1]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("bad", BAD, ids=IDS)
def test_what_cannot_be_is_refused_however_it_is_read(bad: Bad, way: str, tmp_path: Path) -> None:
    write(bad.folder, tmp_path)
    with pytest.raises(FormatError) as caught:
        WAYS[way](cw.open(tmp_path))
    assert "shard-" in str(caught.value)


@pytest.mark.parametrize("way", WAYS)
def test_the_good_one_is_read_in_these_ways(way: str, tmp_path: Path) -> None:
    WAYS[way](cw.open(write(good_store(), tmp_path)))


@pytest.mark.parametrize(
    ("bad", "names"),
    [
        (bad, ["t", "a", "n"])
        for bad in bad_fields()
        if bad.number in (20, 21, 22) and bad.label.endswith(("four bytes", "the frame", "version", "float32", "there"))
    ],
    ids=lambda value: value.label if isinstance(value, Bad) else None,
)
def test_fields_that_are_not_asked_for_are_not_looked_at(bad: Bad, names: list[str], tmp_path: Path) -> None:
    ds = cw.open(write(bad.folder, tmp_path))
    assert ds.select(*names)[0] == ("one", [None, 7], 1)


def root_store(frames: list[bytes], dtype: str = "float32") -> Any:
    """Samples that are a tensor themselves, which has no state."""
    schema = node("tensor", dtype=dtype)
    header = shard_header(schema_hash(schema, [dtype]))
    return CraftedStore(body(schema, ["value"]), [shard([Row([frame]) for frame in frames], header)]).folder()


def test_a_sample_that_is_a_tensor_always_has_its_frame(tmp_path: Path) -> None:
    frame = raw_frame(np.arange(3, dtype="<f4"))
    assert_same_sample(cw.open(write(root_store([frame]), tmp_path / "good"))[0], torch.arange(3.0))
    ds = cw.open(write(root_store([frame, b""]), tmp_path / "bad"))
    assert_same_sample(ds[0], torch.arange(3.0))
    for way in (lambda: ds[1], lambda: ds[[0, 1]], lambda: ds.__getitems__([1])):
        with pytest.raises(FormatError, match="sample 1 "):
            way()


@pytest.mark.parametrize("shape", [(1 << 40,), (1 << 47,), (1 << 20, 1 << 20), (0, 1 << 47), (1 << 23, 0, 1 << 23)])
def test_shapes_that_no_machine_holds(shape: tuple[int, ...], tmp_path: Path) -> None:
    """The frame's header can say anything; so many of them in a batch, all the more."""
    frame = craft.frame("complex128", shape, craft.chain(), [])
    ds = cw.open(write(root_store([frame, frame], "complex128"), tmp_path))
    for way in (lambda: ds[0], lambda: ds[[0, 1] * 5000], lambda: ds.__getitems__([0, 1])):
        try:
            found = way()
        except FormatError:
            continue
        assert 0 in shape, "only nothing fits"
        assert all(one.numel() == 0 for one in found) if isinstance(found, list) else found.numel() == 0


@pytest.mark.parametrize("kind", ["str", "bytes", "any"])
@pytest.mark.parametrize("shape", [(1 << 40,), (1 << 47,), (1 << 40, 0), (0, 1 << 47), ()])
def test_texts_that_no_machine_holds(kind: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    schema = node(kind)
    frame = craft.frame("uint8", shape, craft.chain(), [])
    made = shard([Row([frame])] * 2, shard_header(schema_hash(schema, ["uint8"])))
    ds = cw.open(write(CraftedStore(body(schema, ["value"]), [made]).folder(), tmp_path))
    for way in (lambda: ds[0], lambda: ds[[0, 1] * 5000], lambda: ds.__getitems__([0, 1])):
        with pytest.raises(FormatError):
            way()


def test_a_bool_that_is_neither_is_one_of_both(tmp_path: Path) -> None:
    """A writer writes 0 or 1; whatever is there, what comes out is a bool like any other."""
    schema = mapping(py=node("scalar", type="bool", dtype="bool"), t=node("scalar", type="tensor", dtype="bool"))
    rows = [Row(columns=bytes([value, value]), states=(0, 0)) for value in (0, 1, 2, 255)]
    store = CraftedStore(body(schema, ["py", "t"]), [shard(rows, shard_header(schema_hash(schema, [])))])
    ds = cw.open(write(store.folder(), tmp_path))
    expected = torch.tensor([False, True, True, True])
    assert [ds[i]["py"] for i in range(4)] == expected.tolist()
    assert_same_sample([ds[i]["t"] for i in range(4)], list(expected))
    assert_same_sample(ds[[0, 1, 2, 3]], {"py": expected, "t": expected})
    assert_same_sample(ds.column("t"), expected)


def test_columns_that_are_absent_are_none_whatever_bytes_they_have(tmp_path: Path) -> None:
    row = replace(ROWS[1], columns=number(77) + number(78), states=(1, 2, 0, 2, 2, 1, 1))
    ds = cw.open(write(one_shard(row), tmp_path))
    assert ds[0] == {"n": None, "t": "", "a": None, "l": None}
    assert ds[[0, 0]] == {"n": None, "t": ["", ""], "a": None, "l": None}


def test_frames_of_one_row_may_not_be_anothers(tmp_path: Path) -> None:
    """The same number of bytes, the same dtype and shape, a checksum that is right: the tag tells."""
    one, other = byte_frame(b"one"), byte_frame(b"two")
    frames = list(ROWS[0].frames)
    right = Row([frames[0], one, frames[2]], ROWS[0].columns, ROWS[0].states)
    wrong = replace(
        right, frames=[frames[0], other, frames[2]], tags=[*np.frombuffer(right.packed(0, 32)[32:44], "<u4")]
    )
    assert cw.open(write(one_shard(right), tmp_path / "a"))[0]["t"] == "one"
    ds = cw.open(write(one_shard(wrong), tmp_path / "b"))
    with pytest.raises(FormatError, match=r"field 't'.*it is the frame of another sample"):
        ds[0]
    assert_same_sample(ds.select("x")[0][0], torch.arange(4.0))
