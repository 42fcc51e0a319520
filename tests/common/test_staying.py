"""Files that stay aside until they are whole, so that another process can go on with them."""

import errno
import os
from contextlib import suppress
from pathlib import Path

import pytest

from cordwood.common.atomic_file import staying
from cordwood.errors import StorageError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.pt"


@pytest.fixture
def aside(tmp_path: Path) -> Path:
    return tmp_path / ".x.pt.open"


def test_a_whole_file_takes_its_place(path: Path, aside: Path) -> None:
    path.write_bytes(b"older")
    with staying(path, aside) as file:
        file.write(b"new ")
        assert file.aside == aside
        assert path.read_bytes() == b"older"
        file.write(b"contents")
    assert path.read_bytes() == b"new contents"
    assert not aside.exists()


def test_what_was_written_stays_if_something_comes_in_between(path: Path, aside: Path) -> None:
    with suppress(KeyError), staying(path, aside) as file:
        file.write(b"first ")
        file.sync()
        file.write(b"lost")
        raise KeyError
    assert not path.exists()
    assert aside.read_bytes() == b"first "


def test_another_process_goes_on_behind_what_is_good(path: Path, aside: Path) -> None:
    aside.write_bytes(b"first and garbage that is longer than what follows")
    with staying(path, aside, size=6) as file:
        file.write(b"second")
    assert path.read_bytes() == b"first second"
    assert not aside.exists()


def test_without_a_size_what_another_one_left_is_forgotten(path: Path, aside: Path) -> None:
    aside.write_bytes(b"something long of another time")
    with staying(path, aside) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"


def test_links_in_its_place_are_not_followed(path: Path, aside: Path, tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"precious")
    aside.symlink_to(tmp_path / "victim")
    with pytest.raises(StorageError) as caught, staying(path, aside):
        raise AssertionError("nothing is written")
    assert caught.value.errno == errno.ELOOP
    assert (tmp_path / "victim").read_bytes() == b"precious"


def test_a_place_that_is_taken_is_told_and_nothing_is_lost(path: Path, aside: Path) -> None:
    path.mkdir()
    with pytest.raises(StorageError, match=r"what was written stays in \.x\.pt\.open"), staying(path, aside) as file:
        file.write(b"contents")
    assert aside.read_bytes() == b"contents"


def test_no_file_is_left_open(path: Path, aside: Path) -> None:
    before = len(list(Path("/dev/fd").iterdir()))
    for _ in range(3):
        with pytest.raises(KeyError), staying(path, aside):
            raise KeyError
        with staying(path, aside) as file:
            file.write(b"x")
    assert len(list(Path("/dev/fd").iterdir())) == before
    assert os.stat(path).st_size == 1  # noqa: PTH116 - of the file itself
