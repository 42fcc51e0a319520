"""Shards of version 2 with short frames: the plain reader finds their plans, verifies them, and rejects all else."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.format.store.craft_packed import PackedLeaf, PackedRow, packed_shard, plan_file, plan_json
from tests.format.store.craft_store import (
    INT,
    SHARD,
    Folder,
    Row,
    body,
    byte_frame,
    index,
    mapping,
    node,
    number,
    raw_frame,
    schema_hash,
    shard,
    shard_header,
    store_json,
    write,
)
from tests.format.store.store_readers import plain
from tests.format.support import craft
from tests.format.support.craft_coding import ZSTD_DICTIONARY, coded_block
from tests.format.support.craft_short import NARROW, Chain, ShortPlan, flat_block, range_of, short_frame, template

# A small tensor of a usual shape, a number, and a text.
SCHEMA = mapping(x=node("tensor", dtype="int32"), n=INT, t=node("str"))
HASH = schema_hash(SCHEMA, ["int32", "uint8"])
WORDS = b"words of the plan "
DICTIONARY = craft.assets(dictionary=WORDS)
ON = craft.coded()
NUMBERS = ShortPlan("int32", [2, None], [Chain(template(NARROW)), Chain(template(coder=ON)), Chain(None)])
TEXTS = ShortPlan("uint8", [None], [Chain(template()), Chain(template(coder=ON), DICTIONARY)])

ARRAY = np.array([[5, 6, 7], [7, 6, 5]], "<i4")
NARROWED = short_frame(0, [3], range_of(8, 5), (ARRAY - 5).astype("u1").tobytes())
TEXT = WORDS * 4
BY_WORDS = short_frame(1, [len(TEXT)], block=flat_block(np.frombuffer(TEXT, "u1"), [ZSTD_DICTIONARY], dictionary=WORDS))
FULL_BY_WORDS = craft.frame(
    "uint8", (len(TEXT),), craft.chain(coder=ON),
    [coded_block([np.frombuffer(TEXT, "u1").reshape(1, -1)], [ZSTD_DICTIONARY], dictionary=WORDS)],
    plan_hash=craft.hash_of(DICTIONARY),
)  # fmt: skip
OTHER = np.arange(7, dtype="<i4")
ROWS = (
    PackedRow([NARROWED, BY_WORDS], number(1), (0, 0, 0)),
    PackedRow([raw_frame(OTHER), FULL_BY_WORDS], number(2), (0, 0, 0)),
    PackedRow([b"", short_frame(0, [2], block=b"hi")], number(3), (1, 0, 0)),
    PackedRow([short_frame(0, [0]), b""], bytes(8), (0, 2, 2)),
)
SAMPLES: tuple[dict[str, Any], ...] = (
    {"x": ARRAY, "n": 1, "t": TEXT.decode()},
    {"x": OTHER, "n": 2, "t": TEXT.decode()},
    {"n": 3, "t": "hi"},
    {"x": np.zeros((2, 0), "i4"), "n": None, "t": None},
)


def store(
    rows: Any = ROWS,
    numbers: Any = None,
    texts: Any = None,
    covered: tuple[bool, bool] = (False, False),
    fields: tuple[Any, Any] = (None, None),
    tables: tuple[str | None, str | None] = (None, None),
) -> Folder:
    """A store of one shard; `fields` are the plans that store.json names, `tables` those of the shard unless right."""
    plans = [
        plan_file(plan_json(right) if given is None else given) for right, given in ((NUMBERS, numbers), (TEXTS, texts))
    ]
    names = [name if given is None else given for (name, _), given in zip(plans, tables, strict=True)]
    leaves = [PackedLeaf(2, each, name) for each, name in zip(covered, names, strict=True)]
    made = body(SCHEMA, ("x", "n", "t")) | {"!format": 2}
    made["fields"][0]["plan"], made["fields"][2]["plan"] = fields
    data = packed_shard(HASH, leaves, rows)
    files = {f"plans/{name}.json": content for name, content in plans}
    return {"store.json": store_json(made), SHARD.format(0): data, "shards.bin": index([data])} | files


def assert_sample(found: Any, expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, np.ndarray):
            assert found[name].dtype == "int32"
            assert found[name].array.shape == value.shape
            assert (found[name].array == value).all()
        else:
            assert found[name] == value


def rejected(folder: Folder, path: Path, sample: int = 0) -> int:
    with pytest.raises(plain.BadStore) as caught:
        plain.Store(write(folder, path))[sample]
    return int(caught.value.number)


def test_samples_are_read(tmp_path: Path) -> None:
    made = plain.Store(write(store(), tmp_path))
    assert len(made) == len(SAMPLES)
    for place, sample in enumerate(SAMPLES):
        assert_sample(made[place], sample)
    made.shard(0).verify_rows()


SHORT_ROWS = (ROWS[0], ROWS[2], ROWS[3])


def test_samples_of_covered_leaves_are_read(tmp_path: Path) -> None:
    for covered in ((True, False), (False, True), (True, True)):
        path = tmp_path / "-".join(map(str, covered))
        made = plain.Store(write(store(SHORT_ROWS, covered=covered), path))
        for place, sample in enumerate((SAMPLES[0], SAMPLES[2], SAMPLES[3])):
            assert_sample(made[place], sample)
        made.shard(0).verify_rows()


def test_a_changed_byte_of_a_frame_is_found(tmp_path: Path) -> None:
    """Without a checksum of its own: by the tag, or by the row's checksum."""
    at = 32 + len(NARROWED) - 1
    for covered, expected in ((False, 20), (True, 17)):
        folder = store(SHORT_ROWS, covered=(covered, False))
        data = bytearray(folder[SHARD.format(0)])
        data[at] ^= 1
        assert rejected(folder | {SHARD.format(0): bytes(data)}, tmp_path / str(covered)) == expected


def test_a_tag_is_of_its_frame(tmp_path: Path) -> None:
    other = craft.crc32c(BY_WORDS)
    assert rejected(store([replace(ROWS[0], tags=(other, other))]), tmp_path) == 20


def test_a_covered_leaf_has_small_short_frames_only(tmp_path: Path) -> None:
    full = replace(ROWS[0], frames=[raw_frame(ARRAY), BY_WORDS])
    assert rejected(store([full], covered=(True, False)), tmp_path / "full") == 20
    for size, is_read in ((1024, True), (1025, False)):
        long = short_frame(0, [size - 3], block=b"a" * (size - 3))
        assert len(long) == size
        folder = store([replace(ROWS[0], frames=[NARROWED, long])], covered=(False, True))
        if is_read:
            assert plain.Store(write(folder, tmp_path / str(size)))[0]["t"] == "a" * (size - 3)
        else:
            assert rejected(folder, tmp_path / str(size)) == 18


def test_only_the_plan_of_the_table_is_for_short_frames(tmp_path: Path) -> None:
    """Not that of store.json, nor any other that is there."""
    name = plan_file(plan_json(NUMBERS))[0]
    none, texts = "0" * 16, plan_file(plan_json(TEXTS))[0]
    assert rejected(store(tables=(none, None)), tmp_path / "none") == 21
    assert rejected(store(tables=(none, None), fields=(name, texts)), tmp_path / "in store.json") == 21
    assert rejected(store(tables=("1" * 16, None), fields=(name, texts)), tmp_path / "missing") == 21
    assert rejected(store(tables=(texts, None)), tmp_path / "another") in (21, 22)
    made = plain.Store(write(store(fields=("2" * 16, "2" * 16)), tmp_path / "right"))
    assert_sample(made[0], SAMPLES[0])


def test_full_frames_find_their_assets_in_any_chain_of_any_plan(tmp_path: Path) -> None:
    none = "0" * 16
    rows = (ROWS[1],)
    assert_sample(plain.Store(write(store(rows, tables=(none, none)), tmp_path / "any"))[0], SAMPLES[1])
    of_numbers = plan_json(replace(NUMBERS, chains=[*NUMBERS.chains, Chain(None, DICTIONARY)]))
    without = plan_json(replace(TEXTS, chains=TEXTS.chains[:1]))
    folder = store(rows, numbers=of_numbers, texts=without)
    assert_sample(plain.Store(write(folder, tmp_path / "another"))[0], SAMPLES[1])
    assert rejected(store(rows, texts=without), tmp_path / "missing") == 21


def test_plans_of_version_1_have_one_chain_for_full_frames(tmp_path: Path) -> None:
    chain = plan_json(TEXTS)["chains"][1]
    first = {"cordwood_plan": 1, "goal": "balanced", "dtype": "uint8", "stages": [], "assets": chain["assets"]}
    folder = store((ROWS[1],), texts=first)
    assert_sample(plain.Store(write(folder, tmp_path / "full"))[0], SAMPLES[1])
    assert rejected(store(texts=first), tmp_path / "short") == 21


def chain_with(**changed: Any) -> list[Any]:
    return [plan_json(NUMBERS)["chains"][0] | changed, *plan_json(NUMBERS)["chains"][1:]]


FORMS: dict[str, Any] = {
    "not JSON": b"{",
    "not UTF-8": b'{"a": "\xff"}',
    "a list": [],
    "version 3": plan_json(NUMBERS, cordwood_plan=3),
    "no version": {name: value for name, value in plan_json(NUMBERS).items() if name != "cordwood_plan"},
    "no dtype": {name: value for name, value in plan_json(NUMBERS).items() if name != "dtype"},
    "an unknown dtype": plan_json(NUMBERS, dtype="int31"),
    "a list for a dtype": plan_json(NUMBERS, dtype=[]),
    "no shape": {name: value for name, value in plan_json(NUMBERS).items() if name != "shape"},
    "a shape that is a number": plan_json(NUMBERS, shape=3),
    "a negative size": plan_json(NUMBERS, shape=[2, -1]),
    "a size with a fraction": plan_json(NUMBERS, shape=[2.0, None]),
    "a size that is true": plan_json(NUMBERS, shape=[True, None]),
    "65 dimensions": plan_json(NUMBERS, shape=[2, None] + [1] * 63),
    "null for a shape": plan_json(NUMBERS, shape=None),
    "no chains": plan_json(NUMBERS, chains=[]),
    "65 chains": plan_json(NUMBERS, chains=chain_with() + chain_with()[:1] * 62),
    "chains that are an object": plan_json(NUMBERS, chains={"0": chain_with()[0]}),
    "a chain that is a text": plan_json(NUMBERS, chains=["", *chain_with()]),
    "a chain without assets": plan_json(NUMBERS, chains=[{"short": template(NARROW).hex()}, *chain_with()[1:]]),
    "a chain without short": plan_json(NUMBERS, chains=[{"assets": ""}, *chain_with()[1:]]),
    "assets that are null": plan_json(NUMBERS, chains=chain_with(assets=None)),
    "assets that are not base64": plan_json(NUMBERS, chains=chain_with(assets="*")),
    "assets that are no assets": plan_json(NUMBERS, chains=chain_with(assets="Q1dQTA==")),
    "a template of odd digits": plan_json(NUMBERS, chains=chain_with(short=template(NARROW).hex() + "0")),
    "a template with spaces": plan_json(NUMBERS, chains=chain_with(short=template(NARROW).hex(" "))),
    "a template that is a number": plan_json(NUMBERS, chains=chain_with(short=1)),
    "a template that cannot be": plan_json(NUMBERS, chains=chain_with(short="03")),
    "another chain's template that cannot be": plan_json(NUMBERS, chains=[*chain_with(), {"assets": "", "short": ""}]),
    "no template": plan_json(NUMBERS, chains=chain_with(short=None)),
}


@pytest.mark.parametrize("label", FORMS)
def test_a_damaged_plan_concerns_the_frames_that_need_it(label: str, tmp_path: Path) -> None:
    folder = store(numbers=FORMS[label])
    assert rejected(folder, tmp_path) == 21
    made = plain.Store(tmp_path)
    for place in (1, 2):
        assert_sample(made[place], SAMPLES[place])


def test_a_plan_with_another_hash_than_its_name_is_not_used(tmp_path: Path) -> None:
    folder = store()
    name = f"plans/{plan_file(plan_json(NUMBERS))[0]}.json"
    assert rejected(folder | {name: folder[name] + b"\n"}, tmp_path / "changed") == 21
    del folder[name]
    assert rejected(folder, tmp_path / "missing") == 21
    folder[f"{name}/x"] = b""
    assert rejected(folder, tmp_path / "a folder") == 21


GOOD_FORMS: dict[str, Any] = {
    "64 chains": plan_json(NUMBERS, chains=chain_with() + chain_with()[:1] * 61),
    "unknown members": plan_json(NUMBERS, later=1, chains=chain_with(later=[])),
    "nothing for writers": {
        "cordwood_plan": 2, "dtype": "int32", "shape": [2, None],
        "chains": [{"assets": "", "short": template(NARROW).hex().upper()}],
    },
}  # fmt: skip


@pytest.mark.parametrize("label", GOOD_FORMS)
def test_plans_of_other_forms_are_read(label: str, tmp_path: Path) -> None:
    made = plain.Store(write(store(numbers=GOOD_FORMS[label]), tmp_path))
    assert_sample(made[0], SAMPLES[0])


def test_short_frames_hold_what_the_leaf_has(tmp_path: Path) -> None:
    other = plan_json(replace(NUMBERS, dtype="uint32"))
    assert rejected(store(numbers=other), tmp_path / "dtype") == 22
    square = plan_json(replace(TEXTS, shape=[None, 1]))
    assert rejected(store(texts=square), tmp_path / "rank") == 22
    not_text = replace(ROWS[0], frames=[NARROWED, short_frame(0, [1], block=b"\xff")])
    assert rejected(store([not_text]), tmp_path / "text") == 23


def test_the_limit_is_the_callers(tmp_path: Path) -> None:
    same = short_frame(0, [2**40], range_of(0, 5))
    assert rejected(store([replace(ROWS[0], frames=[same, BY_WORDS])]), tmp_path) == 25


def test_what_is_no_frame_is_rejected(tmp_path: Path) -> None:
    frames: list[bytes] = [
        bytes([64]) + NARROWED[1:],
        b"C" + NARROWED[1:],
        NARROWED[:2],
        short_frame(9),
        b"\0",
        short_frame(2, [3]),
    ]
    for place, frame in enumerate(frames):
        tags = (craft.crc32c(frame), craft.crc32c(BY_WORDS))
        row = replace(ROWS[0], frames=[frame, BY_WORDS], tags=tags)
        assert rejected(store([row]), tmp_path / str(place)) in (20, 21)


def test_an_apart_frame_is_a_full_one(tmp_path: Path) -> None:
    schema = mapping(x=node("tensor", dtype="int32", shape=[3]))
    plan = ShortPlan("int32", [7], [Chain(template())])
    name, content = plan_file(plan_json(plan))
    for frame, is_read in ((raw_frame(OTHER), True), (short_frame(block=OTHER.tobytes()), False)):
        column = (32).to_bytes(6, "little") + len(frame).to_bytes(6, "little")
        data = packed_shard(schema_hash(schema, []), [], [PackedRow([], column, (3,), apart=[frame])], 0)
        made = body(schema, ("x",)) | {"!format": 2}
        made["fields"][0]["plan"] = name
        folder = {"store.json": store_json(made), SHARD.format(0): data, f"plans/{name}.json": content}
        if is_read:
            assert_sample(plain.Store(write(folder, tmp_path / "full"))[0], {"x": OTHER})
        else:
            assert rejected(folder, tmp_path / "short") == 21


def test_shards_of_version_1_have_full_frames_only(tmp_path: Path) -> None:
    """Beside shards of version 2 in one store."""
    folder = store()
    fits = Row([raw_frame(ARRAY), byte_frame(b"hi")], number(4), (0, 0, 0))
    for place, row in enumerate(
        (fits, replace(fits, frames=[NARROWED, byte_frame(b"hi")], tags=(craft.crc32c(NARROWED), 0)))
    ):
        second = shard([row], shard_header(HASH))
        files = {SHARD.format(1): second, "shards.bin": index([folder[SHARD.format(0)], second])}
        made = plain.Store(write(folder | files, tmp_path / str(place)))
        assert_sample(made[0], SAMPLES[0])
        if place == 0:
            assert_sample(made[4], {"x": ARRAY, "n": 4, "t": "hi"})
        else:
            with pytest.raises(plain.BadStore) as caught:
                made[4]
            assert caught.value.number == 21
