"""Compressed `.pt` files: torch reads them, and refuses to map them instead of giving garbage."""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cordwood as cw
from tests.tensors.support.objects import CATALOGUE, QUIET, Tagged, floats, sparse_matrix
from tests.tensors.support.same import assert_same, assert_shares_alike

pytestmark = QUIET


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape)


def noise(count: int) -> torch.Tensor:
    """Bytes that deflate makes nothing of."""
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, count, np.uint8))


def quantized() -> torch.Tensor:
    return torch.quantize_per_tensor(zeros(5000), 0.1, 0, torch.quint8)


def tagged() -> torch.Tensor:
    made = zeros(3).as_subclass(Tagged)
    made.tag = "x"
    return made


def with_attributes() -> torch.Tensor:
    made = zeros(2)
    made.note = zeros(2000)  # type: ignore[attr-defined]
    return made


COMPRESSIBLE: dict[str, Callable[[], Any]] = {
    "one": lambda: zeros(10_000),
    "barely": lambda: zeros(64),
    "tiny first": lambda: [zeros(1), zeros(10_000)],
    "empty first": lambda: [torch.empty(0), zeros(10_000)],
    "noise first": lambda: [noise(50_000), zeros(10_000), noise(50_000)],
    "noise around": lambda: [noise(1_000_000), zeros(64), noise(1_000_000)],
    "many records": lambda: [zeros(300) + number for number in range(3000)],
    "one of many": lambda: [*(noise(40) for _ in range(500)), zeros(400)],
    "parameter first": lambda: [nn.Parameter(zeros(3)), zeros(10_000)],
    "parameter with state first": lambda: [_noted(nn.Parameter(zeros(3))), zeros(10_000)],
    "quantized first": lambda: [quantized(), zeros(10_000)],
    "sparse first": lambda: [sparse_matrix().to_sparse_coo(), zeros(10_000)],
    "compressed sparse first": lambda: [sparse_matrix().to_sparse_csr(), zeros(10_000)],
    "nested first": lambda: [torch.nested.nested_tensor([zeros(2), zeros(3)]), zeros(10_000)],
    "meta first": lambda: [torch.empty(3, device="meta"), zeros(10_000)],
    "float8 first": lambda: [zeros(3).to(torch.float8_e5m2), zeros(10_000)],
    "two dtypes first": lambda: (lambda base: [base, base.view(torch.int32), zeros(10_000)])(zeros(10)),
    "conjugate first": lambda: [torch.zeros(3, dtype=torch.complex64).conj(), zeros(10_000)],
    "storage first": lambda: [zeros(3).untyped_storage(), zeros(10_000)],
    "expanded": lambda: [zeros(1).expand(1000), zeros(10_000)],
    "attributes first": lambda: [with_attributes(), zeros(10_000)],
    "subclass first": lambda: [tagged(), zeros(10_000)],
    "state_dict": lambda: nn.Linear(100, 100).requires_grad_(False).apply(_zero).state_dict(),
    "module": lambda: nn.Sequential(nn.Linear(100, 100), nn.BatchNorm1d(3)).apply(_zero),
}
UNSAFE = {"subclass first", "module"}


def _zero(module: nn.Module) -> None:
    for parameter in module.parameters():
        nn.init.zeros_(parameter)


def _noted(parameter: nn.Parameter) -> nn.Parameter:
    parameter.note = "kept"  # type: ignore[attr-defined]
    return parameter


def methods(path: Path) -> dict[str, int]:
    """How each storage is kept: 0 stored, 8 deflated."""
    with zipfile.ZipFile(path) as archive:
        return {info.filename.partition("/")[2]: info.compress_type for info in archive.infolist()}


@pytest.mark.parametrize("name", COMPRESSIBLE)
def test_mapping_raises_and_reading_does_not(name: str, tmp_path: Path) -> None:
    obj = COMPRESSIBLE[name]()
    path = tmp_path / "x.pt"
    cw.save(obj, path, compress=True)
    assert any(method == 8 for record, method in methods(path).items() if record.startswith("data/"))
    for weights_only in {name not in UNSAFE, False}:
        with pytest.raises(RuntimeError, match=r"not resizable|out of bounds"):
            torch.load(path, mmap=True, weights_only=weights_only)
        loaded = torch.load(path, weights_only=weights_only)
        if name != "storage first":
            assert_same(obj, loaded, strides=False)
            assert_shares_alike(obj, loaded)
    with pytest.raises(cw.FormatError, match="compressed and cannot be mapped; load without mmap=True"):
        cw.load(path, mmap=True, weights_only=name not in UNSAFE)


def test_without_the_tripwire_torch_would_give_garbage(tmp_path: Path) -> None:
    """The reason for all of this; when it fails, torch has learned to look, and the tripwire can go."""
    plain, repacked = tmp_path / "plain.pt", tmp_path / "repacked.pt"
    torch.save([zeros(1000), noise(8000)], plain)
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(repacked, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))
    assert not torch.equal(torch.load(repacked, mmap=True)[0], zeros(1000))
    assert torch.equal(torch.load(repacked)[0], zeros(1000))


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_catalogue_is_never_mapped_to_garbage(name: str, tmp_path: Path) -> None:
    case = CATALOGUE[name]
    obj = case.make()
    path = tmp_path / "x.pt"
    cw.save(obj, path, compress=True)
    deflated = any(method == 8 for record, method in methods(path).items() if record.startswith("data/"))
    if deflated:
        with pytest.raises(RuntimeError):
            torch.load(path, mmap=True, weights_only=False)
    elif not isinstance(obj, torch.UntypedStorage) and "storage" not in name:
        assert_same(obj, torch.load(path, mmap=True, weights_only=False), strides=False)


def test_what_does_not_shrink_is_stored_and_can_be_mapped(tmp_path: Path) -> None:
    obj = {"a": noise(100_000), "b": noise(5000).view(torch.int32)}
    cw.save(obj, tmp_path / "x.pt", compress=True)
    assert methods(tmp_path / "x.pt")["data/0"] == 0
    assert_same(obj, torch.load(tmp_path / "x.pt", mmap=True))
    assert_same(obj, cw.load(tmp_path / "x.pt", mmap=True))


@pytest.mark.parametrize("share", [0.02, 0.05, 0.15, 0.5])
def test_a_record_is_deflated_where_that_saves_a_tenth(share: float, tmp_path: Path) -> None:
    data = noise(200_000)
    data[: int(200_000 * share)] = 0
    cw.save(data, tmp_path / "x.pt", compress=True)
    assert (methods(tmp_path / "x.pt")["data/0"] == 8) == (share >= 0.1)
    assert torch.equal(torch.load(tmp_path / "x.pt"), data)


def test_each_record_is_judged_for_itself(tmp_path: Path) -> None:
    cw.save([noise(10_000), zeros(10_000), noise(10_000)], tmp_path / "x.pt", compress=True)
    found = methods(tmp_path / "x.pt")
    assert [found[f"data/{key}"] for key in range(3)] == [0, 8, 0]


def test_without_tensors_nothing_is_laid(tmp_path: Path) -> None:
    cw.save({"epoch": 3}, tmp_path / "x.pt", compress=True)
    assert torch.load(tmp_path / "x.pt") == {"epoch": 3}
    assert not any("data/" in name and "serialization_id" not in name for name in methods(tmp_path / "x.pt"))


def test_storages_alone_are_stored(tmp_path: Path) -> None:
    """There is no tensor to hang a tripwire on, so nothing may be deflated."""
    cw.save(zeros(10_000).untyped_storage(), tmp_path / "x.pt", compress=True)
    assert methods(tmp_path / "x.pt")["data/0"] == 0


def test_torch_is_not_told_how_to_compute_offsets(tmp_path: Path) -> None:
    cw.save(zeros(10_000), tmp_path / "x.pt", compress=True)
    assert not {".format_version", ".storage_alignment"} & methods(tmp_path / "x.pt").keys()


@pytest.mark.parametrize("name", COMPRESSIBLE)
def test_nothing_stays_on_the_tensors(name: str) -> None:
    obj = COMPRESSIBLE[name]()
    before, after = io.BytesIO(), io.BytesIO()
    if name != "two dtypes first":  # which torch refuses
        torch.save(obj, before)
    cw.save(obj, io.BytesIO(), compress=True)
    if name != "two dtypes first":
        torch.save(obj, after)
    assert before.getvalue() == after.getvalue()
    plain = io.BytesIO()
    cw.save(obj, plain)
    assert b"tripwire" not in plain.getvalue()


def test_the_loaded_tensors_keep_nothing_of_it(tmp_path: Path) -> None:
    cw.save([zeros(1), zeros(10_000)], tmp_path / "x.pt", compress=True)
    for load in (torch.load, cw.load):
        loaded = load(tmp_path / "x.pt")
        again = io.BytesIO()
        torch.save(loaded, again)
        assert b"tripwire" not in again.getvalue()
        assert loaded[0]._backward_hooks in (None, {})


def test_some_of_a_compressed_file(tmp_path: Path) -> None:
    cw.save({"a": zeros(1000), "b": floats(100)}, tmp_path / "x.pt", compress=True)
    assert_same({"b": floats(100)}, cw.load(tmp_path / "x.pt", only="b"))
    assert_same({"a": zeros(1000)}, cw.load(tmp_path / "x.pt", only="a"))


def test_under_names_of_any_length(tmp_path: Path) -> None:
    """The archive's name is in every entry of the directory, behind which the tripwire must reach."""
    path = tmp_path / f"{'n' * 200}.pt"
    cw.save([zeros(300) for _ in range(200)], path, compress=True)
    with pytest.raises(RuntimeError):
        torch.load(path, mmap=True)
    assert len(torch.load(path)) == 200
