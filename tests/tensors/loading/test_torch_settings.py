"""Settings and modes of torch that change what ``cw.load`` does, as they change ``torch.load``."""

import mmap
import pickle
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import safetensors.torch
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.serialization import LoadEndianness, safe_globals, set_default_load_endianness
from torch.utils import serialization

import cordwood as cw

config: Any = serialization.config


class Marker:
    """Not on the list of what loads safely."""


@pytest.fixture
def unsafe(tmp_path: Path) -> Path:
    torch.save({"a": Marker()}, tmp_path / "x.pt")
    return tmp_path / "x.pt"


def test_the_environment_forces_safe_loading(unsafe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(cw.load(unsafe, weights_only=False)["a"], Marker)
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(cw.FormatError, match=r"Marker.*TORCH_FORCE_WEIGHTS_ONLY_LOAD .* overrules") as caught:
        cw.load(unsafe, weights_only=False)
    assert "load with weights_only=False" not in str(caught.value)


def test_the_environment_can_only_replace_the_default(unsafe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "yes")
    with pytest.raises(cw.FormatError, match="Marker"):
        cw.load(unsafe, weights_only=True)
    with pytest.warns(UserWarning, match="TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"):
        assert isinstance(cw.load(unsafe)["a"], Marker)


def test_both_variables_are_refused(unsafe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(cw.UsageError, match="both set"):
        cw.load(unsafe)


def test_a_refused_pickle_is_an_unpickling_error(unsafe: Path) -> None:
    with pytest.raises(pickle.UnpicklingError, match="Marker"):
        cw.load(unsafe)


def test_methods_can_be_allowed(tmp_path: Path) -> None:
    torch.save(ZoneInfo("UTC"), tmp_path / "x.pt")
    with pytest.raises(cw.FormatError, match="getattr"):
        cw.load(tmp_path / "x.pt")
    with (
        safe_globals([getattr, ZoneInfo]),
        pytest.raises(cw.FormatError, match=r"a call of zoneinfo\.ZoneInfo\._unpickle"),
    ):
        cw.load(tmp_path / "x.pt")
    with safe_globals([getattr, ZoneInfo, ZoneInfo._unpickle]):  # type: ignore[attr-defined]
        assert cw.load(tmp_path / "x.pt") == ZoneInfo("UTC")


class _Exit:
    def __reduce__(self) -> tuple[object, ...]:
        import os

        return os.getpid, ()


def test_names_of_os_are_refused_also_when_allowed(tmp_path: Path) -> None:
    import os

    torch.save(_Exit(), tmp_path / "x.pt")
    with safe_globals([os.getpid]), pytest.raises(cw.FormatError, match="posix"):
        cw.load(tmp_path / "x.pt")


@pytest.fixture
def default_byteorder() -> Iterator[None]:
    yield
    set_default_load_endianness(None)


@pytest.mark.usefixtures("default_byteorder")
@pytest.mark.parametrize("mmap", [False, True])
def test_files_without_a_byte_order_follow_the_default(tmp_path: Path, mmap: bool) -> None:
    numbers = torch.arange(5, dtype=torch.int32)
    torch.save(numbers, tmp_path / "with.pt")
    with zipfile.ZipFile(tmp_path / "with.pt") as old, zipfile.ZipFile(tmp_path / "x.pt", "w") as new:
        for entry in old.infolist():
            if not entry.filename.endswith("/byteorder"):
                new.writestr(entry.filename, old.read(entry))
    for order in (LoadEndianness.LITTLE, LoadEndianness.BIG, LoadEndianness.NATIVE, None):
        set_default_load_endianness(order)
        expected = torch.load(tmp_path / "x.pt")
        assert torch.equal(cw.load(tmp_path / "x.pt", mmap=mmap), expected)
        assert torch.equal(expected, numbers) == (order is not LoadEndianness.BIG)
        assert torch.equal(cw.load(tmp_path / "with.pt", mmap=mmap), numbers)


@pytest.mark.parametrize("name", ["x.pt", "x.cord", "x.safetensors"])
def test_tensors_are_fake_under_a_fake_mode(tmp_path: Path, name: str) -> None:
    state = {"a": torch.rand(3, 4), "b": torch.rand(5).bfloat16()}
    if name == "x.safetensors":
        safetensors.torch.save_file(state, tmp_path / name)
    else:
        cw.save(state, tmp_path / name)
    with FakeTensorMode():
        found = cw.load(tmp_path / name)
        peek = cw.peek(tmp_path / name)
        peeked = {key: peek[key] for key in state}
    for key, tensor in state.items():
        for fake in (found[key], peeked[key]):
            assert isinstance(fake, FakeTensor)
            assert (fake.shape, fake.dtype, fake.device) == (tensor.shape, tensor.dtype, tensor.device)


@pytest.mark.parametrize("name", ["x.pt", "x.cord"])
def test_sparse_tensors_are_fake_under_a_fake_mode(tmp_path: Path, name: str) -> None:
    cw.save(torch.eye(3).to_sparse(), tmp_path / name)
    with FakeTensorMode():
        fake = cw.load(tmp_path / name)
    assert isinstance(fake, FakeTensor)
    assert (fake.shape, fake.layout, fake.device.type) == ((3, 3), torch.sparse_coo, "cpu")


def test_fake_tensors_know_where_their_bytes_are(tmp_path: Path) -> None:
    cw.save({"a": torch.rand(3), "b": torch.rand(4)}, tmp_path / "x.pt")
    with FakeTensorMode():
        ours, torchs = cw.load(tmp_path / "x.pt"), torch.load(tmp_path / "x.pt")
    for key in ("a", "b"):
        offset = torchs[key].untyped_storage()._checkpoint_offset
        assert ours[key].untyped_storage()._checkpoint_offset == offset > 0


def test_an_empty_storage_keeps_its_dtype(tmp_path: Path) -> None:
    tensor = torch.tensor([], dtype=torch.float64)
    storage = torch.storage.TypedStorage(wrap_storage=tensor.untyped_storage(), dtype=torch.float32, _internal=True)
    cw.save([tensor, storage], tmp_path / "x.pt")
    loaded = cw.load(tmp_path / "x.pt")
    assert (loaded[0].dtype, loaded[1].dtype) == (torch.float64, torch.float32)


@pytest.mark.parametrize("name", ["x.pt", "x.cord"])
def test_settings_that_leave_out_data_or_checksums_are_ignored(name: str, tmp_path: Path) -> None:
    """As documented: a file appears whole or not at all, and its checksums find damage."""
    path = tmp_path / name
    with torch.serialization.skip_data(), config.patch("save.compute_crc32", False):
        cw.save({"a": torch.arange(1000)}, path)
        assert torch.equal(cw.load(path)["a"], torch.arange(1000))
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None


@pytest.mark.parametrize("name", ["x.pt", "x.cord"])
def test_a_mapping_is_private_whatever_torch_is_set_to(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    cw.save({"a": torch.rand(1000)}, path)
    before = path.read_bytes()
    with torch.serialization.set_default_mmap_options(mmap.MAP_SHARED):
        cw.load(path, mmap=True)["a"].zero_()
    assert path.read_bytes() == before
