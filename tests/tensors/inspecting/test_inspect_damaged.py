"""`inspect` on damaged files: what is wrong is told, and what is left is shown."""

import io
import zipfile
from pathlib import Path

import pytest
import torch

import cordwood as cw
from tests.tensors.loading.test_peek import WRITERS, write, write_safetensors


def flip(path: Path, record: str, at: int = 0) -> None:
    """Change one byte of a record's contents."""
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(record)
    data = bytearray(path.read_bytes())
    header = info.header_offset
    lengths = int.from_bytes(data[header + 26 : header + 28], "little"), data[header + 28] | data[header + 29] << 8
    data[header + 30 + sum(lengths) + at] ^= 0x40
    path.write_bytes(data)


def test_a_flipped_byte_is_found_and_its_tensor_named(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    torch.save({"a": torch.arange(1000.0), "b": torch.arange(500.0)}, path)
    flip(path, "x/data/1", 77)
    inspection = cw.inspect(path)
    (damage,) = inspection.damaged
    assert damage.startswith("x/data/1: its bytes do not have the checksum")
    assert damage.endswith("it holds b")
    assert {row.name: row.damaged for row in inspection.tensors} == {"a": False, "b": True}
    assert inspection.checks == "1 of 8 records damaged"
    unchecked = cw.inspect(path, check=False)
    assert (unchecked.damaged, unchecked.checks) == ([], "not checked")


def test_a_flipped_byte_in_a_cord_file(tmp_path: Path) -> None:
    path = tmp_path / "x.cord"
    cw.save({"a": torch.arange(1000.0), "b": torch.randn(500).bfloat16(), "c": torch.ones(3)}, path)
    assert cw.inspect(path).checks == "3 of 3 storages decoded and their checksums agree"
    flip(path, "data/1.0", 300)
    inspection = cw.inspect(path)
    (damage,) = inspection.damaged
    assert "data/1.0" in damage
    assert {row.name: row.damaged for row in inspection.tensors} == {"a": False, "b": True, "c": False}


@pytest.mark.parametrize("written", ["torch", "cord", "compressed"])
def test_a_pickle_that_cannot_be_read_leaves_the_records(written: str, tmp_path: Path) -> None:
    path = write(written, tmp_path, {"w": torch.zeros(10_000), "v": torch.randn(100)})
    name = "data.pkl" if written == "cord" else f"{path.stem}/data.pkl"
    flip(path, name, 3)
    inspection = cw.inspect(path)
    assert inspection.kind == "cannot be told"
    assert inspection.tensors == []
    assert name in [record.name for record in inspection.records]
    assert any("data.pkl" in damage for damage in inspection.damaged)
    assert "records" in str(inspection)


@pytest.mark.parametrize("written", ["torch", "ours", "legacy"])
def test_a_file_without_its_end_is_still_listed(written: str, tmp_path: Path) -> None:
    tree = {name: torch.arange(1000.0) for name in "abc"}
    path = write(written, tmp_path, tree)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - 5000])
    inspection = cw.inspect(path)
    assert [row.name for row in inspection.tensors] == list("abc")
    assert [row.shape for row in inspection.tensors] == [(1000,)] * 3
    lost = [row for row in inspection.tensors if row.damaged]
    assert len(lost) == 2
    assert inspection.in_memory == sum(row.in_memory for row in inspection.tensors)
    assert any("storages are not in the file" in damage for damage in inspection.damaged)
    assert "lost" in str(inspection)


def test_safetensors_without_their_end_are_still_listed(tmp_path: Path) -> None:
    path = write_safetensors(tmp_path / "x.safetensors", {"a": torch.ones(4), "b": torch.ones(2, 4)}, lost=3)
    inspection = cw.inspect(path)
    assert [(row.name, row.shape, row.damaged) for row in inspection.tensors] == [
        ("a", (4,), False),
        ("b", (2, 4), True),
    ]
    assert len(inspection.damaged) == 1
    assert "'b' needs 32 bytes" in inspection.damaged[0]


@pytest.mark.slow
@pytest.mark.parametrize("written", WRITERS)
def test_a_file_cut_anywhere_is_shown_or_refused(written: str, tmp_path: Path) -> None:
    path = write(written, tmp_path)
    data = path.read_bytes()
    shown = 0
    for end in range(0, len(data), max(1, len(data) // 150)):
        try:
            inspection = cw.inspect(io.BytesIO(data[:end]))
        except cw.FormatError:
            continue
        shown += 1
        assert inspection.damaged, end
        assert str(inspection)
        assert inspection._repr_html_()
    assert shown or written in ("zipped again", "compressed")
