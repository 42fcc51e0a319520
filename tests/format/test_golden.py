"""Golden frames: bytes kept for ever. Both readers read them, to arrays that formulas give."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.format.support.craft import hash_of
from tests.format.support.readers import ROOT, native_read, reader, same_bits
from tests.golden.arrays import GOLDEN
from tests.golden.make import frame_path

GOLDEN_DIR = ROOT / "tests" / "golden"
SUMS = {
    name: recorded
    for recorded, name in map(str.split, (GOLDEN_DIR / "SHA256SUMS").read_text(encoding="utf-8").splitlines())
}


def frame_and_assets(name: str) -> tuple[bytes, bytes | None]:
    assets = frame_path(name).with_suffix(".cwpl")
    return frame_path(name).read_bytes(), assets.read_bytes() if assets.exists() else None


def header_of(name: str) -> tuple[Any, bytes]:
    frame, assets = frame_and_assets(name)
    header, blocks = reader.read_header(frame, {} if assets is None else {hash_of(assets): assets})
    return header, blocks.data


def test_the_files_are_those_that_were_recorded() -> None:
    files = list(GOLDEN_DIR.glob("frames/*/*.cw*"))
    assert {path.relative_to(GOLDEN_DIR).as_posix() for path in files} == set(SUMS)
    assert {Path(name).stem for name in SUMS} == set(GOLDEN)
    assert sum(path.stat().st_size for path in files) < 60_000


@pytest.mark.parametrize("file", SUMS)
def test_bytes_have_not_changed(file: str) -> None:
    assert hashlib.sha256((GOLDEN_DIR / file).read_bytes()).hexdigest() == SUMS[file]


@pytest.mark.parametrize("name", GOLDEN)
def test_plain_reader(name: str) -> None:
    frame, assets = frame_and_assets(name)
    array, dtype = reader.read(frame, {} if assets is None else {hash_of(assets): assets})
    assert dtype == GOLDEN[name].dtype
    assert same_bits(array, GOLDEN[name].array)


@pytest.mark.parametrize("name", GOLDEN)
def test_native_reader(name: str) -> None:
    frame, assets = frame_and_assets(name)
    array, dtype = native_read(frame, assets)
    assert dtype == GOLDEN[name].dtype
    assert same_bits(array, GOLDEN[name].array)


def test_every_stage_is_among_them() -> None:
    headers = [header_of(name)[0] for name in GOLDEN]
    assert {h.value for h in headers} == {0, 1, 2}
    assert {h.bits for h in headers if h.value == 1} == {0, 1, 8, 16}
    in_images = {(predict, geometry) for predict in (1, 3) for geometry in (0, 1, 2)}
    assert {(h.predict, h.geometry) for h in headers} == {(0, 0), (2, 0), *in_images}
    assert {h.color for h in headers} == {0, 1, 2}
    assert {h.planes for h in headers} == {0, 1, 2}
    assert {(h.coder, h.entropy) for h in headers} == {(0, 0), (1, 0), (1, 1)}


def test_every_mode_is_among_them() -> None:
    modes = {name: body[0] for name in GOLDEN for header, body in [header_of(name)] if header.coder == 1}
    assert modes["zstd-uint8"] == 3
    assert modes["lz4-uint8"] == 4
    assert modes["zstd-dictionary-uint8"] == 5
    assert {modes["tables-plan-huffman"], modes["tables-plan-ans"], modes["med-hw-uint8-huffman"]} == {2}


def test_plans_are_named_where_they_own_something() -> None:
    owners = {name for name in GOLDEN if frame_and_assets(name)[1] is not None}
    assert owners == {"palette-plan-float32", "tables-plan-huffman", "tables-plan-ans", "zstd-dictionary-uint8"}
