"""`peek`: names and facts without data, single tensors with their sharing, in every format."""

import gc
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from tests.tensors.support.same import assert_same

BASE = torch.arange(24.0).reshape(4, 6)
TREE = {
    "a": BASE[:, :4],
    "b": BASE[1:3],
    "deep": [{"c": torch.nn.Parameter(torch.ones(3, 2).t())}],
    "other": torch.arange(5, dtype=torch.int16),
}
NAMES = ["a", "b", "deep.0.c", "other"]

Writer = Callable[[Any, Path], object]


def legacy(obj: Any, path: Path) -> None:
    torch.save(obj, path, _use_new_zipfile_serialization=False)


WRITERS: dict[str, tuple[str, Writer]] = {
    "torch": ("x.pt", torch.save),
    "legacy": ("x.pth", legacy),
    "ours": ("y.pt", cw.save),
    "zipped again": ("x.pt.zip", cw.save),
    "compressed": ("z.pt", lambda obj, path: cw.save(obj, path, compress=True)),
    "cord": ("x.cord", cw.save),
}
formats = pytest.mark.parametrize("written", WRITERS)


def write(written: str, folder: Path, obj: Any = TREE) -> Path:
    name, writer = WRITERS[written]
    writer(obj, folder / name)
    return folder / name


def write_safetensors(path: Path, tensors: dict[str, torch.Tensor], lost: int = 0) -> Path:
    """As the format says: the length of the header, the header, the bytes."""
    words = {torch.float32: "F32", torch.int64: "I64", torch.bfloat16: "BF16"}
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = bytes(tensor.contiguous().reshape(-1).view(torch.uint8).tolist())
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": words[tensor.dtype], "shape": list(tensor.shape), "data_offsets": offsets}
        data += raw
    text = json.dumps({**header, "__metadata__": {"made": "by hand"}}).encode()
    whole = len(text).to_bytes(8, "little") + text + data
    path.write_bytes(whole[: len(whole) - lost])
    return path


@formats
def test_names_come_in_order_and_by_every_way(written: str, tmp_path: Path) -> None:
    with cw.peek(write(written, tmp_path)) as f:
        assert f.names() == list(f) == NAMES
        assert len(f) == 4
        assert "deep.0.c" in f
        assert "deep" not in f
        assert repr(f).endswith("4 tensors>")


@formats
def test_each_tensor_is_what_was_saved(written: str, tmp_path: Path) -> None:
    path = write(written, tmp_path)
    expected = {"a": TREE["a"], "b": TREE["b"], "deep.0.c": TREE["deep"][0]["c"], "other": TREE["other"]}  # type: ignore[index]
    with cw.peek(path) as f:
        assert_same(expected, {name: f[name] for name in f})
        for name in f:
            info, tensor = f.info(name), f[name]
            assert (info.name, info.shape, info.dtype) == (name, tuple(tensor.shape), tensor.dtype)
            assert (info.stride, info.requires_grad) == (tensor.stride(), tensor.requires_grad)
            assert info.nbytes == tensor.nbytes


@formats
def test_a_write_shows_in_what_shares_the_memory(written: str, tmp_path: Path) -> None:
    with cw.peek(write(written, tmp_path)) as f:
        a, b, other = f["a"], f["b"], f["other"]
        a[1, 2] = -7
        assert b[0, 2] == -7
        assert f["b"][0, 2] == -7
        assert other.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.slow
@pytest.mark.parametrize("mapped", [True, False])
def test_memory_of_what_is_gone_is_given_back(mapped: bool, tmp_path: Path) -> None:
    torch.save([torch.full((1000, 100), float(i)) for i in range(20)], tmp_path / "x.pt")
    with cw.peek(tmp_path / "x.pt", limit=1_000_000, mmap=mapped) as f:
        for name in f:  # 8 MB in all, one after the other
            assert f[name][0, 0] == float(name)
            gc.collect()
        if not mapped:
            kept = [f["0"], f["1"]]
            with pytest.raises(cw.FormatError, match="limit"):
                f["2"]
            assert kept[1][0, 0] == 1
            del kept
            assert f["2"][0, 0] == 2


def test_tensors_outlive_the_file(tmp_path: Path) -> None:
    for mapped in (True, False):
        with cw.peek(write("torch", tmp_path), mmap=mapped) as f:
            a, b = f["a"], f["b"]
        assert torch.equal(a, BASE[:, :4])
        a[1, 0] = 5
        assert b[0, 0] == 5
        assert f.info("a").shape == (4, 4)
        with pytest.raises(cw.UsageError, match="closed"):
            f["a"]
    assert torch.equal(cw.load(tmp_path / "x.pt")["a"], BASE[:, :4])  # the file itself was never written to


def test_a_file_object_from_where_it_stands(tmp_path: Path) -> None:
    data = write("torch", tmp_path).read_bytes()
    file = io.BytesIO(b"before" + data)
    file.seek(6)
    with cw.peek(file) as f:
        assert torch.equal(f["a"], BASE[:, :4])
    with (tmp_path / "x.pt").open("rb") as opened, cw.peek(opened) as f:
        assert f.names() == NAMES


def test_nothing_is_read_before_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "big.pt"
    torch.save({"first": torch.ones(1 << 20), "second": torch.zeros(1 << 20)}, path)
    reads: list[int] = []

    class Counting(io.RawIOBase):
        """A file that tells how much of it was read."""

        def __init__(self) -> None:
            self._file = path.open("rb")

        def readable(self) -> bool:
            return True

        def seekable(self) -> bool:
            return True

        def seek(self, offset: int, whence: int = 0) -> int:
            return self._file.seek(offset, whence)

        def tell(self) -> int:
            return self._file.tell()

        def readinto(self, buffer: Any) -> int:
            count = self._file.readinto(buffer)
            reads.append(count)
            return count

        def close(self) -> None:
            self._file.close()
            super().close()

    with Counting() as file, cw.peek(file) as f:
        assert [f.info(name).nbytes for name in f] == [4 << 20, 4 << 20]
        assert sum(reads) < 1 << 18
        assert f["second"].sum() == 0
        assert 4 << 20 <= sum(reads) < (4 << 20) + (1 << 18)


def test_map_location_is_that_of_load(tmp_path: Path) -> None:
    with cw.peek(write("torch", tmp_path), map_location="meta") as f:
        assert f["a"].device.type == "meta"
        assert f["a"].shape == (4, 4)
    seen = []

    def note(storage: Any, location: str) -> Any:
        seen.append(location)
        return storage

    with cw.peek(tmp_path / "x.pt", map_location=note) as f:
        f["other"]
    assert seen == ["cpu"]


def test_a_name_that_is_not_there_is_met_with_near_ones(tmp_path: Path) -> None:
    with cw.peek(write("torch", tmp_path)) as f:
        for call in (f.__getitem__, f.info):
            with pytest.raises(cw.UsageError, match=r"no tensor is named 'deep.0.d'; it has 4, such as deep.0.c"):
                call("deep.0.d")
        with pytest.raises(cw.UsageError, match=r"it has 4, such as \w"):
            f["zzzzzzzz"]


class Unsafe:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_no_code_runs_and_tensors_beside_code_are_read(tmp_path: Path) -> None:
    torch.save({"evil": Unsafe(tmp_path / "made"), "good": torch.ones(3)}, tmp_path / "x.pt")
    with cw.peek(tmp_path / "x.pt") as f:
        assert f.names() == ["good"]
        assert f["good"].sum() == 3
    assert not (tmp_path / "made").exists()


def test_safetensors_by_their_definition(tmp_path: Path) -> None:
    tensors = {"w": torch.randn(3, 4), "n": torch.arange(4), "empty": torch.ones(0, 3), "h": torch.ones(2).bfloat16()}
    path = write_safetensors(tmp_path / "x.safetensors", tensors)
    for mapped in (None, True, False):
        with cw.peek(path, mmap=mapped) as f:
            assert f.names() == list(tensors)
            assert_same(tensors, {name: f[name] for name in f})
            assert {name: f.info(name).shape for name in f} == {n: tuple(t.shape) for n, t in tensors.items()}
            assert [f.info(name).stride for name in f] == [t.stride() for t in tensors.values()]
    with cw.peek(path, map_location="meta") as f:
        assert (f["w"].device.type, f["w"].shape) == ("meta", (3, 4))
    room = int.from_bytes(path.read_bytes()[:8], "little") + 47  # for the header, and all but a byte of a tensor
    with cw.peek(path, limit=room, mmap=False) as f, pytest.raises(cw.FormatError, match="limit"):
        f["w"]


@pytest.mark.parametrize("written", ["torch", "ours", "legacy"])
def test_a_file_without_its_end_is_shown_as_far_as_it_goes(written: str, tmp_path: Path) -> None:
    tree = {"first": torch.arange(1000.0), "last": torch.arange(1000.0)}
    path = write(written, tmp_path, tree)
    keys = sorted(cw.peek(path).info(name).storages[0] for name in tree)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - 3000])
    with cw.peek(path) as f:
        assert f.names() == ["first", "last"]
        whole, lost = sorted(tree, key=lambda name: keys.index(f.info(name).storages[0]))
        assert torch.equal(f[whole], torch.arange(1000.0))
        with pytest.raises(cw.FormatError):
            f[lost]
        assert f.info(lost).shape == (1000,)


def test_safetensors_without_their_end(tmp_path: Path) -> None:
    path = write_safetensors(tmp_path / "x.safetensors", {"a": torch.ones(4), "b": torch.ones(2, 4)}, lost=3)
    with cw.peek(path) as f:
        assert f.names() == ["a", "b"]
        assert f["a"].sum() == 4
        assert (f.info("b").shape, f.info("b").dtype) == ((2, 4), torch.float32)
        with pytest.raises(cw.FormatError, match="'b' needs 32 bytes"):
            f["b"]


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"hello, this is no tensor file", b"\x80\x02K\x01."])
def test_what_is_no_tensor_file_is_refused(data: bytes) -> None:
    with pytest.raises(cw.FormatError):
        cw.peek(io.BytesIO(data))


def test_a_limit_must_be_a_number(tmp_path: Path) -> None:
    with pytest.raises(cw.UsageError, match="limit"):
        cw.peek(write("torch", tmp_path), limit="much")  # type: ignore[arg-type]
