"""Plan files that are damaged, missing or not those that frames need: told by name, and other fields are read."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cordwood as cw
from cordwood.codecs import Plan
from cordwood.errors import FormatError, Reason
from cordwood.native import _native
from cordwood.store.format import plan_files
from cordwood.store.format.manifest import read as read_manifest
from cordwood.store.format.shard_file import read_ends, shard_name
from tests.store.support.samples import assert_same_sample

COUNT = 12
_LEAF = struct.Struct("<BBQ")  # of a shard's table


def samples(size: int) -> list[dict[str, Any]]:
    """With `size` of some hundreds the frames are larger than what the checksum of a row covers."""
    draw = np.random.default_rng(size)
    return [
        {
            "x": torch.from_numpy(draw.normal(size=size).astype(np.float32)),
            "y": torch.from_numpy(draw.integers(-9, 900, 3 * size).astype(np.int16)),
            "n": number,
        }
        for number in range(COUNT)
    ]


@pytest.fixture(params=[90, 900], ids=["covered", "with tags"])
def store(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A store of short frames in two shards; the float field has another plan than that of integers."""
    size: int = request.param
    with cw.Writer(tmp_path / "s", "balanced", shard_bytes=6 * size * 8) as writer:
        for sample in samples(size):
            writer.append(sample)
    assert len(list((tmp_path / "s").glob("*.cws"))) > 1
    assert len(plan_files.found(tmp_path / "s")) == 2
    return tmp_path / "s"


def plan_of(store: Path, field: str) -> Path:
    schema = read_manifest(store).schema
    assert schema is not None
    name = read_manifest(store).frame_plans[schema.leaf(field).frame]
    assert name is not None
    return plan_files.plan_path(store, name)


def retarget(store: Path, field: str, text: bytes) -> Path:
    """Have all shards name another plan for a field, of this text."""
    name = plan_files.plan_name(text)
    path = plan_files.plan_path(store, name)
    path.write_bytes(text)
    name_in_tables(store, field, int(name, 16))
    return path


def name_in_tables(store: Path, field: str, name: int) -> None:
    """Have the tables of all shards name another plan, with the right checksums."""
    old = plan_of(store, field)
    schema = read_manifest(store).schema
    assert schema is not None
    for path in store.glob("*.cws"):
        data = bytearray(path.read_bytes())
        end, leaves = read_ends(path).rows_offset, len(schema.frames)
        at = end - 4 - _LEAF.size * (leaves - schema.leaf(field).frame)
        width, flags, named = _LEAF.unpack_from(data, at)
        assert named == int(old.stem, 16)
        _LEAF.pack_into(data, at, width, flags, name)
        begin = end - 12 - _LEAF.size * leaves
        struct.pack_into("<I", data, end - 4, _native.crc32c(bytes(data[begin : end - 4])))
        path.write_bytes(data)


def assert_x_alone_is_lost(store: Path, told: str, reason: int | None = None) -> None:
    """Fail unless reading the float field says `told`, and all other fields are there."""
    size = 90 if len(cw.open(store).select("y")[0][0]) == 270 else 900
    expected = samples(size)
    ds = cw.open(store)
    for way in (lambda: ds[3], lambda: ds[[4, 3]], lambda: ds.__getitems__([3, 9]), lambda: ds.select("x")[3]):
        with pytest.raises(FormatError, match=told) as caught:
            way()
        assert "shard-0000000" in str(caught.value)
        assert reason is None or caught.value.reason == reason
    others = ds.select("y", "n")
    for number in range(COUNT):
        assert_same_sample(others[number], (expected[number]["y"], number))
    assert ds.column("n").tolist() == list(range(COUNT))
    result = cw.verify(store)
    assert not result.ok
    assert result.lost == [(0, COUNT - 1)]
    assert {damage.field for damage in result.damages if damage.first is not None} == {"x"}


def test_a_damaged_plan(store: Path) -> None:
    path = plan_of(store, "x")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 2
    path.write_bytes(data)
    assert_x_alone_is_lost(store, rf"plans/{path.name}: the plan's bytes have the hash .*restore it from a copy")
    assert f"plans/{path.name}" in str(cw.verify(store))


def test_a_plan_that_is_not_there(store: Path) -> None:
    path = plan_of(store, "x")
    path.unlink()
    assert_x_alone_is_lost(store, rf"plans/{path.name}: the plan is not there")


def test_plans_that_were_exchanged(store: Path) -> None:
    path = plan_of(store, "x")
    path.write_bytes(plan_of(store, "y").read_bytes())
    assert_x_alone_is_lost(store, rf"plans/{path.name}: the plan's bytes have the hash {plan_of(store, 'y').stem}")


def test_a_plan_that_comes_back_is_read(store: Path) -> None:
    path, ds = plan_of(store, "x"), cw.open(store)
    path.rename(store / "away")
    with pytest.raises(FormatError, match="the plan is not there"):
        ds[3]
    (store / "away").rename(path)
    assert_same_sample(cw.open(store)[3], samples(len(cw.open(store)[3]["x"]))[3])


def changed(change: Callable[[dict[str, Any]], None]) -> Callable[[Plan], bytes]:
    def text(plan: Plan) -> bytes:
        body = json.loads(plan.to_json())
        change(body)
        return json.dumps(body).encode()

    return text


def all_templates(template: str | None) -> Callable[[dict[str, Any]], None]:
    def change(body: dict[str, Any]) -> None:
        for chain in body["chains"]:
            chain["short"] = template

    return change


def all_raw(dtype: str) -> Callable[[dict[str, Any]], None]:
    """Chains of another dtype that store elements as they are."""
    chain = {"assets": "", "short": "00000000", "stages": [{"stage": "raw"}]}
    return lambda body: body.update(dtype=dtype, chains=[chain] * 64)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (all_templates("03000000"), r"plan refused \(11, narrow\)"),
        (all_templates("01000000"), r"plan refused \(11, narrow\)"),
        (all_templates("0208ff00000000"), r"plan refused \(12, palette\)"),
        (all_templates("00000000ff"), r"plan refused \(10, chain\)"),
        (all_templates(""), r"plan refused \(1, truncated\)"),
        (all_templates("xy"), "a plan that cannot be"),
        (lambda body: body.pop("chains"), "a plan without 'chains'"),
        (lambda body: body.update(chains=[]), "1 to 64 chains"),
        (lambda body: body.update(shape=[-1]), "which cannot be"),
        (lambda body: body.update(cordwood_plan=3), "a plan of version 3"),
    ],
)
def test_a_plan_that_cannot_be(store: Path, change: Callable[[dict[str, Any]], None], told: str) -> None:
    plan = Plan.from_json(plan_of(store, "x").read_bytes())
    path = retarget(store, "x", changed(change)(plan))
    assert_x_alone_is_lost(store, rf"plans/{path.name}: .*{told}")


@pytest.mark.parametrize(
    ("change", "told", "reason"),
    [
        (all_templates(None), r"field 'x': frame refused \(10, chain\)", Reason.CHAIN),  # no short frame can use it
        (lambda body: body.update(shape=None), r"field 'x': frame refused \(10, chain\)", Reason.CHAIN),
        (all_raw("int32"), r"field 'x': the frame holds int32, but the schema says float32", None),
        (all_raw("float64"), r"field 'x': the frame holds float64, but the schema says float32", None),
    ],
    ids=["no templates", "no shape", "another dtype", "a wider dtype"],
)
def test_a_plan_of_other_frames(
    store: Path, change: Callable[[dict[str, Any]], None], told: str, reason: Reason | None
) -> None:
    plan = Plan.from_json(plan_of(store, "x").read_bytes())
    retarget(store, "x", changed(change)(plan))
    assert_x_alone_is_lost(store, told, reason)


def test_a_plan_of_version_1(store: Path) -> None:
    text = {"cordwood_plan": 1, "goal": "fast", "dtype": "float32", "stages": [{"stage": "raw"}], "assets": ""}
    retarget(store, "x", json.dumps(text).encode())
    assert_x_alone_is_lost(store, r"refused \(10, chain\)", Reason.CHAIN)


def test_a_plan_of_no_bytes(store: Path) -> None:
    path = retarget(store, "x", b"")
    assert_x_alone_is_lost(store, f"{path.name}: a plan is JSON, but this is not")


def test_a_table_that_names_no_plan(store: Path) -> None:
    name_in_tables(store, "x", 0)
    assert_x_alone_is_lost(store, r"field 'x': frame refused \(16, plan-missing\)", Reason.PLAN_MISSING)


def test_frames_that_need_no_plan_do_not_miss_it(tmp_path: Path) -> None:
    """Full frames of chains that own nothing are read without any plan, in the same field as short ones."""
    arrays = [torch.from_numpy(np.random.default_rng(k).integers(0, 255, size, np.uint8)) for k, size in
              enumerate([100, 100, 20_000, 100, 20_000])]  # fmt: skip
    with cw.Writer(tmp_path / "s", "fast") as writer:
        for array in arrays:
            writer.append({"x": array})
    (path,) = (tmp_path / "s" / "plans").iterdir()
    path.unlink()
    ds = cw.open(tmp_path / "s")
    for number in (2, 4):
        assert torch.equal(ds[number]["x"], arrays[number])
    for number in (0, 1, 3):
        with pytest.raises(FormatError, match=f"{path.name}: the plan is not there"):
            ds[number]
    assert cw.verify(tmp_path / "s").lost == [(0, 1), (3, 3)]


def test_stores_of_several_plans_read_each_with_its_own(tmp_path: Path) -> None:
    """The name of a plan decides, not its place: two stores whose shards have the same numbers."""
    stores, expected = [], []
    for part in range(3):
        draw = np.random.default_rng(part)
        levels = draw.normal(size=7).astype(np.float32)
        made = [{"x": torch.from_numpy(draw.choice(levels, 50 + part))} for _ in range(20)]
        with cw.Writer(tmp_path / f"{part}", "small") as writer:
            for sample in made:
                writer.append(sample)
        stores.append(tmp_path / f"{part}")
        expected += made
    cw.merge(stores, tmp_path / "all")
    assert len(plan_files.found(tmp_path / "all")) == 3
    for number, sample in enumerate(cw.open(tmp_path / "all")):
        assert_same_sample(sample, expected[number])
    lost = plan_of(stores[1], "x").name
    (tmp_path / "all" / "plans" / lost).unlink()
    ds = cw.open(tmp_path / "all")
    assert_same_sample(ds[0], expected[0])
    assert_same_sample(ds[59], expected[59])
    with pytest.raises(FormatError, match=f"{shard_name(1)}.*{lost}: the plan is not there"):
        ds[20]
