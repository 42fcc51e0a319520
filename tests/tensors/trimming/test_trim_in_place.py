"""`trim` in place, what it refuses, and what becomes of older files when something goes wrong."""

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from cordwood.tensors.trimming import trim
from tests.tensors.support import craft
from tests.tensors.support.objects import QUIET, floats
from tests.tensors.support.same import assert_same
from tests.tensors.support.trimmed import INPUTS, check, crafted, each_input, storages, view, wasteful, write

pytestmark = QUIET


# damaged


def test_damaged_records_are_reported_and_kept(tmp_path: Path) -> None:
    obj = {"whole": torch.arange(100), "part": torch.arange(1000)[:10]}
    path = write(obj, tmp_path / "x.pt")
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if "/data/" in info.filename:
                length = int.from_bytes(data[info.header_offset + 28 : info.header_offset + 30], "little")
                data[info.header_offset + 30 + len(info.filename) + length + 9] ^= 0xFF
    path.write_bytes(data)
    result = cw.trim(path, tmp_path / "small.pt")
    assert [line.partition(":")[0] for line in result.damaged] == ["x/data/0"]  # of the other not all is read
    assert_same(torch.load(path), torch.load(tmp_path / "small.pt"), strides=False)
    with zipfile.ZipFile(tmp_path / "small.pt") as archive:
        assert archive.testzip() is None  # the new file's own checksums are right
    assert cw.trim(tmp_path / "small.pt", tmp_path / "again.pt").damaged == []


def test_files_without_checksums_are_not_damaged(tmp_path: Path) -> None:
    torch.serialization.set_crc32_options(False)
    try:
        write({"a": torch.arange(100), "b": torch.zeros(30)}, tmp_path / "x.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    assert cw.trim(tmp_path / "x.pt", tmp_path / "small.pt").damaged == []


# refused


def test_torchscript_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "script.pt"
    path.write_bytes(craft.archive(craft.pickled(view()), {"0": bytes(160)}, extra={"constants.pkl": b"\x80\x02)."}))
    with pytest.raises(cw.FormatError, match="TorchScript archive, which holds a program"):
        cw.trim(path, tmp_path / "small.pt")


def test_formats_without_waste_are_refused(tmp_path: Path) -> None:
    cw.save(floats(3), tmp_path / "x.cord")
    with pytest.raises(cw.UsageError, match=r"x\.cord is a \.cord file, which holds nothing but"):
        cw.trim(tmp_path / "x.cord", tmp_path / "small.pt")
    (tmp_path / "x.safetensors").write_bytes(
        craft.safetensors({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}, b"a")
    )
    with pytest.raises(cw.UsageError, match=r"x\.safetensors is a \.safetensors file, whose tensors share nothing"):
        cw.trim(tmp_path / "x.safetensors", tmp_path / "small.pt")
    with pytest.raises(cw.UsageError, match=r"\.safetensors file cannot hold"):
        cw.trim(write(floats(3), tmp_path / "x.pt"), tmp_path / "small.safetensors")
    (tmp_path / "x.txt").write_text("text")
    with pytest.raises(cw.FormatError, match=r"x\.txt"):
        cw.trim(tmp_path / "x.txt", tmp_path / "small.pt")


def test_a_suffix_that_nothing_new_is_given_can_be_kept(tmp_path: Path) -> None:
    path = write(wasteful(), tmp_path / "x.crd")
    with pytest.raises(cw.UsageError, match=r"did you mean \.cord\?$"):
        cw.trim(write(wasteful(), tmp_path / "x.pt"), tmp_path / "small.crd")
    (advice,) = cw.inspect(path).advice
    assert advice.endswith("x-small.crd")
    assert cw.trim(path, tmp_path / "x-small.crd").saved > 0
    assert cw.trim(path, in_place=True).saved > 0


def test_storages_over_parts_of_others_are_refused(tmp_path: Path) -> None:
    """As torch wrote them in 2016."""
    tensor = craft.legacy_tensor("1", 10, view=("2", 3, 4), size=(4,))
    (tmp_path / "x.pt").write_bytes(craft.legacy(tensor, [("1", 10, bytes(40))]))
    with pytest.raises(cw.FormatError, match="lies over a part of another one"):
        cw.trim(tmp_path / "x.pt", tmp_path / "small.pt")


def test_wrong_use(tmp_path: Path) -> None:
    path = write(wasteful(), tmp_path / "x.pt")
    content = path.read_bytes()
    (tmp_path / "link.pt").symlink_to(path)
    (tmp_path / "folder").mkdir()
    wrong: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("either a second path or in_place", (path,), {}),
        ("either a second path or in_place", (path, tmp_path / "y.pt"), {"in_place": True}),
        ("needs the path", (io.BytesIO(content),), {"in_place": True}),
        ("writes to a path", (path, io.BytesIO()), {}),
        ("would be written over itself", (path, path), {}),
        ("would be written over itself", (path, tmp_path / "folder" / ".." / "x.pt"), {}),
        ("would be written over itself", (path, tmp_path / "link.pt"), {}),
        ("would be written over itself", (tmp_path / "link.pt", path), {}),
        ("is a folder", (path, tmp_path / "folder"), {}),
        ("is a folder", (tmp_path / "folder", tmp_path / "y.pt"), {}),
        ("compress is for .pt", (path, tmp_path / "y.cord"), {"compress": True}),
        ("compressed by the archive", (path, tmp_path / "y.pt.zip"), {"compress": True}),
    ]
    for message, arguments, options in wrong:
        with pytest.raises(cw.UsageError, match=message):
            cw.trim(*arguments, **options)
    with pytest.raises(FileNotFoundError):
        cw.trim(tmp_path / "none.pt", tmp_path / "y.pt")
    assert path.read_bytes() == content
    assert {one.name for one in tmp_path.iterdir()} == {"x.pt", "link.pt", "folder"}


def test_from_a_file_object(tmp_path: Path) -> None:
    path = write(wasteful(), tmp_path / "x.pt")
    with path.open("rb") as file:
        cw.trim(file, tmp_path / "small.pt")
    cw.trim(io.BytesIO(path.read_bytes()), str(tmp_path / "other.pt"))
    assert (tmp_path / "small.pt").read_bytes() == (tmp_path / "other.pt").read_bytes()


# in place


@each_input
def test_in_place(form: str, tmp_path: Path) -> None:
    obj = wasteful()
    path = INPUTS[form](obj, tmp_path / "x.pt")
    path.chmod(0o640)
    result = cw.trim(path, in_place=True)
    assert result.after == path.stat().st_size < 5_000 < 35_000 < result.before
    assert path.stat().st_mode & 0o777 == 0o640
    assert_same(obj, cw.load(path), strides=False)
    content, number = path.read_bytes(), path.stat().st_ino
    again = cw.trim(path, in_place=True)
    assert again.saved == 0
    assert again.notes == ["nothing to trim: the file would not become smaller"]
    assert (path.read_bytes(), path.stat().st_ino) == (content, number)


def test_in_place_through_a_link(tmp_path: Path) -> None:
    path = write(wasteful(), tmp_path / "x.pt")
    (tmp_path / "link.pt").symlink_to("x.pt")
    cw.trim(tmp_path / "link.pt", in_place=True)
    assert (tmp_path / "link.pt").is_symlink()
    assert path.stat().st_size < 4_000


def test_in_place_drops_what_nobody_refers_to(tmp_path: Path) -> None:
    path = crafted(tmp_path / "x.pt", craft.tensor("0", 40, size=(40,)), content={"0": bytes(160), "1": bytes(5000)})
    assert cw.trim(path, in_place=True).saved > 4_000
    assert storages(path) == {"0": 160}


def test_in_place_compresses_and_the_other_way_round(tmp_path: Path) -> None:
    path = write({"a": torch.zeros(10_000)}, tmp_path / "x.pt")
    assert cw.trim(path, in_place=True, compress=True).after < 4_000
    assert cw.trim(path, in_place=True).notes
    assert cw.trim(path, in_place=True, compress=False).after > 40_000
    assert cw.trim(path, in_place=True, compress=False).notes
    check({"a": torch.zeros(10_000)}, path, weights_only=True)


@pytest.mark.parametrize("when", ["verify", "write"])
def test_an_interrupt_leaves_the_older_file(when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(wasteful(), tmp_path / "x.pt")
    content = path.read_bytes()

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    if when == "verify":
        monkeypatch.setattr(trim, "verify", interrupt)
    else:
        monkeypatch.setattr("cordwood.tensors.formats.pt_writer._Archive.finish", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cw.trim(path, in_place=True)
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_the_older_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write({"a": floats(500_000)[:300_000]}, tmp_path / "x.pt")
    content = path.read_bytes()

    def full(fd: int, data: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cordwood.common.atomic_file.os.write", full)
    with pytest.raises(
        cw.StorageError, match="No space left on device; nothing was written, the older file is unchanged"
    ):
        cw.trim(path, in_place=True)
    monkeypatch.undo()
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]
