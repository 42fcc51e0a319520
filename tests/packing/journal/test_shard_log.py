"""The log of an unfinished shard: what is whole of it counts, and nothing else."""

from pathlib import Path

import pytest

from cordwood.errors import FormatError, StorageError
from cordwood.packing.journal import shard_log
from cordwood.packing.journal.inputs import Position, Totals
from cordwood.packing.journal.shard_log import Checkpoint, Log, log_path, open_path, read, remove_unfinished


def checkpoint(number: int) -> Checkpoint:
    return Checkpoint(Position(number, 2), Totals(inputs=number, samples=3 * number), Position(1, 0), [{"worst": 0.1}])


@pytest.fixture
def ends(tmp_path: Path) -> list[int]:
    """A log of three records; where each one ends."""
    log = Log(log_path(tmp_path, 7))
    found = []
    for number in range(3):
        log.add(checkpoint(number).to_json(), b"row%d" % number, b"line%d\n" % number)
        found.append(log_path(tmp_path, 7).stat().st_size)
    log.close()
    log.close()
    return found


def test_everything_up_to_the_last_checkpoint_is_found(tmp_path: Path, ends: list[int]) -> None:
    found = read(tmp_path, 7)
    assert found is not None
    assert found == shard_log.LogContents(checkpoint(2), b"row0row1row2", b"line0\nline1\nline2\n", ends[2])
    assert read(tmp_path, 8) is None


def test_a_log_that_is_cut_short_ends_with_its_last_whole_record(tmp_path: Path, ends: list[int]) -> None:
    path = log_path(tmp_path, 7)
    data = path.read_bytes()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        whole = [end for end in ends if end <= size]
        found = read(tmp_path, 7)
        assert (found.size if found is not None else 0) == (whole[-1] if whole else 0)
        assert found is None or found.checkpoint == checkpoint(len(whole) - 1)


def test_a_damaged_record_ends_the_log(tmp_path: Path, ends: list[int]) -> None:
    path = log_path(tmp_path, 7)
    data = path.read_bytes()
    for place in range(ends[0], ends[1]):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        found = read(tmp_path, 7)
        assert found is not None
        assert (found.size, found.rows) == (ends[0], b"row0")


def test_another_process_goes_on_behind_what_is_good(tmp_path: Path, ends: list[int]) -> None:
    path = log_path(tmp_path, 7)
    path.write_bytes(path.read_bytes()[: ends[1] + 5])
    log = Log(log_path(tmp_path, 7), ends[1])
    log.add(checkpoint(9).to_json(), b"row9", b"")
    log.close()
    found = read(tmp_path, 7)
    assert found is not None
    assert (found.checkpoint, found.rows, found.lines) == (checkpoint(9), b"row0row1row9", b"line0\nline1\n")
    log = Log(log_path(tmp_path, 7))
    log.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "found", [None, [], {}, {"position": [1], "first": 3}, {"position": [1, 0], "first": [0, "x"]}]
)
def test_a_checkpoint_of_another_kind_is_refused(found: object) -> None:
    with pytest.raises(FormatError):
        Checkpoint.from_json(found)


def test_what_killed_jobs_left_is_removed(tmp_path: Path) -> None:
    for number in (3, 4):
        open_path(tmp_path, number).touch()
        log_path(tmp_path, number).touch()
    others = tmp_path / "shard-00000003.cws", tmp_path / ".shard-00000003.cws.mine"
    for other in others:
        other.touch()
    remove_unfinished(tmp_path, keep=4)
    assert set(tmp_path.iterdir()) == {open_path(tmp_path, 4), log_path(tmp_path, 4), *others}
    remove_unfinished(tmp_path, keep=None)
    assert set(tmp_path.iterdir()) == set(others)


def test_a_log_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="how far the job is could not be written"):
        Log(log_path(tmp_path / "nowhere", 0))
