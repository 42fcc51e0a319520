"""What killed writers left is removed, and never the file of a writer that lives."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cordwood.common.atomic_file import replacing
from cordwood.errors import StorageError

_WRITER = """
import os, sys
from cordwood.common.atomic_file import replacing
with replacing(sys.argv[1]) as file:
    file.write(b"x" * 10)
    file.flush()
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_the_next_write_removes_what_a_killed_one_left_and_nothing_else(tmp_path: Path) -> None:
    alive, killed = (
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path / name)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for name in ("alive.pt", "killed.pt")
    )
    try:
        for process in (alive, killed):
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        killed.kill()
        killed.wait()
        assert len(list(tmp_path.glob(".*.part"))) == 2
        (tmp_path / ".notes.part").write_text("not ours")
        with replacing(tmp_path / "new.pt") as file:
            file.write(b"y")
        assert {path.name.split(".cordwood")[0] for path in tmp_path.glob(".*.part")} == {".alive.pt", ".notes.part"}
        alive.communicate(b"")
        assert (tmp_path / "alive.pt").read_bytes() == b"x" * 10
    finally:
        for process in (alive, killed):
            process.kill()
            process.communicate()


def test_a_file_that_another_save_takes_for_a_leftover_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock, open_file = fcntl.flock, os.open
    taken: list[tuple[Path, int]] = []

    def late(fd: int, how: int) -> None:
        if not taken:  # the other process comes between the making of the file and its lock
            [aside] = tmp_path.glob(".*.part")
            taken.append((aside, open_file(aside, os.O_RDWR)))
            flock(taken[0][1], how)
        flock(fd, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with replacing(tmp_path / "x.pt") as file:
        file.write(b"new")
        aside, other = taken[0]
        assert file.aside != aside
        aside.unlink(missing_ok=True)  # and goes on now: it has the lock
        os.close(other)
    assert (tmp_path / "x.pt").read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [tmp_path / "x.pt"]


def test_a_file_that_was_removed_before_its_lock_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flock, removed = fcntl.flock, list[Path]()

    def late(fd: int, how: int) -> None:
        if not removed:
            removed.extend(tmp_path.glob(".*.part"))
            removed[0].unlink()
        flock(fd, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with replacing(tmp_path / "x.pt") as file:
        file.write(b"new")
    assert len(removed) == 1
    assert (tmp_path / "x.pt").read_bytes() == b"new"


def test_a_lock_that_is_never_had_is_an_error_and_no_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def held(fd: int, how: int) -> None:
        raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK))

    monkeypatch.setattr(fcntl, "flock", held)
    with pytest.raises(StorageError, match="locked by others; nothing was written"), replacing(tmp_path / "x.pt"):
        pytest.fail("the block runs without a file")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS])
def test_where_there_are_no_locks_files_are_written_and_leftovers_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def unknown(fd: int, how: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", unknown)
    left = tmp_path / f".x.pt.cordwood-1-{'0' * 12}.part"
    left.write_bytes(b"perhaps still being written")
    with replacing(tmp_path / "x.pt") as file:
        file.write(b"new")
    assert (tmp_path / "x.pt").read_bytes() == b"new"
    assert left.exists()
