"""Corners where a first attempt went wrong."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch

import cordwood as cw


@pytest.mark.parametrize("suffix", ["pt", "cord"])
@pytest.mark.parametrize("order", [[0, 1, 2], [1, 0, 2], [2, 1, 0], [1, 2, 0]])
def test_storages_over_one_array_may_come_in_any_order(suffix: str, order: list[int], tmp_path: Path) -> None:
    array = np.arange(10, dtype=np.float32)
    views = [torch.from_numpy(array), torch.from_numpy(array[:5]), torch.from_numpy(array[3:8])]
    cw.save([views[index] for index in order], tmp_path / f"x.{suffix}")
    loaded = cw.load(tmp_path / f"x.{suffix}")
    whole, start, middle = (loaded[order.index(index)] for index in range(3))
    whole[4] = 99
    assert start[4] == middle[1] == 99
    assert middle.tolist() == [3, 99, 5, 6, 7]


@pytest.mark.parametrize("name", ["uint4", "int4", "uint1"])
@pytest.mark.parametrize("suffix", ["pt", "cord"])
def test_dtypes_of_less_than_a_byte_keep_their_name(name: str, suffix: str, tmp_path: Path) -> None:
    dtype = getattr(torch, name)
    tensor = torch.arange(64, dtype=torch.uint8).view(dtype)
    cw.save(tensor, tmp_path / f"x.{suffix}")
    loaded = cw.load(tmp_path / f"x.{suffix}")
    assert (loaded.dtype, loaded.view(torch.uint8).tolist()) == (dtype, list(range(64)))
    if suffix == "pt":
        assert torch.load(tmp_path / "x.pt").dtype == dtype


def test_objects_of_the_old_format_are_read_one_after_the_other() -> None:
    file = io.BytesIO()
    for number in (1.0, 2.0):
        torch.save(torch.full((3,), number), file, _use_new_zipfile_serialization=False)
    file.seek(0)
    assert [cw.load(file)[0].item(), cw.load(file)[0].item()] == [1.0, 2.0]


def test_a_name_that_is_not_there_is_told_also_among_others(tmp_path: Path) -> None:
    cw.save({"weight": torch.ones(2), "bias": torch.ones(2)}, tmp_path / "x.pt")
    assert list(cw.load(tmp_path / "x.pt", only=["weight", "nothing.*"])) == ["weight"]
    with pytest.raises(cw.UsageError, match=r"no tensor is named 'wieght'.*weight"):
        cw.load(tmp_path / "x.pt", only=["bias", "wieght"])


def test_a_device_that_is_not_there_is_the_callers_mistake(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    cw.save(torch.ones(2), tmp_path / "x.pt")
    with pytest.raises(cw.UsageError, match="map_location='cuda'"):
        cw.load(tmp_path / "x.pt", map_location="cuda")


def test_a_text_file_is_not_written_to(tmp_path: Path) -> None:
    with (tmp_path / "x.pt").open("w") as file, pytest.raises(cw.UsageError, match="'wb'"):
        cw.save(torch.ones(2), file)


def test_damage_is_not_trimmed_away(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    torch.save({"whole": torch.ones(1000), "part": torch.ones(1000)[:10]}, path)
    data = bytearray(path.read_bytes())
    data[data.index(b"\0\0\x80\x3f" * 900) + 1800] ^= 1
    path.write_bytes(data)
    with pytest.raises(cw.FormatError, match="damaged and was left as it is"):
        cw.trim(path, in_place=True)
    assert path.read_bytes() == bytes(data)
    trimmed = cw.trim(path, tmp_path / "y.pt")
    assert len(trimmed.damaged) == 1
    assert "1 trimmed record: checksums were not compared" in " ".join(trimmed.notes)
