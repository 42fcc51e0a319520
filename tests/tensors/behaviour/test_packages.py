"""Checkpoints that real packages ship: they load as torch's own loader loads them, and survive being trimmed."""

import io
import json
import pickle
import re
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import cordwood as cw
from tests.tensors.support.packages import MEMBERS, Member
from tests.tensors.support.same import assert_same, assert_shares_alike, named_tensors, sharing, strided_parts

pytestmark = pytest.mark.slow

SLACK = 1024  # a trimmed file may be this much larger than what torch writes

KINDS = {
    "lpips:alex.pth": "state_dict",
    "chgnet:e30f77s348m32.pth.tar": "training checkpoint",
    "enformer-pytorch:tf_gammas.pt": "tensor",
    "pesto-pitch:mir-1k.ckpt": "training checkpoint",
    "BeatNet:model-1.pt": "whole model",
    "silero-vad:silero_vad_16k.safetensors": "state_dict",
}


def each(*kinds: str, foreign: bool | None = None) -> pytest.MarkDecorator:
    """A test for each member of these kinds; `foreign`: only those with, or without, globals that are refused."""
    chosen = [m for m in MEMBERS if m.kind in kinds and foreign in (None, bool(m.foreign))]
    return pytest.mark.parametrize("member", chosen, ids=lambda member: member.name)


@pytest.fixture
def file(member: Member, tmp_path: Path) -> Path:
    """The member as a file of its own."""
    missing = member.missing()
    if missing is not None:
        pytest.skip(missing)
    path = tmp_path / Path(member.path).name
    path.write_bytes(member.read())
    return path


@pytest.fixture
def stand_ins(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty classes where the pickle names classes of packages that are not installed."""
    for full_name in member.foreign:
        module_name, _, class_name = full_name.rpartition(".")
        parts = module_name.split(".")
        for prefix in (".".join(parts[: end + 1]) for end in range(len(parts))):
            if not isinstance(sys.modules.get(prefix), StandInModule):
                monkeypatch.setitem(sys.modules, prefix, StandInModule(prefix))
        setattr(sys.modules[module_name], class_name, type(class_name, (), {"__module__": module_name}))


class StandInModule(ModuleType):
    pass


@pytest.fixture
def trimmed(file: Path) -> Path:
    """Where to: the same name in another folder, since torch calls an archive's records after the file."""
    folder = file.parent / "trimmed"
    folder.mkdir()
    return folder / file.name


def by_torch(path: Path, member: Member) -> Any:
    """What torch makes of it: the file is known by its checksum, so code may run where it must."""
    return torch.load(path, map_location="cpu", weights_only=not member.foreign)


def by_definition(path: Path) -> dict[str, torch.Tensor]:
    """A .safetensors file of float32 read as its format says: length of the header, header, bytes."""
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:begin]).items():
        if name != "__metadata__":
            assert entry["dtype"] == "F32"
            start, end = entry["data_offsets"]
            values = np.frombuffer(data[begin + start : begin + end], "<f4").reshape(entry["shape"])
            tensors[name] = torch.from_numpy(values.copy())
    return tensors


def locations(path: Path, member: Member) -> list[str]:
    """The device of every storage, as the file has it."""
    found = []

    def note(storage: Any, location: str) -> Any:
        found.append(location)
        return storage

    torch.load(path, map_location=note, weights_only=not member.foreign)
    return sorted(found)


def stored_and_reachable(tree: Any) -> tuple[int, int]:
    """Bytes of all storages, and how many of them some tensor of the tree sees."""
    seen: dict[int, np.ndarray[Any, np.dtype[np.bool_]]] = {}
    for tensor in strided_parts(tree).values():
        storage, item = tensor.untyped_storage(), tensor.element_size()
        mask = seen.setdefault(storage.data_ptr(), np.zeros(storage.nbytes(), bool))
        strides = (*(stride * item for stride in tensor.stride()), 1)
        np.ndarray((*tensor.shape, item), bool, mask.data, tensor.storage_offset() * item, strides)[...] = True
    return sum(mask.size for mask in seen.values()), sum(int(np.count_nonzero(mask)) for mask in seen.values())


@each("legacy", "zip", foreign=False)
@pytest.mark.parametrize("given", [str, Path, lambda path: io.BytesIO(path.read_bytes())], ids=["str", "Path", "file"])
def test_it_loads_as_torch_loads_it(member: Member, file: Path, given: Callable[[Path], Any]) -> None:
    expected = by_torch(file, member)
    loaded = cw.load(given(file), map_location="cpu")
    assert_same(expected, loaded)
    assert_shares_alike(expected, loaded)


@each("legacy", "zip", foreign=False)
def test_all_tensors_by_name_are_the_same_tensors(member: Member, file: Path) -> None:
    expected = named_tensors(by_torch(file, member))
    loaded = cw.load(file, map_location="cpu", only="*")
    assert_same(expected, loaded, identity=False)
    assert_shares_alike(expected, loaded)


@each("legacy", "zip", foreign=False)
def test_one_tensor_by_name(member: Member, file: Path) -> None:
    name, expected = list(named_tensors(by_torch(file, member)).items())[-1]
    assert_same({name: expected}, cw.load(file, map_location="cpu", only=[name]))


@each("zip", foreign=True)
def test_what_a_safe_loader_must_not_run_is_refused_by_name(member: Member, file: Path) -> None:
    with pytest.raises(pickle.UnpicklingError):
        torch.load(file, map_location="cpu", weights_only=True)
    with pytest.raises(cw.FormatError, match="|".join(map(re.escape, member.foreign))):
        cw.load(file, map_location="cpu")


@each("zip", foreign=True)
@pytest.mark.usefixtures("stand_ins")
def test_it_loads_as_torch_loads_it_where_code_may_run(member: Member, file: Path) -> None:
    expected = by_torch(file, member)
    loaded = cw.load(file, map_location="cpu", weights_only=False)
    assert_same(expected, loaded)
    assert_shares_alike(expected, loaded)


@each("zip", "legacy")
@pytest.mark.usefixtures("stand_ins")
def test_it_survives_being_trimmed(member: Member, file: Path, trimmed: Path) -> None:
    before, expected = file.read_bytes(), by_torch(file, member)
    cw.trim(file, trimmed)
    loaded = by_torch(trimmed, member)
    assert_same(expected, loaded)
    assert_shares_alike(expected, loaded)
    assert locations(trimmed, member) == locations(file, member)
    assert zipfile.is_zipfile(trimmed)
    assert file.read_bytes() == before
    _, reachable = stored_and_reachable(expected)
    assert stored_and_reachable(loaded) == (reachable, reachable)


@each("zip")
def test_a_trimmed_file_is_not_larger(member: Member, file: Path, trimmed: Path) -> None:
    cw.trim(file, trimmed)  # also where its globals do not import
    assert trimmed.stat().st_size <= file.stat().st_size + SLACK


@each("legacy")
def test_a_trimmed_legacy_file_is_not_larger_than_torch_makes_it_now(member: Member, file: Path, trimmed: Path) -> None:
    loaded = by_torch(file, member)
    cw.trim(file, trimmed)
    torch.save(loaded, file)
    assert trimmed.stat().st_size <= file.stat().st_size + SLACK


@each("legacy", "zip", "safetensors", foreign=False)
def test_inspect_tells_what_is_in_it(member: Member, file: Path) -> None:
    tree = by_definition(file) if member.kind == "safetensors" else by_torch(file, member)
    tensors = named_tensors(tree)
    inspection = cw.inspect(file)
    found = {row.name: row for row in inspection.tensors}
    assert list(found) == list(tensors)
    for name, tensor in tensors.items():
        row = found[name]
        assert row.shape == tuple(tensor.shape)
        assert str(row.dtype).removeprefix("torch.") == str(tensor.dtype).removeprefix("torch.")
        assert row.contiguous == tensor.is_contiguous()
        assert row.reachable == tensor.numel() * tensor.element_size()  # none of these overlaps itself
    assert (inspection.in_memory, inspection.reachable) == stored_and_reachable(tree)
    assert inspection.wasted == inspection.in_memory - inspection.reachable
    shared = {(row.name, other) for row in inspection.tensors for other in row.shared_with}
    assert shared == {pair for first, second in sharing(tree) for pair in ((first, second), (second, first))}


@each("zip", "legacy", "safetensors")
def test_inspect_tells_what_kind_of_file_it_is(member: Member, file: Path) -> None:
    inspection = cw.inspect(file)
    assert member.name not in KINDS or KINDS[member.name] in inspection.kind
    assert inspection.in_memory == inspection.reachable + inspection.wasted > 0
    for name in member.foreign:
        assert any(name in str(needed) for needed in inspection.globals)


@each("zip", foreign=True)
@pytest.mark.usefixtures("stand_ins")
def test_inspect_counts_the_bytes_of_what_it_must_not_load(member: Member, file: Path) -> None:
    inspection = cw.inspect(file)
    assert (inspection.in_memory, inspection.reachable) == stored_and_reachable(by_torch(file, member))


@each("safetensors")
def test_safetensors_load_as_their_format_says(member: Member, file: Path) -> None:
    expected = by_definition(file)
    assert_same(expected, cw.load(file))
    assert_same(expected, cw.load(io.BytesIO(member.read())))
    assert_same(expected, cw.load(file, only="*"))


@each("safetensors")
def test_safetensors_load_as_their_own_library_loads_them(member: Member, file: Path) -> None:
    library = pytest.importorskip("safetensors.torch")
    loaded = cw.load(file)
    assert_same(dict(sorted(library.load_file(file).items())), dict(sorted(loaded.items())))


@each("torchscript")
def test_a_program_is_refused_with_the_reason(member: Member, file: Path, trimmed: Path) -> None:
    with pytest.raises((cw.FormatError, cw.UsageError), match="TorchScript"):
        cw.trim(file, trimmed)
    assert list(trimmed.parent.iterdir()) == []
    with pytest.raises((cw.FormatError, cw.UsageError), match="TorchScript"):
        cw.load(file)
