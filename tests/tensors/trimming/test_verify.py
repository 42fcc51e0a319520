"""A file that was just written is compared with what it was made from."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cordwood as cw
from cordwood.tensors.formats.detect import open_file
from cordwood.tensors.formats.pt_reader import PtFile
from cordwood.tensors.formats.pt_writer import write_pt
from cordwood.tensors.io.memory_budget import Allotment
from cordwood.tensors.io.source import open_source
from cordwood.tensors.trimming import trim
from cordwood.tensors.trimming.rewrite import Rewritten
from cordwood.tensors.trimming.verify import _equal, verify
from tests.tensors.support import craft
from tests.tensors.support.objects import CATALOGUE, QUIET, floats
from tests.tensors.support.trimmed import records, write

pytestmark = QUIET


def damage(rewritten: Any, aside: Path, where: bytes) -> None:
    """A byte of what was written changes on the disk."""
    data = bytearray(aside.read_bytes())
    data[data.index(where) + 2] ^= 0x10
    aside.write_bytes(data)
    verify(rewritten, aside)


@pytest.mark.parametrize("place", ["storage", "offset", "name", "directory"])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("name", ["x.pt", "x.cord"])
def test_what_reads_back_differently_is_not_kept(
    place: str, in_place: bool, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = floats(5000)
    path = write([base[1000:1003], base[1100:1200].view(10, 10)[:, 3]], tmp_path / "x.pt")
    content = path.read_bytes()
    kept = base[1000:1003].numpy().tobytes()
    found = {"storage": kept, "offset": b"QK\x03K\x0a\x85", "name": b"data.pkl", "directory": b"PK\x01\x02"}[place]
    monkeypatch.setattr(trim, "verify", lambda rewritten, aside: damage(rewritten, aside, found))
    older = tmp_path / "older" / name
    older.parent.mkdir()
    older.write_bytes(b"older")
    with pytest.raises(cw.StorageError, match="nothing was replaced"):
        cw.trim(path, None if in_place else older, in_place=in_place)
    assert path.read_bytes() == content
    assert older.read_bytes() == b"older"
    assert len(list(tmp_path.rglob("*"))) == 3


def rewritten_and_written(obj: Any, folder: Path) -> tuple[Rewritten, Path]:
    """A file of torch's laid out anew, and the new file."""
    write(obj, folder / "x.pt")
    file = open_file(open_source(folder / "x.pt"), Allotment(None))
    assert isinstance(file, PtFile)
    rewritten = Rewritten(file)
    with (folder / "y.pt").open("wb") as out:
        write_pt(rewritten, out.write, "y")
    return rewritten, folder / "y.pt"


def repack(path: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    """Change records and write all of them again, with checksums that are right."""
    found = records(path)
    change(found)
    path.write_bytes(craft.zipped({f"y/{name}": content for name, content in found.items()}))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, case in CATALOGUE.items() if case.torch_saves])
def test_every_byte_that_a_tensor_sees_counts(name: str, tmp_path: Path) -> None:
    """Each byte of each storage in turn is changed: it is either noticed, or no tensor sees it."""
    rewritten, path = rewritten_and_written(CATALOGUE[name].make(), tmp_path)
    verify(rewritten, path)
    original = path.read_bytes()
    before = pieces(path)
    random = np.random.default_rng(0)
    for key in [packed.key for packed in rewritten.storages if packed.nbytes][:6]:
        for _ in range(8):
            path.write_bytes(original)
            place = int(random.integers(1 << 30))

            def flip(found: dict[str, bytes], key: str = key, place: int = place) -> None:
                content = bytearray(found[f"data/{key}"])
                content[place % len(content)] ^= 0x40
                found[f"data/{key}"] = bytes(content)

            repack(path, flip)
            if pieces(path) != before:
                with pytest.raises(cw.StorageError, match=f"storage {key} was written .* reads back differently"):
                    verify(rewritten, path)


def pieces(path: Path) -> list[bytes] | None:
    """The bytes that each tensor sees, by torch's own account; None if torch makes no sense of them."""
    found: list[bytes] = []

    def note(storage: Any, offset: Any, size: Any, stride: Any, *rest: Any) -> Any:
        untyped = storage._untyped_storage
        itemsize = storage.dtype.itemsize
        for dtype in (one for one in rest if isinstance(one, torch.dtype)):
            itemsize = dtype.itemsize
        raw = torch.empty(0, dtype=torch.uint8).set_(untyped)
        steps = [min(n, 4) if not s else n for n, s in zip(size, stride, strict=True)]
        seen = raw.as_strided((*steps, itemsize), (*(s * itemsize for s in stride), 1), offset * itemsize)
        found.append(bytes(seen.contiguous().flatten().tolist()))

    with pytest.MonkeyPatch.context() as patch:
        for function in ("_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_qtensor"):
            original = getattr(torch._utils, function)

            def noting(*arguments: Any, original: Any = original) -> Any:
                note(*arguments)
                return original(*arguments)

            patch.setattr(torch._utils, function, noting)
        try:
            loaded = torch.load(path, weights_only=False)
        except RuntimeError:  # the sizes of a nested tensor are in storages, too
            return None
    bare = loaded.values() if isinstance(loaded, dict) else [loaded]
    found += [bytes(one.untyped().tolist()) for one in bare if isinstance(one, torch.TypedStorage)]
    return found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"K\x05K\x03\x86", b"K\x03K\x05\x86"),  # another shape
        (b"QK\x00", b"QK\x01"),  # another offset
        (b"K\x03K\x01\x86", b"K\x01K\x03\x86"),  # other strides
        (b"K\x0ftq", b"K\x0etq"),  # a storage of another size
        (b"_rebuild_tensor_v2", b"_rebuild_tensor_v7"),  # no tensor at all
        (b"FloatStorage", b"ShortStorage"),  # another dtype
        (b"X\x01\x00\x00\x000", b"X\x01\x00\x00\x001"),  # another storage
    ],
)
def test_every_number_of_a_tensor_counts(old: bytes, new: bytes, tmp_path: Path) -> None:
    rewritten, path = rewritten_and_written([floats(10, 10)[2:7, 4:7], floats(15)], tmp_path)
    pickled = records(path)["data.pkl"]
    assert old in pickled
    repack(path, lambda found: found.update({"data.pkl": pickled.replace(old, new, 1)}))
    with pytest.raises(cw.StorageError, match="nothing was replaced"):
        verify(rewritten, path)


def test_another_file_in_its_place(tmp_path: Path) -> None:
    rewritten, path = rewritten_and_written(floats(3), tmp_path)
    path.write_bytes(craft.safetensors({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}, b"a"))
    with pytest.raises(cw.StorageError, match="is not the file that was written"):
        verify(rewritten, path)
    for content in (b"", b"text", b"PK\x03\x04"):
        path.write_bytes(content)
        with pytest.raises(cw.StorageError, match="cannot be read back"):
            verify(rewritten, path)
    verify(rewritten, None)  # a pipe: there is nothing to read back


def test_windows_that_overlap_are_not_looked_at_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million windows over a few bytes are those few bytes."""
    base = floats(8000)
    windows = base[1::2].as_strided((1500, 1500), (2, 2), 1)
    assert windows.numel() > 100 * base.numel()
    compared = []

    def counting(old: Any, new: Any) -> bool:
        compared.append(old.size)
        return _equal(old, new)

    monkeypatch.setattr("cordwood.tensors.trimming.verify._equal", counting)
    rewritten, path = rewritten_and_written([windows, base.as_strided((1500, 1500), (1, 1), 7000 - 3000)], tmp_path)
    verify(rewritten, path)
    assert sum(compared) <= 2 * base.numel() * 4


def test_large_arrays_are_compared_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cordwood.tensors.trimming.verify._AT_ONCE", 10)
    random = np.random.default_rng(0)
    for shape in [(7,), (100,), (101,), (3, 40), (50, 2), (2, 3, 11), (11, 1, 13), (1, 500), (0, 5), ()]:
        one = random.integers(0, 256, shape, np.uint8) if shape else np.array(3, np.uint8)
        assert _equal(one, one.copy())
        assert not _equal(one, one[None])
        for index in np.ndindex(one.shape):
            other = one.copy()
            other[index] ^= 1
            assert not _equal(one, other)
