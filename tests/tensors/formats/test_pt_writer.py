"""The layout of `.pt` files is torch's own, so torch computes the offsets of storages from their sizes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import serialization

import cordwood as cw
from tests.tensors.support.objects import floats
from tests.tensors.support.same import assert_same

config: Any = serialization.config


def checkpoint() -> dict[str, Any]:
    tied = floats(5)
    return {
        "tied": [tied, tied],
        "empty": torch.empty(0),
        "many": [floats(count) for count in range(1, 40)],
        "slice": torch.arange(100)[10:20],
    }


@pytest.fixture(params=[1, 64, 100, 4096])
def alignment(request: pytest.FixtureRequest) -> Iterator[int]:
    with config.patch("save.storage_alignment", request.param):
        yield request.param


def offsets(path: Path) -> list[int]:
    """Where torch expects each storage."""
    with FakeTensorMode():
        loaded = torch.load(path)
    every = [*loaded["tied"], *loaded["many"], loaded["slice"]]
    return [tensor.untyped_storage()._checkpoint_offset for tensor in every]


@pytest.mark.parametrize("by", ["save", "trim"])
def test_torch_computes_the_offsets(by: str, alignment: int, tmp_path: Path) -> None:
    path, obj = tmp_path / "x.pt", checkpoint()
    if by == "save":
        cw.save(obj, path)
    else:
        torch.save(obj, tmp_path / "large.pt")
        cw.trim(tmp_path / "large.pt", path)
    computed = offsets(path)
    reader: Any = torch._C.PyTorchFileReader(str(path))
    assert all(offset % alignment == 0 for offset in computed)
    assert computed[1:3] == [reader.get_record_offset("data/0"), reader.get_record_offset("data/2")]
    assert computed[-1] == reader.get_record_offset("data/41")
    with config.patch("load.calculate_storage_offsets", True):
        assert_same(obj, torch.load(path))
        assert_same(obj, torch.load(path, mmap=True))


def test_no_offsets_are_promised_where_a_storage_is_not_counted_from_zero(tmp_path: Path) -> None:
    """Torch expects the first storage to be called 0."""
    writer: Any = torch._C.PyTorchFileWriter(str(tmp_path / "x.pt"))
    torch.save(floats(4), tmp_path / "torch.pt")
    reader: Any = torch._C.PyTorchFileReader(str(tmp_path / "torch.pt"))
    pickled = reader.get_record("data.pkl").replace(b"X\x01\x00\x00\x000", b"X\x01\x00\x00\x007")
    for name, data in {"data.pkl": pickled, "byteorder": b"little", "data/7": reader.get_record("data/0")}.items():
        writer.write_record(name, data, len(data))
    writer.write_end_of_file()
    cw.trim(tmp_path / "x.pt", tmp_path / "small.pt")
    small: Any = torch._C.PyTorchFileReader(str(tmp_path / "small.pt"))
    assert not small.has_record(".format_version")
    with config.patch("load.calculate_storage_offsets", True):
        assert_same(floats(4), torch.load(tmp_path / "small.pt"))
