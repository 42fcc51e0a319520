"""One writer at a time."""

import fcntl
import os
import pickle
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cordwood.errors import StorageError
from cordwood.store.format.lock import LockedError, WriterLock

HOLD = """
import sys
from cordwood.store.format.lock import WriterLock
lock = WriterLock(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_one_is_told_whose_lock_it_is(tmp_path: Path) -> None:
    lock = WriterLock(tmp_path)
    with pytest.raises(StorageError, match=f"process {os.getpid()} on .* is writing to this store") as caught:
        WriterLock(tmp_path)
    assert caught.value.filename == str(tmp_path)
    lock.release()
    lock.release()
    WriterLock(tmp_path).release()
    assert (tmp_path / ".lock").read_bytes() == b""


def test_another_process(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StorageError, match=f"process {holder.pid} on "):
            WriterLock(tmp_path)
        holder.kill()
        holder.wait()
        # The lock went with its process, though the file still names it.
        assert str(holder.pid) in (tmp_path / ".lock").read_text()
        WriterLock(tmp_path).release()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_does_not_keep_it(tmp_path: Path) -> None:
    lock = WriterLock(tmp_path)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)  # until the parent is done
        os._exit(0)
    os.close(reading)
    lock.release()
    WriterLock(tmp_path).release()
    os.close(writing)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_does_not_release_it_either(tmp_path: Path) -> None:
    lock = WriterLock(tmp_path)
    child = os.fork()
    if child == 0:
        lock.release()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    with pytest.raises(StorageError, match="is writing"):
        WriterLock(tmp_path)
    lock.release()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="the store cannot be locked"):
        WriterLock(tmp_path / "missing")


def test_a_lock_file_with_something_else_in_it(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_bytes(b"\xff" * 1000)
    lock = WriterLock(tmp_path)
    (tmp_path / ".lock").write_bytes(b"\xff\xfe nonsense of several words")
    with pytest.raises(StorageError, match="another process is writing"):
        WriterLock(tmp_path)
    lock.release()


def test_a_lock_whose_file_is_removed_ends_with_its_holder_and_the_next_one_makes_a_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second writer may have opened the file before it was removed: two would have a lock each."""
    first = WriterLock(tmp_path, ".turn")
    flock = fcntl.flock

    def flock_when_the_first_is_done(fd: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        (tmp_path / ".turn").unlink()
        first.release()
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", flock_when_the_first_is_done)
    second = WriterLock(tmp_path, ".turn")
    with pytest.raises(LockedError):
        WriterLock(tmp_path, ".turn")
    second.release()


def test_the_holder_travels_with_the_error(tmp_path: Path) -> None:
    lock = WriterLock(tmp_path)
    with pytest.raises(LockedError) as caught:
        WriterLock(tmp_path)
    lock.release()
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.holder == caught.value.holder == f"process {os.getpid()} on {socket.gethostname()}"
