"""Golden stores: bytes kept for ever. Both readers read them, and the writer still writes them."""

import hashlib
import itertools
from pathlib import Path

import pytest
import torch

import cordwood
from tests.format.store.store_readers import READERS, native_checksums, plain
from tests.format.support.readers import ROOT, reader
from tests.golden.store.make import files, write
from tests.golden.store.stores import GOLDEN, Point
from tests.store.support.samples import assert_same_sample

GOLDEN_DIR = ROOT / "tests" / "golden" / "store"
SUMS = {
    name: recorded
    for recorded, name in map(str.split, (GOLDEN_DIR / "SHA256SUMS").read_text(encoding="utf-8").splitlines())
}


def path_of(name: str) -> Path:
    return GOLDEN_DIR / f"{name}.cordwood"


def test_the_files_are_those_that_were_recorded() -> None:
    found = {path.relative_to(GOLDEN_DIR).as_posix(): path.stat().st_size for path in files(GOLDEN_DIR)}
    assert set(found) == set(SUMS)
    assert {name.split(".cordwood/")[0] for name in SUMS} == set(GOLDEN)
    assert max(found.values()) < 16_384
    assert sum(found.values()) < 262_144


@pytest.mark.parametrize("file", SUMS)
def test_bytes_have_not_changed(file: str) -> None:
    assert hashlib.sha256((GOLDEN_DIR / file).read_bytes()).hexdigest() == SUMS[file]


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", GOLDEN)
def test_reads(name: str, reader: str) -> None:
    expected = GOLDEN[name].make()
    found = READERS[reader](path_of(name))
    assert len(found) == len(expected)
    if name in ("lossy", "v1-lossy"):
        for sample in expected:
            sample["half"] = sample["half"].half().float()
            sample["brain"] = sample["brain"].bfloat16().double()
            sample["single"] = sample["single"].astype("float32").astype("float64")
    for one, other in zip(expected, found, strict=True):
        assert_same_sample(one, other)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", [name for name, golden in GOLDEN.items() if not golden.is_older])
def test_the_same_bytes_are_written_again(name: str, threads: int, tmp_path: Path) -> None:
    again = tmp_path / f"{name}.cordwood"
    write(GOLDEN[name], again, threads)
    recorded = {path.relative_to(GOLDEN_DIR): path.read_bytes() for path in files(GOLDEN_DIR)}
    expected = {path: data for path, data in recorded.items() if path.parts[0] == again.name}
    assert {path.relative_to(tmp_path): path.read_bytes() for path in files(tmp_path)} == expected


def test_what_the_golden_stores_are_for() -> None:
    """Several shards, plans that own something, every kind of node, every state."""
    with native_checksums():
        stores = {name: plain.Store(path_of(name)) for name in GOLDEN}
        assert len(stores["labelled-small"].records) > 2
        assert len(stores["any"].records) > 2
        assert any(frames_that_name_a_plan(stores["v1-labelled-small"]))
        for name in ("labelled-small", "labelled-balanced", "columns", "mixed"):
            assert any(byte < 64 for byte in first_bytes(stores[name])), name
        assert set(first_bytes(stores["mixed"])) > {0, 1}  # several chains of one menu
        assert stores["empty"].schema is None
        schemas = [store.schema for store in stores.values() if store.schema is not None]
        assert {node.kind for schema in schemas for node in (schema.root, *schema.nodes)} == set(plain.MEMBERS)
        types = {(node.type, node.kind) for schema in schemas for node in schema.nodes}
        assert {kind for kind, _ in types} == {*plain.PYTHON_NUMBERS, "numpy", "tensor", "ndarray", ""}
        assert {leaf.dtype for leaf in schemas[0].leaves} == {"float32", "int64"}
        store = stores["optional"]
        states = {state for row in range(5) for state in plain.Sample(store, store.shard(0), row).states}
        assert states == {0, 1, 2}


def first_bytes(store: object) -> list[int]:
    found = []
    for place, record in enumerate(store.records):  # type: ignore[attr-defined]
        shard = store.shard(place)  # type: ignore[attr-defined]
        for row in range(record.count):
            offsets = plain.Sample(store, shard, row).offsets
            found += [shard.data[start] for start, end in itertools.pairwise(offsets) if end > start]
    return found


def frames_that_name_a_plan(store: object) -> list[bool]:
    found = []
    for place, record in enumerate(store.records):  # type: ignore[attr-defined]
        shard = store.shard(place)  # type: ignore[attr-defined]
        for row in range(record.count):
            sample = plain.Sample(store, shard, row)
            found += [shard.data[start + 10] & 1 == 1 for start in sample.offsets[:-1]]
    return found


def test_named_tuples_are_fresh_or_the_callers() -> None:
    fresh = cordwood.open(path_of("leaves"))[0]["named"]
    assert type(fresh) is not Point
    assert (type(fresh).__name__, fresh._fields) == ("Point", ("x", "y"))
    assert type(cordwood.open(path_of("leaves"), types=[Point])[0]["named"]) is Point


def test_what_was_given_up_is_recorded() -> None:
    footer = plain.Store(path_of("lossy")).shard(0).footer()
    worst = {entry["name"]: entry["worst_error"] for entry in footer["fields"]}
    made = GOLDEN["lossy"].make()
    assert worst == {
        "half": max(float((sample["half"].double() - sample["half"].half().double()).abs().max()) for sample in made),
        "brain": max(float((sample["brain"] - sample["brain"].bfloat16().double()).abs().max()) for sample in made),
        "single": max(float(abs(sample["single"] - sample["single"].astype("float32")).max()) for sample in made),
        "whole": None,
    }


def test_classes_are_kept() -> None:
    assert plain.Store(path_of("labelled-small")).fields[2]["classes"] == ["cat", "dog", "newt"]
    assert torch.equal(cordwood.open(path_of("labelled-small"))[0][0], GOLDEN["labelled-small"].make()[0][0])


def test_frames_are_frames() -> None:
    """What a row points to is a frame of frame.md and nothing more."""
    shard = plain.Store(path_of("v1-example")).shard(0)
    sample = plain.Sample(plain.Store(path_of("v1-example")), shard, 1)
    array, dtype = reader.read(shard.data[sample.offsets[0] : sample.offsets[1]])
    assert (array.tolist(), dtype) == ([[0.5]], "float32")
