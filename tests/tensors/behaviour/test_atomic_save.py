"""Saving over an older file: it is there as it was until the new one is there whole, whatever happens."""

import errno
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from tests.tensors.support.objects import floats

FORMS: list[tuple[str, dict[str, Any]]] = [
    ("x.pt", {}),
    ("x.pt", {"compress": True}),
    ("x.pt", {"format": "pt-legacy"}),
    ("x.pt.zip", {}),
    ("x.cord", {}),
    ("x.cord", {"goal": "raw"}),
]
each_form = pytest.mark.parametrize(("name", "options"), FORMS, ids=str)
OLD = {"old": torch.arange(100)}


class Unpicklable:
    def __reduce__(self) -> Any:
        raise ZeroDivisionError("in the middle of pickling")


def assert_only_the_old_file(path: Path) -> None:
    assert list(path.parent.iterdir()) == [path]
    assert torch.equal(cw.load(path)["old"], OLD["old"])


def noise(count: int) -> torch.Tensor:
    return torch.randint(0, 256, (count,), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("background", [False, True])
@each_form
def test_an_exception_in_pickling(name: str, options: dict[str, Any], background: bool, tmp_path: Path) -> None:
    cw.save(OLD, tmp_path / name, **options)
    with pytest.raises(ZeroDivisionError):
        cw.save([floats(1000), Unpicklable()], tmp_path / name, background=background, **options)
    assert_only_the_old_file(tmp_path / name)


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), MemoryError(), OSError(errno.ENOSPC, "No space left on device")]
)
@each_form
def test_an_error_while_writing(
    name: str, options: dict[str, Any], error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cw.save(OLD, tmp_path / name, **options)
    write, calls = os.write, 0

    def failing(fd: int, data: Any) -> int:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise error
        return write(fd, data[:1000])

    monkeypatch.setattr(os, "write", failing)
    with pytest.raises(cw.StorageError if isinstance(error, OSError) else type(error)) as caught:
        cw.save([noise(3_000_000), noise(3_000_000)], tmp_path / name, **options)
    monkeypatch.undo()
    if isinstance(error, OSError):
        assert "the older file is unchanged" in str(caught.value)
        assert getattr(caught.value, "errno", None) == errno.ENOSPC
    assert_only_the_old_file(tmp_path / name)


def test_a_full_device() -> None:
    with pytest.raises(cw.StorageError, match="No space left on device") as caught:
        cw.save(floats(1000), "/dev/full")
    assert caught.value.errno == errno.ENOSPC


def limited(bytes_a_file: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_a_file, bytes_a_file))


def run(script: str, path: Path, limit: int | None = None) -> subprocess.CompletedProcess[str]:
    head = "import os, signal, sys\nimport torch\nimport cordwood as cw\npath = sys.argv[1]\n"
    return subprocess.run(
        [sys.executable, "-c", head + script, str(path)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=None if limit is None else lambda: limited(limit),
    )


@pytest.mark.slow
def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    cw.save(OLD, path)
    script = """
for background in (False, True):
    try:
        saving = cw.save(torch.rand(1_000_000), path, background=background)
        if background:
            saving.result()
    except cw.StorageError as error:
        print(error.errno, "unchanged" in str(error))
"""
    done = run(script, path, limit=100_000)
    assert done.stdout.split() == [str(errno.EFBIG), "True"] * 2, done.stderr
    assert_only_the_old_file(path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["x.pt", "x.cord"])
def test_a_killed_process(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    cw.save(OLD, path)
    script = """
write, calls = os.write, []
def killing(fd, data):
    calls.append(len(data))
    if len(calls) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return write(fd, data[:1000])
os.write = killing
cw.save(torch.rand(1_000_000), path)
"""
    done = run(script, path)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert torch.equal(cw.load(path)["old"], OLD["old"])
    aside = [other.name for other in tmp_path.iterdir() if other != path]
    assert len(aside) == 1  # nobody was left to remove it; its name tells whose it was
    assert aside[0].startswith(f".{name}.cordwood-")
    assert aside[0].endswith(".part")
    cw.save(OLD, path)
    assert torch.equal(cw.load(path)["old"], OLD["old"])


@pytest.mark.parametrize(("name", "options"), [("x.pt", {}), ("x.cord", {"goal": "raw"})])
def test_a_mapping_of_the_older_file_lives_on(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / name
    cw.save({"a": noise(2_000_000)}, path, **options)
    mapped = cw.load(path, mmap=True)
    cw.save({"a": torch.zeros(10)}, path, **options)
    assert torch.equal(mapped["a"], noise(2_000_000))
    assert torch.equal(cw.load(path)["a"], torch.zeros(10))


@pytest.mark.parametrize(("name", "options"), [("x.pt", {}), ("x.cord", {"goal": "raw"}), ("x.cord", {})])
def test_a_mapped_object_can_be_saved_over_itself(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / name
    cw.save({"a": noise(2_000_000), "b": torch.zeros(10)}, path, **options)
    mapped = cw.load(path, mmap=True)
    mapped["a"][:5] = 9  # in memory, not in the file
    assert torch.equal(cw.load(path)["a"], noise(2_000_000))
    cw.save(mapped, path, **options)
    expected = noise(2_000_000)
    expected[:5] = 9
    assert torch.equal(cw.load(path)["a"], expected)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    cw.save(OLD, tmp_path / "runs" / "x.pt")
    (tmp_path / "last.pt").symlink_to(tmp_path / "runs" / "x.pt")
    cw.save({"new": torch.ones(3)}, tmp_path / "last.pt")
    assert (tmp_path / "last.pt").is_symlink()
    assert torch.equal(cw.load(tmp_path / "runs" / "x.pt")["new"], torch.ones(3))


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(cw.StorageError, match="no file was made"):
        cw.save(OLD, tmp_path / "none" / "x.pt")
    with pytest.raises(cw.UsageError, match="is a folder"):
        cw.save(OLD, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["x.pt", "x.cord"])
def test_processes_that_save_to_one_path(name: str, tmp_path: Path) -> None:
    """Each file that can be seen there is whole, and is one of theirs; nothing else is left."""
    code = (
        "import sys, torch, cordwood as cw\n"
        "for _ in range(10): cw.save([torch.full((100_000,), int(sys.argv[1]))] * 2, sys.argv[2])"
    )
    path = tmp_path / name
    cw.save([torch.zeros(100_000, dtype=torch.int64)] * 2, path)
    children = [subprocess.Popen([sys.executable, "-c", code, str(number), str(path)]) for number in (1, 2)]
    seen = set()
    while any(child.poll() is None for child in children):
        first, second = cw.load(path)
        assert torch.equal(first, second)
        seen.update(first.unique().tolist())
    assert [child.returncode for child in children] == [0, 0]
    assert seen <= {0, 1, 2}
    assert cw.load(path)[0][0] in (1, 2)
    assert list(tmp_path.iterdir()) == [path]
