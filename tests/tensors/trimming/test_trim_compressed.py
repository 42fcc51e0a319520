"""`trim` and compressed files, and how little it reads and holds."""

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import cordwood as cw
from tests.tensors.support import craft
from tests.tensors.support.objects import QUIET, floats
from tests.tensors.support.same import assert_same
from tests.tensors.support.trimmed import check, storages, wasteful, write

pytestmark = QUIET


# compressed files


@pytest.mark.parametrize("by", ["save", "trim"])
def test_compressed_files_trimmed_again(by: str, tmp_path: Path) -> None:
    obj = {"a": torch.zeros(30_000), "b": floats(100)}
    if by == "save":
        cw.save(obj, tmp_path / "x.pt", compress=True)
    else:
        write(obj, tmp_path / "plain.pt")
        cw.trim(tmp_path / "plain.pt", tmp_path / "x.pt", compress=True)
    for compress, deflated in [(None, True), (True, True), (False, False)]:
        result = cw.trim(tmp_path / "x.pt", tmp_path / "again.pt", compress=compress)
        assert (result.after < 10_000) == deflated
        check(obj, tmp_path / "again.pt", weights_only=True)
        if deflated:
            assert result.saved == 0
            with pytest.raises(RuntimeError):
                torch.load(tmp_path / "again.pt", mmap=True)
        else:
            assert_same(obj, torch.load(tmp_path / "again.pt", mmap=True))
            assert storages(tmp_path / "again.pt") == {"0": 120_000, "1": 400, "tripwire": 0}
            cw.trim(tmp_path / "again.pt", tmp_path / "back.pt", compress=True)
            with pytest.raises(RuntimeError):
                torch.load(tmp_path / "back.pt", mmap=True)
            check(obj, tmp_path / "back.pt", weights_only=True)
    for name in ("x.cord", "x.pt.zip"):
        cw.trim(tmp_path / "x.pt", tmp_path / name)
        assert_same(obj, cw.load(tmp_path / name), strides=False)


@pytest.mark.parametrize(("protocol", "legacy"), [(2, False), (4, False), (2, True), (4, True)])
def test_a_tripwire_is_laid_into_any_pickle(protocol: int, legacy: bool, tmp_path: Path) -> None:
    obj = [torch.zeros(50_000)[:20_000], nn.Parameter(floats(3)), torch.zeros(50).to(torch.float8_e5m2)][
        : 2 if legacy else 3
    ]
    write(obj, tmp_path / "x.pt", pickle_protocol=protocol, _use_new_zipfile_serialization=not legacy)
    cw.trim(tmp_path / "x.pt", tmp_path / "small.pt", compress=True)
    with pytest.raises(RuntimeError):
        torch.load(tmp_path / "small.pt", mmap=True, weights_only=False)
    check(obj, tmp_path / "small.pt")


def test_what_says_much_of_small_tensors_stays_small(tmp_path: Path) -> None:
    """Where nothing but the pickle was worth deflating, it is so again."""
    obj = {f"layer{number}.weight": floats(5, seed=number) for number in range(300)}
    cw.save(obj, tmp_path / "x.pt", compress=True)
    assert cw.trim(tmp_path / "x.pt", tmp_path / "again.pt").saved == 0
    assert cw.trim(tmp_path / "x.pt", tmp_path / "again.pt", compress=False).saved < -10_000


def test_without_a_place_for_a_tripwire_nothing_is_deflated(tmp_path: Path) -> None:
    write(torch.zeros(10_000).untyped_storage(), tmp_path / "x.pt")
    result = cw.trim(tmp_path / "x.pt", tmp_path / "small.pt", compress=True)
    assert result.after > 40_000


# little is read


def sparse_file(path: Path, gigabytes: int) -> None:
    """A checkpoint with a storage of so many gigabytes, nearly all of it a hole in the file, as torch lays it out."""
    numel = gigabytes << 28
    pickled = craft.pickled(
        craft.value(
            {
                "rows": craft.tensor("0", numel, offset=1 << 20, size=(5 << 20,), stride=(1,)),
                "one": craft.tensor("0", numel, offset=numel - 1, size=(1,), stride=(1,)),
            }
        )
    )
    with path.open("wb") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x/data.pkl", pickled)
        archive.writestr("x/version", b"3\n")
        archive.start_dir = file.tell()
        info = zipfile.ZipInfo("x/data/0")
        info.file_size = info.compress_size = numel * 4
        info.CRC = 0
        info.header_offset = file.tell()
        header = info.FileHeader(zip64=True)
        file.write(header)
        start = file.tell()
        file.seek(start + (4 << 20))
        file.write(np.arange(5 << 20, dtype=np.float32).tobytes())
        file.seek(start + numel * 4 - 4)
        file.write(np.float32(7).tobytes())
        archive.start_dir = file.tell()
        archive.filelist.append(info)
        archive.NameToInfo[info.filename] = info
        archive._didModify = True  # type: ignore[attr-defined]


@pytest.mark.slow
def test_time_and_memory_follow_what_is_kept(tmp_path: Path) -> None:
    """Of 2 GiB, one percent is reached: what the process holds and has touched of the file stays near that."""
    path = tmp_path / "x.pt"
    sparse_file(path, 2)
    assert path.stat().st_size > 2 << 30
    code = f"""
import resource, sys, torch, cordwood as cw
from cordwood.tensors.trimming import trim as trimming
cw.trim({str(write(wasteful(), tmp_path / "warm.pt"))!r}, {str(tmp_path / "warm2.pt")!r})
def read(): return int(open("/proc/self/io").read().split("rchar: ")[1].split()[0])
before, already = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, read()
cw.trim({str(path)!r}, {str(tmp_path / "small.pt")!r})
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, (read() - already) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    held, read = map(int, done.stdout.split())
    kept = 20 << 10  # KiB
    assert held < 4 * kept  # the pages of the old file, of the new one, and the copy between them
    assert read < 2 * kept
    assert (tmp_path / "small.pt").stat().st_size < (kept + 4) * 1024
    loaded = torch.load(tmp_path / "small.pt")
    assert torch.equal(loaded["rows"], torch.arange(5 << 20, dtype=torch.float32))
    assert loaded["one"].item() == 7


@pytest.mark.slow
def test_one_deflated_storage_is_in_memory_at_a_time(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.pt", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        tensors = [craft.tensor(str(n), 10 << 20, size=(1000,), offset=n) for n in range(8)]
        archive.writestr("x/data.pkl", craft.pickled(craft.value(tensors)))
        archive.writestr("x/version", b"3\n")
        for number in range(8):
            archive.writestr(f"x/data/{number}", bytes([number]) * (40 << 20))
    code = f"""
import resource, cordwood as cw
cw.trim({str(write(wasteful(), tmp_path / "warm.pt"))!r}, {str(tmp_path / "warm2.pt")!r}, compress=True)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
cw.trim({str(tmp_path / "x.pt")!r}, {str(tmp_path / "small.pt")!r})
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 100 << 10  # KiB; all eight would be 320 MiB
    loaded = torch.load(tmp_path / "small.pt")
    assert [tensor.view(torch.uint8).unique().tolist() for tensor in loaded] == [[number] for number in range(8)]
