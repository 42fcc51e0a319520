"""Output that cannot be written: one line on stderr and an exit code, whichever verb it was."""

import argparse
import errno
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cordwood import cli
from cordwood.cli.output import checked_output, plain_output
from cordwood.errors import StorageError
from tests.marks import slow_after

TOLD = "cordwood: stdout: No space left on device; not all of the output could be written\n"
full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="a system without /dev/full")


class Full(io.StringIO):
    """A stream that takes what fits into its buffer, and has no disk behind it."""

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def run(words: list[str], folder: Path, **variables: str) -> tuple[int, str]:
    with Path("/dev/full").open("wb") as stdout:
        done = subprocess.run(
            [sys.executable, "-m", "cordwood", *words],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, **variables},
        )
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("output")
    torch.save({f"layer.{number}": torch.zeros(1) for number in range(300)}, folder / "big.pt")
    (folder / "script.py").write_text("print('trained')\n")
    return folder


@full
@pytest.mark.parametrize("unbuffered", slow_after(1, ["", "1"]))
@pytest.mark.parametrize(
    "words",
    [
        ["inspect", "big.pt", "--all"],  # more than the stream's buffer takes: it fails in the middle
        ["inspect", "big.pt"],
        ["completion", "bash"],
        [],
        ["inspect", "--help"],
    ],
)
def test_a_full_disk(words: list[str], unbuffered: str, folder: Path) -> None:
    assert run(words, folder, PYTHONUNBUFFERED=unbuffered) == (3, TOLD)


@pytest.mark.slow
@full
def test_a_full_disk_behind_a_packing_job(folder: Path) -> None:
    (folder / "samples").mkdir()
    for number in range(6):
        torch.save(torch.full((3,), number), folder / "samples" / f"{number}.pt")
    code, err = run(["pack", "samples", "out.cordwood", "--limit", "5"], folder)
    assert (code, err.splitlines(keepends=True)[-1]) == (3, TOLD)
    assert "Traceback" not in err


@pytest.mark.slow
@full
def test_a_script_under_the_doctor_has_the_stream_itself(folder: Path) -> None:
    words = ["doctor", "--quiet", "script.py"]
    assert run(words, folder, PYTHONUNBUFFERED="") == (3, TOLD)
    code, err = run(
        words, folder, PYTHONUNBUFFERED="1"
    )  # the script's own print fails, and that is told as Python does
    assert (code, err.splitlines()[-1]) == (1, "OSError: [Errno 28] No space left on device")


def test_a_reader_that_has_seen_enough(folder: Path) -> None:
    command = [sys.executable, "-m", "cordwood", "inspect", "big.pt", "--all"]
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as stdout:
        done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, cwd=folder)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_command_without_a_stdout(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert cli.main(["inspect", str(folder / "big.pt")]) == 0


def test_what_fails_is_told_and_the_stream_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Full()
    monkeypatch.setattr(sys, "stdout", stream)
    with (
        pytest.raises(StorageError, match="No space left on device; not all of the output") as raised,
        checked_output(),
    ):
        print("a line")
    assert (raised.value.errno, sys.stdout) == (errno.ENOSPC, stream)
    with pytest.raises(StorageError), checked_output():
        sys.exit(0)


def test_an_error_of_another_file_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Full())
    with pytest.raises(FileNotFoundError), checked_output():
        Path("/no/such/file").stat()


def test_a_script_sees_the_stream_and_may_put_another_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, other = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", stream)
    with checked_output():
        checked = sys.stdout
        assert checked is not stream
        with plain_output():
            assert sys.stdout is stream
        assert sys.stdout is checked
        with plain_output():
            sys.stdout = other
        assert sys.stdout is other
    with plain_output():
        assert sys.stdout is other


def test_wrong_words_still_exit_with_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    with pytest.raises(SystemExit) as stop:
        cli.main(["burn"])
    assert stop.value.code == 2


def test_the_parser_prints_to_the_checked_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Full())
    with pytest.raises(StorageError), checked_output():
        argparse.ArgumentParser().parse_args(["--help"])
