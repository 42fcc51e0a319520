"""Stores whose shards were written with other plans than the store's own: short frames go on where they are needed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cordwood as cw
from cordwood.packing.journal import inputs as inputfiles
from cordwood.packing.journal import job_file
from cordwood.packing.transfer.merge import merge
from cordwood.store.checking.salvage import salvage
from cordwood.store.checking.verify import verify
from cordwood.store.format.manifest import read as read_manifest
from cordwood.store.format.rows import RowLayout
from cordwood.store.format.shard_file import read_ends
from cordwood.store.format.shard_table import ShardTable
from tests.packing.support.textfolder import Folder, Texts

VALUES = np.random.default_rng(0).normal(size=(2, 9)).astype(np.float32)  # levels of the one store, and of the other


def values_of(line: str) -> torch.Tensor:
    """Of each line its own: those of lines in capitals have other levels, and are changed ones."""
    draw = np.random.default_rng(list(line.encode()))
    return torch.from_numpy(draw.choice(VALUES[int(line < "m")], 300))


def floats(sample: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"path": sample["path"], "line": line, "values": values_of(line)} for line in sample["text"].split()]


def frames_of(shard: Path, field: str) -> tuple[str | None, list[bytes]]:
    """The plan that a shard's table names for a field, and the field's frames."""
    schema = read_manifest(shard.parent).schema
    assert schema is not None
    layout, leaf, data = RowLayout(schema), schema.leaf(field).frame, shard.read_bytes()
    with shard.open("rb") as file:
        ends = read_ends(shard)
        table = ShardTable.read(file.fileno(), str(shard), ends, layout)
        rows, _ = table.read_rows(file.fileno(), ends.file_size, ends.rows_offset, ends.count, layout)
    return table.plans[leaf], [data[row[leaf] : row[leaf + 1]] for row in rows["offsets"].tolist()]


def texts_of(names: str) -> dict[str, str]:
    return {name: " ".join(f"{name}{number}" for number in range(9)) for name in names}


@pytest.fixture
def merged(tmp_path: Path) -> Folder:
    """A store of two, whose plans differ, as one job would have packed it of a folder."""
    made = Folder(tmp_path)
    away = tmp_path / "away"
    away.mkdir()
    for part, names in (("one", "abcdef"), ("two", "mnopqr")):
        made.write(**texts_of(names))
        made.pack(update=False, transform=floats, shard_bytes=2000)
        made.store.rename(tmp_path / part)
        for name in names:
            (made.folder / name).rename(away / name)
    for path in away.iterdir():
        path.rename(made.folder / path.name)
    merge([tmp_path / "one", tmp_path / "two"], made.store)
    told = job_file.read(tmp_path / "one")
    assert told is not None
    totals = inputfiles.read_header(made.store, len(made.shards) - 1).totals
    fingerprint = Texts(made.folder).fingerprint()
    job_file.write(made.store, replace(told, totals=totals, fingerprint=fingerprint))
    return made


def assert_holds(path: Path, folder: Path) -> None:
    """Fail unless the store has all lines of the folder's files, and the values of each."""
    expected = [(one.name, line) for one in sorted(folder.iterdir()) for line in one.read_text().split()]
    found = list(cw.open(path))
    assert [(each["path"], each["line"]) for each in found] == expected
    for each in found:
        assert torch.equal(each["values"], values_of(each["line"]))
    assert verify(path).ok, str(verify(path))


def test_both_plans_are_in_use(merged: Folder) -> None:
    assert_holds(merged.store, merged.folder)
    plans = [frames_of(shard, "values")[0] for shard in merged.shards]
    assert len(set(plans)) == 2
    assert all(frame[0] < 64 for shard in merged.shards for frame in frames_of(shard, "values")[1])


@pytest.mark.parametrize(
    "change",
    [{"c": "C1 C2"}, {"n": "N1 N2 N3"}, {"f": "F1", "m": "M1"}, {"b": "", "q": ""}, {"z": "Z1 z2"}],
    ids=str,
)
def test_an_update_keeps_all_samples(merged: Folder, change: dict[str, str]) -> None:
    own = read_manifest(merged.store).schema
    assert own is not None
    before = {shard.stat().st_ino for shard in merged.shards}
    merged.write(**change)
    assert merged.pack(transform=floats, shard_bytes=2000) == sorted(change)
    assert_holds(merged.store, merged.folder)
    wanted = read_manifest(merged.store).frame_plans[own.leaf("values").frame]
    for shard in merged.shards:
        plan, _ = frames_of(shard, "values")
        if shard.stat().st_ino not in before:  # it was written again, with the store's own plans
            assert plan == wanted
    merged.remove("d", "o")
    assert merged.pack(transform=floats, shard_bytes=2000) == []
    assert_holds(merged.store, merged.folder)


def test_short_frames_of_another_plan_become_full_ones(merged: Folder) -> None:
    merged.write(n="N1")
    merged.pack(transform=floats, shard_bytes=2000)
    short = [[frame[0] < 64 for frame in frames_of(shard, "values")[1]] for shard in merged.shards]
    assert not all(map(all, short))
    assert any(not each for of_shard in short for each in of_shard)
    assert all(short[0])
    assert_holds(merged.store, merged.folder)


def test_what_is_saved_of_a_merged_store(merged: Folder) -> None:
    for shard in (merged.shards[1], merged.shards[-2]):
        data = bytearray(shard.read_bytes())
        data[-20] ^= 1  # in the trailer: its samples are written into a new shard
        shard.write_bytes(data)
    out = merged.store.parent / "saved"
    assert salvage(merged.store, out).verification.lost == []
    assert_holds(out, merged.folder)
