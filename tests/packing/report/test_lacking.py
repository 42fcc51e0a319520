"""What a summary says of fields that some samples lack."""

from pathlib import Path
from typing import Any

import torch

import cordwood as cw
from cordwood.packing.report.lacking import lacking
from tests.packing.support.numbers import Numbers, pack


def odd(sample: dict[str, int]) -> dict[str, Any]:
    number = sample["number"]
    meta = {"meta": {"path": "a", "size": 3}} if number % 3 else {}
    return {"image": torch.zeros(20) if number % 4 else None, "number": number, **meta}


def test_every_field_and_how_many(tmp_path: Path) -> None:
    packed = pack(Numbers(60), tmp_path / "s", odd, shard_bytes=500)
    assert packed.shards > 2
    assert packed.notes == (
        "field 'image': 15 of 60 samples lack it, or hold None",
        "field 'meta.path': 20 of 60 samples lack it, or hold None",
        "field 'meta.size': 20 of 60 samples lack it, or hold None",
    )
    assert pack(Numbers(60), tmp_path / "s", odd, shard_bytes=500).notes[1:] == packed.notes


def test_nothing_where_all_samples_have_all(tmp_path: Path) -> None:
    assert pack(Numbers(9), tmp_path / "s", fields={"number": cw.Field(optional=True)}).notes == ()
    assert pack(Numbers(9), tmp_path / "t").notes == ()


def test_many_fields_are_told_in_short(tmp_path: Path) -> None:
    def many(sample: dict[str, int]) -> dict[str, int]:
        return {f"f{field}": 1 for field in range(20)} if sample["number"] else sample

    notes = pack(Numbers(9), tmp_path / "s", many).notes
    assert len(notes) == 9
    assert notes[-1] == "13 more fields that some samples lack"


def test_a_damaged_shard_is_no_matter_of_a_summary(tmp_path: Path) -> None:
    pack(Numbers(60), tmp_path / "s", odd)
    (shard,) = (tmp_path / "s").glob("shard-*.cws")
    data = bytearray(shard.read_bytes())
    data[-60] ^= 1  # in the footer
    shard.write_bytes(data)
    assert lacking(tmp_path / "s") == []
