"""Whatever the package writes, the plain reader reads to the same samples, and finds every part of it in order."""

import json
import struct
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cordwood
from tests.format.store.craft_store import (
    INT,
    ROWS,
    SHARD,
    Row,
    body,
    good_store,
    index,
    node,
    schema_hash,
    shard,
    shard_header,
    store_json,
    write,
)
from tests.format.store.store_readers import as_torch, native_checksums, plain
from tests.store.support.samples import assert_same_sample, datasets, values

VALUES = values().filter(lambda value: value is not None)
pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")


def written(samples: list[Any], path: Path, **options: Any) -> Path:
    with cordwood.Writer(path, **options) as writer:
        for sample in samples:
            writer.append(sample)
    return path


def assert_read_alike(samples: list[Any], path: Path) -> None:
    """By both readers, and every shard with all that only verifying looks at."""
    with native_checksums():
        store = plain.Store(path)
        dataset = cordwood.open(path)
        assert len(store) == len(dataset) == len(samples)
        for number, sample in enumerate(samples):
            assert_same_sample(sample, as_torch(store[number]))
            assert_same_sample(sample, dataset[number])
        for place in range(len(store.records)):
            store.shard(place).verify_rows()
            assert_footer_is_right(store, place)


def assert_footer_is_right(store: Any, place: int) -> None:
    shard = store.shard(place)
    footer = shard.footer()
    assert [entry["name"] for entry in footer["fields"]] == [entry["name"] for entry in store.fields]
    assert footer["store"] == json.loads((store.path / "store.json").read_bytes())["body"]
    for entry in footer["fields"]:
        assert entry["present"] + entry["none"] + entry["absent"] == shard.count
    stored = sum(
        entry["stored_bytes"] for number, entry in enumerate(footer["fields"]) if number in store.schema.frames
    )
    assert stored == shard.frames_end - 32
    plans = {path.stem for path in (store.path / "plans").glob("*.json")}
    assert set(footer["plans"]) <= plans


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60)
@given(st.one_of(datasets(), st.lists(VALUES, min_size=1, max_size=4)), st.data())
def test_the_plain_reader_reads_what_is_written(samples: list[Any], data: st.DataObject) -> None:
    goal = data.draw(st.sampled_from(["small", "balanced", "fast", "raw"]))
    shard_bytes = data.draw(st.sampled_from([1, 100, 1 << 20]))
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = written(samples, Path(folder) / "made.cordwood", goal=goal, shard_bytes=shard_bytes)
        except cordwood.UsageError as error:
            assert "both called" in str(error)  # keys that make one name of two
            return
        assert_read_alike(samples, path)


def test_shards_that_differ_in_anything_have_other_trailers(tmp_path: Path) -> None:
    """What ties a shard to its place in the store must depend on every row."""
    samples = [{"x": torch.full((3,), float(i)), "n": i} for i in range(6)] + [{"x": torch.zeros(3), "n": -1}] * 2
    path = written(samples, tmp_path / "made.cordwood", goal="raw", shard_bytes=1)
    store = plain.Store(path)
    assert len({record.size for record in store.records}) == 1
    assert len({record.trailer_checksum for record in store.records}) == 7  # the last two are equal


def test_a_store_that_grows_is_read_alike(tmp_path: Path) -> None:
    samples = [{"x": torch.arange(i), "n": i} for i in range(5)]
    path = written(samples[:3], tmp_path / "made.cordwood")
    with cordwood.Writer(path, mode="append") as writer:
        writer.extend(samples[3:])
    assert_read_alike(samples, path)
    assert len(plain.Store(path).records) == 2


def test_rows_that_are_not_back_to_back_are_found(tmp_path: Path) -> None:
    write(good_store(), tmp_path)
    store = plain.Store(tmp_path)
    good = store.shard(0)
    good.verify_rows()
    good.data = good.data[: good.rows_at] + good.data[good.rows_at :].replace(struct.pack("<Q", 32), bytes(8), 1)
    with pytest.raises(plain.BadStore):
        good.verify_rows()


SMALL: dict[str, tuple[Any, list[str], list[str], Row, Any]] = {  # schema, names, stored dtypes, row, sample
    "a number": (INT, ["value"], [], Row(columns=struct.pack("<q", -5)), -5),
    "a text": (node("str"), ["value"], ["uint8"], Row([ROWS[0].frames[1]]), "one"),
    "nothing": (node("dict", keys=[], items=[]), [], [], Row(), {}),
    "None in a list": (node("list", items=[node("none")]), [], [], Row(states=(2,)), [None]),
    "keys of any kind": (
        node("dict", keys=["", -7], items=[INT, INT]), ["", "-7"], [], Row(columns=bytes(16), states=(0, 1)), {"": 0}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_small_schemas(name: str, tmp_path: Path) -> None:
    schema, names, stored, row, expected = SMALL[name]
    data = shard([row], shard_header(schema_hash(schema, stored)))
    write({"store.json": store_json(body(schema, names)), SHARD.format(0): data, "shards.bin": index([data])}, tmp_path)
    assert plain.Store(tmp_path)[0] == expected
    assert cordwood.open(tmp_path)[0] == expected
