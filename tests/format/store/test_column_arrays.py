"""Arrays that lie in columns, and frames that lie apart: both readers read them, and refuse what cannot be."""

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cordwood
from cordwood.errors import FormatError
from tests.format.store.craft_store import (
    INT,
    SHARD,
    CraftedStore,
    Folder,
    Json,
    Row,
    body,
    byte_frame,
    mapping,
    node,
    raw_frame,
    resealed,
    schema_hash,
    shard,
    shard_header,
    write,
)
from tests.format.store.store_readers import native_checksums, plain, read_cordwood, read_plain
from tests.format.support import craft
from tests.store.support.samples import assert_same_sample

SCHEMA = mapping(
    a=node("tensor", dtype="uint8", shape=[3]), t=node("str"), b=node("ndarray", dtype="float32", shape=[2, 2]), n=INT
)
TEXT = byte_frame(b"one")
OTHER_A, OTHER_B = raw_frame(np.arange(5, dtype="u1")), raw_frame(np.ones(1, "<f4"))
SECOND = 32 + len(TEXT)  # where the frames of the second sample begin


def apart(begin: int, frame: bytes, size: int | None = None) -> bytes:
    return begin.to_bytes(6, "little") + (len(frame) if size is None else size).to_bytes(6, "little")


def columns(a: bytes, b: bytes, n: int) -> bytes:
    return a.ljust(12, b"\0") + b.ljust(16, b"\0") + struct.pack("<q", n)


IN_COLUMNS = Row([TEXT], columns(b"abc", struct.pack("<4f", 1, 2, 3, 4), 7), (0, 0, 0, 0))
APART = Row(
    [TEXT],
    columns(apart(SECOND + len(TEXT), OTHER_A), apart(SECOND + len(TEXT) + len(OTHER_A), OTHER_B), 8),
    (3, 0, 3, 0),
    apart=(OTHER_A, OTHER_B),
)
MISSING = Row([b""], columns(b"", b"", 0), (1, 2, 2, 1))


def store(*rows: Row, schema: Json = SCHEMA) -> Folder:
    header = shard_header(schema_hash(SCHEMA, ["uint8"]))
    return CraftedStore(body(schema, ("a", "t", "b", "n")), [shard(rows, header)]).folder()


def test_both_readers_give_the_arrays(tmp_path: Path) -> None:
    write(store(IN_COLUMNS, APART, MISSING), tmp_path)
    expected: list[dict[str, Any]] = [
        {"a": torch.tensor([97, 98, 99], dtype=torch.uint8), "t": "one", "n": 7}
        | {"b": np.array([[1, 2], [3, 4]], np.float32)},
        {"a": torch.arange(5, dtype=torch.uint8), "t": "one", "b": np.ones(1, np.float32), "n": 8},
        {"t": None, "b": None},
    ]
    for read in (read_plain, read_cordwood):
        for found, sample in zip(read(tmp_path), expected, strict=True):
            found = {
                key: value.numpy() if key == "b" and isinstance(value, torch.Tensor) else value
                for key, value in found.items()
            }
            assert found.keys() == sample.keys()
            for key, value in sample.items():
                same = (
                    torch.equal(found[key], value)
                    if isinstance(value, torch.Tensor)
                    else np.array_equal(found[key], value)
                )
                assert same, key
    plain.Store(tmp_path).shard(0).verify_rows()


def with_a(change: Callable[[int, bytes], bytes], frame: bytes = OTHER_A) -> Row:
    """The second sample, whose `a` lies apart in another way."""
    begin = SECOND + len(TEXT)
    column = apart(begin + len(frame), OTHER_B)
    return replace(APART, columns=columns(change(begin, frame), column, 8), apart=(frame, OTHER_B))


NEEDS_A_PLAN = bytearray(raw_frame(np.arange(5, dtype="u1")))
NEEDS_A_PLAN[10] |= 1
BAD_ROWS = {
    "begins too late": (18, with_a(lambda begin, frame: apart(begin + 1, frame))),
    "begins too early": (18, with_a(lambda begin, frame: apart(begin - 1, frame))),
    "begins at 0": (18, with_a(lambda begin, frame: apart(0, frame))),
    "no bytes": (18, with_a(lambda begin, frame: apart(begin, frame, 0))),
    "too many bytes": (18, with_a(lambda begin, frame: apart(begin, frame, (1 << 48) - 1))),
    "one byte too few": (18, with_a(lambda begin, frame: apart(begin, frame, len(frame) - 1))),
    "a text apart": (19, replace(APART, states=(3, 3, 3, 0))),
    "a number apart": (19, replace(APART, states=(3, 0, 3, 3))),
    "no frame": (21, with_a(apart, bytes(40))),
    "a frame cut short": (21, with_a(apart, OTHER_A[:-1])),
    "a frame of two bytes": (21, with_a(apart, b"CW")),
    "another dtype": (22, with_a(apart, raw_frame(np.arange(5, dtype="<u2")))),
    "a plan": (21, with_a(apart, bytes(NEEDS_A_PLAN))),
}


@pytest.mark.parametrize("what", BAD_ROWS)
def test_rows_that_cannot_be_are_refused(what: str, tmp_path: Path) -> None:
    number, row = BAD_ROWS[what]
    write(store(IN_COLUMNS, row, MISSING), tmp_path)
    with pytest.raises(plain.BadStore) as refused:
        plain.Store(tmp_path)[1]
    assert refused.value.number == number
    ds = cordwood.open(tmp_path)
    for numbers in ([1], [0, 1]):
        with pytest.raises(FormatError):
            ds[numbers]
    with pytest.raises(FormatError):
        ds[1]
    assert ds[0]["n"] == 7
    found = cordwood.verify(tmp_path)
    assert [damage.first for damage in found.damages if damage.first is not None] == [1]


SHAPES: list[Any] = [[], [0], [-1], [257], [16, 17], ["3"], [True], [3.0], 3, None, [1] * 33, [2**63]]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes_that_cannot_be_are_refused(shape: Any, tmp_path: Path) -> None:
    schema = mapping(a=node("tensor", dtype="uint8", shape=shape), t=node("str"), b=INT, n=INT)
    made = CraftedStore(body(schema, ("a", "t", "b", "n")), []).folder()
    refused(made, tmp_path)


def refused(folder: Folder, path: Path) -> None:
    write(folder, path)
    with pytest.raises(plain.BadStore):
        plain.Store(path)
    with pytest.raises(FormatError):
        cordwood.open(path)


def test_a_root_has_no_shape(tmp_path: Path) -> None:
    refused(CraftedStore(body(node("tensor", dtype="uint8", shape=[3]), ("value",)), []).folder(), tmp_path)


def test_columns_are_not_rounded(tmp_path: Path) -> None:
    made = body(mapping(a=node("tensor", dtype="float32", shape=[3])), ("a",))
    made["fields"][0]["store_as"] = "float16"
    refused(CraftedStore(made, []).folder(), tmp_path)


def answer(read: Any, path: Path, refusal: type[Exception]) -> list[Any] | None:
    try:
        samples: list[Any] = read(path)
    except refusal:
        return None
    return samples


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_both_readers_agree_on_damaged_rows(data: st.DataObject, tmp_path: Path) -> None:
    """Bytes of rows are changed, and all checksums made right again."""
    folder = store(IN_COLUMNS, APART, MISSING)
    name = SHARD.format(0)
    shard_bytes = bytearray(folder[name])
    start, count, row_size = struct.unpack_from("<QQI", shard_bytes, len(shard_bytes) - 48)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(start, start + count * row_size - 1))
        shard_bytes[at] = data.draw(
            st.integers(0, 255) | st.sampled_from([shard_bytes[at] ^ 1, (shard_bytes[at] + 1) % 256])
        )
    path = write(resealed(folder | {name: bytes(shard_bytes)}, frames=1), tmp_path / "s")
    with native_checksums():
        found, expected = answer(read_cordwood, path, FormatError), answer(read_plain, path, plain.BadStore)
    rmtree(path)
    assert (found is None) == (expected is None)
    for one, other in zip(found or (), expected or (), strict=True):
        b, same = (sample.pop("b", None) for sample in (one, other))
        assert (b is None) == (same is None)
        assert b is None or np.asarray(b).tobytes() == np.asarray(same).tobytes()
        assert_same_sample(one, other)


def test_a_frame_is_made_as_the_page_says() -> None:
    assert craft.frame("uint8", (5,), craft.chain(), [bytes(range(5))]) == OTHER_A
