"""A shard that is cut short while it is mapped is a FormatError; whoever else meets a SIGBUS meets what he met before.

Every case works in a child process: a signal that is not caught ends that one, and is seen.
"""

import ctypes
import faulthandler
import mmap
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import cordwood as cw
from cordwood.errors import FormatError
from tests.store.support.forked import in_child
from tests.store.support.packed import pack
from tests.store.support.small_stores import ends_of

COUNT = 12
SAMPLES = [{"x": torch.arange(3000) + 10_000 * i, "n": i} for i in range(COUNT)]  # six pages each
CUT = "shard-00000000.cws"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two shards of some pages."""
    pack(tmp_path / "s", SAMPLES, "raw", shard_bytes=6 * 24_000)
    assert len(list((tmp_path / "s").glob("*.cws"))) == 2
    return tmp_path / "s"


def sizes(path: Path) -> list[int]:
    """Where to cut: nothing left, in the header, at and inside of pages, in frames, rows, footer and trailer."""
    ends = ends_of(path, 0)
    rows, footer, size = ends.rows_offset, ends.footer_offset, ends.file_size
    pages = [4096, 4097, 8 * 4096, rows // 4096 * 4096]
    return [0, 1, 31, *pages, rows - 1, rows, rows + 1, footer, size - 48, size - 1]


def without_handlers() -> None:
    """As in a process where nobody takes care of SIGBUS."""
    faulthandler.disable()
    signal.signal(signal.SIGBUS, signal.SIG_DFL)


def check_all(ds: cw.Dataset) -> int:
    """Read everything in every way: it is right, or a FormatError that names the shard; how many errors there were."""
    errors = 0
    ways: list[Callable[[int], bool]] = [
        lambda i: bool((ds[i]["x"] == SAMPLES[i]["x"]).all()),
        lambda i: bool((ds[[i, COUNT - 1]]["x"][0] == SAMPLES[i]["x"]).all()),
        lambda i: [one["n"] for one in ds.__getitems__([COUNT - 1, i])] == [COUNT - 1, i],
        lambda i: ds.select("n")[i] == (i,),
    ]
    for number in range(COUNT):
        for way in ways:
            try:
                assert way(number)
            except FormatError as error:
                assert CUT in str(error), error
                assert number < 6, error
                errors += 1
    return errors


def succeeds(work: Callable[[], object]) -> None:
    ended = in_child(work)
    assert ended.code == 0, ended.text or f"ended by signal {-ended.code}"


def test_cut_before_it_is_opened(path: Path) -> None:
    good = (path / CUT).read_bytes()

    def work() -> None:
        without_handlers()
        for size in sizes_before:
            (path / CUT).write_bytes(good[:size])
            ds = cw.open(path)
            assert check_all(ds) == 6 * 4
            with pytest.raises(FormatError, match="samples 0 to 5 cannot be read"):
                ds[3]

    sizes_before = sizes(path)
    succeeds(work)


@pytest.mark.parametrize("touched", [True, False])
def test_cut_while_it_is_open(path: Path, touched: bool) -> None:
    """Mapped pages that are gone, whether they have been read before or not."""
    good, places = (path / CUT).read_bytes(), sizes(path)

    def work() -> None:
        without_handlers()
        for size in places:
            (path / CUT).write_bytes(good)
            ds = cw.open(path, threads=3)
            assert ds[0]["n"] == 0  # mapped from here on
            if touched:
                assert check_all(ds) == 0
            os.truncate(path / CUT, size)
            errors = check_all(ds)
            # Behind the rows there is nothing that a mapped shard is read for.
            assert errors == 0 if size > read_rows_end else errors == 6 * 4, size
            (path / CUT).write_bytes(good)  # the same file again: nothing is left of the faults
            assert check_all(ds) == 0

    read_rows_end = ends_of(path, 0).footer_offset
    places = [size for size in places if size != read_rows_end]
    succeeds(work)


def test_the_error_says_what_is_lost(path: Path) -> None:
    def work() -> None:
        ds = cw.open(path)
        ds[0]
        os.truncate(path / CUT, 0)
        with pytest.raises(FormatError, match=r"shard-00000000.cws: sample 4 \(row 4 .*cut short while it was open"):
            ds[4]
        with pytest.raises(FormatError, match=r"sample 4 .*cut short while it was open.*Restore it from a copy"):
            ds[[7, 4, 8]]
        with pytest.raises(FormatError, match=r"sample 0 .*cut short"):
            ds.column("n")

    succeeds(work)


def test_threads_that_meet_it_together(path: Path) -> None:
    def work() -> None:
        without_handlers()
        ds = cw.open(path)
        assert check_all(ds) == 0
        os.truncate(path / CUT, 4096)
        found: list[int] = []
        threads = [threading.Thread(target=lambda: found.append(check_all(ds))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [6 * 4] * 8

    succeeds(work)


def test_cut_again_and_again_while_others_read(path: Path) -> None:
    """Also between a sample's row and its frame."""
    good = (path / CUT).read_bytes()

    def work() -> None:
        without_handlers()
        ds, done = cw.open(path), threading.Event()
        ds[0]
        failures: list[BaseException] = []

        def read() -> None:
            try:
                while not done.is_set():
                    check_all(ds)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for turn in range(150):
            os.truncate(path / CUT, turn % 7 * 4096)
            (path / CUT).write_bytes(good)
        done.set()
        for thread in threads:
            thread.join()
        assert not failures, failures
        assert check_all(ds) == 0

    succeeds(work)


def use_faulthandler() -> None:
    faulthandler.enable(file=os.open(os.devnull, os.O_WRONLY))


def use_python_handler() -> None:
    signal.signal(signal.SIGBUS, lambda *_: None)


@pytest.mark.parametrize("handler", [use_faulthandler, use_python_handler])
@pytest.mark.parametrize("first", ["handler", "reading"])
def test_handlers_of_the_program_do_no_harm(path: Path, handler: Callable[[], None], first: str) -> None:
    def work() -> None:
        without_handlers()
        if first == "handler":
            handler()
        ds = cw.open(path)
        assert check_all(ds) == 0
        if first == "reading":
            handler()
        os.truncate(path / CUT, 0)
        assert check_all(ds) == 6 * 4
        handler()
        assert check_all(ds) == 6 * 4

    succeeds(work)


def touch_a_page_that_is_gone(folder: Path) -> None:
    """A SIGBUS that has nothing to do with stores."""
    file = folder / "other"
    file.write_bytes(bytes(8192))
    with file.open("r+b") as opened:
        mapped = mmap.mmap(opened.fileno(), 8192)
    os.truncate(file, 0)
    assert mapped[5000] == 0


@pytest.mark.parametrize("handler", [None, use_faulthandler])
@pytest.mark.parametrize("first", ["handler", "reading"])
@pytest.mark.parametrize("faulted", [False, True])
def test_a_sigbus_of_somebody_else_ends_the_process_as_ever(
    path: Path, handler: Callable[[], None] | None, first: str, faulted: bool
) -> None:
    def work() -> None:
        without_handlers()
        if handler is not None and first == "handler":
            handler()
        ds = cw.open(path)
        assert check_all(ds) == 0
        if handler is not None and first == "reading":
            handler()
        if faulted:
            os.truncate(path / CUT, 0)
        check_all(ds)
        touch_a_page_that_is_gone(path)

    ended = in_child(work)
    assert ended.code == -signal.SIGBUS, ended.text


def test_a_handler_that_was_there_before_is_called(path: Path) -> None:
    def work() -> None:
        without_handlers()
        handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda number: os._exit(40 + number))
        ctypes.CDLL(None).signal(signal.SIGBUS, handler)
        ds = cw.open(path)
        assert check_all(ds) == 0
        os.truncate(path / CUT, 0)
        assert check_all(ds) == 6 * 4
        touch_a_page_that_is_gone(path)

    ended = in_child(work)
    assert ended.code == 40 + signal.SIGBUS, ended.text
