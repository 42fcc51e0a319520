"""Replacing files: the new one whole, or the old one as it was; whatever happens in between."""

import errno
import mmap
import os
import pickle
import resource
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from cordwood.common.atomic_file import replacing
from cordwood.errors import StorageError, UsageError

OLD = b"the old contents"
LARGE = os.urandom(3_000_000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "x.pt").write_bytes(OLD)
    return tmp_path / "x.pt"


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    before = os.umask(0o022)
    os.umask(before)
    yield os.umask
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def only(path: Path) -> bool:
    """Whether the file is alone in its folder: nothing was left beside it."""
    return list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("kind", [str, os.fsencode, Path])
def test_the_new_file_takes_the_place(
    path: Path, durable: bool, older: bool, kind: Callable[[Path], str | bytes | Path]
) -> None:
    if not older:
        path.unlink()
    with replacing(kind(path), durable=durable) as file:
        file.write(b"new ")
        assert path.exists() == older
        file.write(LARGE)
    assert path.read_bytes() == b"new " + LARGE
    assert only(path)


def test_writes_of_every_size_keep_their_order(path: Path) -> None:
    written = []
    with replacing(path) as file:
        for size in (
            0,
            1,
            100_000,
            200_000,
            262_143,
            262_144,
            5,
            1_000_000,
            0,
            3,
            262_143,
            262_143,
            262_143,
            262_143,
            2,
        ):
            piece = LARGE[size // 2 : size // 2 + size]
            assert file.write(piece) == size
            written.append(piece)
            assert file.tell() == sum(map(len, written))
    assert path.read_bytes() == b"".join(written)


def test_a_buffer_may_change_after_it_was_written(path: Path) -> None:
    buffer = bytearray(b"first")
    with replacing(path) as file:
        file.write(buffer)
        buffer[:] = b"other"
        file.write(memoryview(np.arange(6, dtype=np.int16).reshape(2, 3)))
    assert path.read_bytes() == b"first" + np.arange(6, dtype=np.int16).tobytes()


def test_short_writes_go_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:70_001]))
    with replacing(path) as file:
        file.write(LARGE)
    assert path.read_bytes() == LARGE


def test_nobody_sees_half_a_file(path: Path) -> None:
    with replacing(path) as file:
        file.write(LARGE)
        file.flush()
        assert path.read_bytes() == OLD
        [aside] = [other for other in path.parent.iterdir() if other != path]
        assert aside.name.startswith(f".x.pt.cordwood-{os.getpid()}-")
        assert aside.name.endswith(".part")
    assert path.read_bytes() == LARGE


def test_what_was_written_can_be_looked_at_before_it_takes_the_place(path: Path) -> None:
    with replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert file.aside is not None
        assert file.aside.read_bytes() == b"new"
    assert not file.aside.exists()


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit, OSError])
@pytest.mark.parametrize("older", [False, True])
def test_an_exception_changes_nothing(path: Path, error: type[BaseException], older: bool) -> None:
    if not older:
        path.unlink()

    def interrupted() -> None:
        with replacing(path) as file:
            file.write(LARGE)
            raise error("in the middle")

    with pytest.raises(error, match="in the middle") as raised:
        interrupted()
    assert type(raised.value) is error
    assert list(path.parent.iterdir()) == ([path] if older else [])
    assert not older or path.read_bytes() == OLD


def test_a_real_interrupt(path: Path) -> None:
    def interrupted() -> None:
        with replacing(path) as file:
            file.write(LARGE)
            signal.raise_signal(signal.SIGINT)
            file.write(LARGE)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == OLD
    assert only(path)


def test_an_interrupt_at_opening_leaves_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []
    real = os.open

    def late(*args: object) -> int:
        opened.append(real(*args))  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", late)
        with pytest.raises(KeyboardInterrupt), replacing(path):
            pytest.fail("the block runs although the file could not be opened")
    os.close(opened[0])
    assert only(path)


def test_a_mapping_of_the_old_file_keeps_its_bytes(path: Path) -> None:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        with replacing(path) as new:
            new.write(b"short")
        assert view[:] == OLD
    assert path.read_bytes() == b"short"


def test_permissions_are_kept(path: Path, umask: Callable[[int], int]) -> None:
    umask(0o077)
    for mode in (0o600, 0o644, 0o664, 0o755):
        path.chmod(mode)
        with replacing(path) as file:
            file.write(b"new")
        assert mode_of(path) == mode


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_has_the_usual_permissions(
    tmp_path: Path, umask: Callable[[int], int], mask: int, mode: int
) -> None:
    umask(mask)
    with replacing(tmp_path / "new") as file:
        file.write(b"new")
    assert mode_of(tmp_path / "new") == mode


def test_a_secret_is_one_from_its_first_byte(path: Path, umask: Callable[[int], int]) -> None:
    umask(0o022)
    path.chmod(0o600)
    with replacing(path) as file:
        file.write(LARGE)
        [aside] = [other for other in path.parent.iterdir() if other != path]
        assert mode_of(aside) == 0o600


def test_protection_is_asked_for_even_where_renaming_would_get_around_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # what the system answers to all but root
    with pytest.raises(StorageError, match="the older file is unchanged") as raised, replacing(path):
        pytest.fail("the block runs although the file is protected")
    assert raised.value.errno == errno.EACCES
    assert path.read_bytes() == OLD
    assert only(path)


def test_links_stay_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "x.pt"
    target.write_bytes(OLD)
    (tmp_path / "link").symlink_to("real/x.pt")
    (tmp_path / "link to link").symlink_to("link")
    (tmp_path / "dangling").symlink_to("real/new.pt")
    for name, file_behind in (("link to link", target), ("dangling", tmp_path / "real" / "new.pt")):
        with replacing(tmp_path / name) as file:
            file.write(b"new")
        assert (tmp_path / name).is_symlink()
        assert not file_behind.is_symlink()
        assert file_behind.read_bytes() == b"new"
    assert sorted(other.name for other in (tmp_path / "real").iterdir()) == ["new.pt", "x.pt"]


def test_names_as_long_as_the_file_system_allows(tmp_path: Path) -> None:
    for name in ("x" * 255, "é" * 127):
        with replacing(tmp_path / name) as file:
            file.write(b"new")
        assert (tmp_path / name).read_bytes() == b"new"


def test_a_pipe_is_written_to_directly(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    with replacing(tmp_path / "pipe", durable=True) as file:
        assert file.aside is None
        file.write(b"small")
        file.write(LARGE)
    reader.join()
    assert read == [b"small" + LARGE]
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert only(tmp_path / "pipe")


def test_standard_output_is_a_path_too() -> None:
    code = "from cordwood.common.atomic_file import replacing\nwith replacing('/dev/stdout') as f: f.write(b'out')"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"out"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("size", [10, len(LARGE)])
def test_a_device_without_room(size: int) -> None:
    with pytest.raises(StorageError, match="a part may have been written") as raised, replacing("/dev/full") as file:
        file.write(LARGE[:size])
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, "/dev/full")


def in_a_subprocess(code: str, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)


FULL_DISK = f"""
import pathlib, resource, signal, sys
from cordwood.errors import StorageError
from cordwood.common.atomic_file import replacing
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, {resource.RLIM_INFINITY}))
try:
    with replacing(sys.argv[1]) as file:
        for size in SIZES:
            file.write(bytes(size))
except StorageError as error:
    print(error.errno, error.filename, error)
"""


@pytest.mark.parametrize(
    ("sizes", "older"),
    [("[3_000_000]", True), ("[100_000] * 20", False), ("[200_000] * 5 + [100]", True)],
    ids=["one large write", "many small ones", "at the very end"],
)
def test_a_full_disk_leaves_the_older_file(path: Path, sizes: str, older: bool) -> None:
    if not older:
        path.unlink()
    done = in_a_subprocess(FULL_DISK.replace("SIZES", sizes), path)
    kept = "the older file is unchanged" if older else "no file was made"
    assert done.stderr == ""
    assert done.stdout.startswith(f"{errno.EFBIG} {path} ")
    assert f"File too large; nothing was written, {kept}" in done.stdout
    assert list(path.parent.iterdir()) == ([path] if older else [])
    assert not older or path.read_bytes() == OLD


def test_a_killed_process_leaves_the_older_file(path: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "from cordwood.common.atomic_file import replacing\n"
        "with replacing(sys.argv[1]) as file:\n"
        "    file.write(bytes(3_000_000))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert in_a_subprocess(code, path).returncode == -signal.SIGKILL
    assert path.read_bytes() == OLD
    [left] = [other for other in path.parent.iterdir() if other != path]
    assert left.match(".x.pt.cordwood-*-*.part")
    with replacing(path) as file:  # what is left is in nobody's way
        file.write(b"new")
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("call", ["fsync", "close", "fchmod"])
def test_what_fails_at_the_end_leaves_the_older_file(path: Path, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = getattr(os, call)
    calls: list[int] = []

    def failing(fd: int, *rest: int) -> None:
        calls.append(fd)
        real(fd, *rest)
        if len(calls) == 1:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing)
        with pytest.raises(StorageError, match="the older file is unchanged") as raised:  # noqa: SIM117
            with replacing(path, durable=True) as file:
                file.write(b"new")
    assert raised.value.errno == errno.EDQUOT
    assert path.read_bytes() == OLD
    assert only(path)


def test_durable_syncs_the_file_before_its_name_and_then_the_folder(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, synced = os.fsync, []

    def noting(fd: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file"
        synced.append((kind, path.read_bytes()))
        real(fd)

    monkeypatch.setattr(os, "fsync", noting)
    with replacing(path) as file:
        file.write(b"not synced")
    assert synced == []
    with replacing(path, durable=True) as file:
        file.write(b"new")
    assert synced == [("file", b"not synced"), ("folder", b"new")]


def test_a_folder_that_cannot_be_synced_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fsync

    def failing(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(fd)

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(StorageError, match="the new file is in place"), replacing(path, durable=True) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"


def test_what_cannot_be_written_says_why(path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder: name a file in it"), replacing(path.parent):
        pytest.fail("the block runs although the path is a folder")
    with pytest.raises(UsageError, match="cannot be the path"), replacing("x\0y"):
        pytest.fail("the block runs although the path is none")
    for missing, number in ((path.parent / "none" / "x", errno.ENOENT), (path / "x", errno.ENOTDIR)):
        with pytest.raises(StorageError, match="no file was made") as raised, replacing(missing):
            pytest.fail("the block runs although there is no such folder")
        assert (raised.value.errno, raised.value.filename) == (number, str(missing))
        copy = pickle.loads(pickle.dumps(raised.value))
        assert (copy.errno, copy.filename, str(copy)) == (number, str(missing), str(raised.value))


@pytest.mark.parametrize(
    ("durable", "older", "synced"),
    [(None, False, 0), (None, True, 1), (False, True, 0), (True, False, 2), (True, True, 2)],
)
def test_what_replaces_an_older_file_is_on_the_disk_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool | None, older: bool, synced: int
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(os, "fsync", calls.append)
    if older:
        (tmp_path / "x").write_bytes(b"older")
    with replacing(tmp_path / "x", durable=durable) as file:
        file.write(b"new")
    assert len(calls) == synced
    assert (tmp_path / "x").read_bytes() == b"new"


@pytest.mark.parametrize(("durable", "synced"), [(None, 1), (False, 0)])
def test_a_file_that_appears_during_the_write_is_an_older_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool | None, synced: int
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(os, "fsync", calls.append)
    with replacing(tmp_path / "x", durable=durable) as file:
        file.write(b"new")
        (tmp_path / "x").write_bytes(b"of another process")
    assert len(calls) == synced
    assert (tmp_path / "x").read_bytes() == b"new"
