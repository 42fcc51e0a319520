"""Results in, a store out: what is told of inputs, positions and totals, wherever shards end and jobs are stopped."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cordwood as cw
from cordwood.errors import FormatError, PackError
from cordwood.packing.journal import inputs, shard_log
from cordwood.packing.journal.inputs import FAILED, Position
from cordwood.store.writing import first_samples
from tests.packing.support.copies import Copies, told_inputs
from tests.packing.support.memory import folder_in_memory
from tests.store.support.photos import files_of

COUNTS = st.lists(st.sampled_from([1, 1, 1, 0, FAILED, 2, 5]), max_size=40)


@pytest.fixture(autouse=True)
def few_samples_tell_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_samples, "MAX_FIRST_SAMPLES", 4)


@pytest.fixture
def folder() -> Iterator[Path]:
    with folder_in_memory() as made:
        yield made


def whole(job: Copies, path: Path) -> dict[str, bytes]:
    assert job.run(path)
    return files_of(path)


@given(COUNTS, st.integers(1, 5), st.integers(50, 600))
@settings(max_examples=40)
def test_every_input_is_told_once_with_all_of_its_samples(counts: list[int], batch: int, shard_bytes: int) -> None:
    job = Copies(counts, batch, shard_bytes)
    with folder_in_memory() as made:
        path = made / "s"
        assert job.run(path)
        samples = [(one["number"], one["copy"]) for one in cw.open(path)]
        entries = told_inputs(path)
        shards = len(list(path.glob("shard-*.cws")))
        after = inputs.read_header(path, shards - 1).after if shards else None
        log = sorted(file.name for file in path.glob(".*"))
    assert samples == [(number, copy) for number, count in enumerate(counts) for copy in range(count)]
    assert job.failed == [number for number, count in enumerate(counts) if count == FAILED]
    totals = job.totals
    assert (totals.inputs, totals.samples, totals.failed) == (len(counts), len(samples), counts.count(FAILED))
    assert (totals.dropped, totals.bytes_in) == (counts.count(0), sum(number % 10 for number in range(len(counts))))
    assert log == [".lock"]
    if not shards:
        return
    assert after == Position(len(counts))
    found: dict[str, list[int]] = {}
    for entry in entries:
        assert entry.name is not None
        found.setdefault(entry.name, []).append(entry.samples)
    assert list(found) == [f"in/{number}" for number in range(len(counts))]
    for number, pieces in enumerate(found.values()):
        assert sum(pieces) == counts[number]
        assert len(pieces) == 1 or min(pieces) > 0


@given(
    COUNTS,
    st.integers(1, 5),
    st.integers(50, 600),
    st.booleans(),
    st.lists(st.integers(1, 6), max_size=6),
    st.integers(),
)
@settings(max_examples=50)
def test_a_job_that_is_stopped_ends_with_the_same_bytes(
    counts: list[int], batch: int, shard_bytes: int, names: bool, stops: list[int], seed: int
) -> None:
    job = Copies(counts, batch, shard_bytes, names)
    with folder_in_memory() as made:
        expected = whole(job, made / "whole")
        failed, totals = job.failed, job.totals
        path = made / "s"
        job.failed = []
        for number, tasks in enumerate(stops):
            assert not job.run(path, tasks, seed + number)
        assert job.run(path, seed=seed)
        found = files_of(path)
    assert found == expected
    assert (job.failed, job.totals) == (failed, totals)


@pytest.mark.parametrize("unit", [[0, 0, 1], [FAILED, 1, 0], [0, FAILED, 0]])
@pytest.mark.parametrize("tasks", [1, 2, 3, 4, 5])
def test_inputs_without_samples_at_the_beginning_of_a_batch_are_told_once(
    unit: list[int], tasks: int, folder: Path
) -> None:
    """A shard ends right before them, and the job with it."""
    job = Copies([1, 1, 1, 1, 1, 1, *unit, *unit, 1, 1, 1], batch=3, shard_bytes=50, checkpoints=0)
    expected = whole(job, folder / "whole")
    assert not job.run(folder / "s", tasks)
    assert job.run(folder / "s")
    assert files_of(folder / "s") == expected


def stopped(path: Path, tasks: int = 12) -> Copies:
    """A job with some shards, and one that is not finished."""
    job = Copies([1, 2, 0, 1] * 20, shard_bytes=700)
    assert not job.run(path, tasks, seed=3)
    assert shard_log.read(path, len(list(path.glob("shard-*.cws")))) is not None
    return job


def test_an_unfinished_shard_that_the_disk_has_lost_is_packed_again(folder: Path) -> None:
    for number, size in enumerate((0, 40, 300)):
        path = folder / str(number)
        job = stopped(path)
        (left,) = path.glob(".shard-*.open")
        left.write_bytes(left.read_bytes()[:size])
        assert job.run(path)
        assert files_of(path) == whole(job, folder / f"whole{number}")


def test_an_unfinished_shard_of_another_store_is_packed_again(folder: Path) -> None:
    job = stopped(folder / "s")
    (left,) = (folder / "s").glob(".shard-*.open")
    data = bytearray(left.read_bytes())
    data[10] ^= 1  # in the hash of its schema
    left.write_bytes(data)
    assert job.run(folder / "s")
    assert files_of(folder / "s") == whole(job, folder / "whole")


def test_a_log_without_its_shard_counts_for_nothing(folder: Path) -> None:
    job = stopped(folder / "s")
    (left,) = (folder / "s").glob(".shard-*.open")
    left.unlink()
    assert job.run(folder / "s")
    assert files_of(folder / "s") == whole(job, folder / "whole")


def test_a_store_that_somebody_appended_to_is_refused(folder: Path) -> None:
    job = stopped(folder / "s")
    with cw.Writer(folder / "s", mode="append") as writer:
        writer.append(cw.open(folder / "s")[0])
    with pytest.raises(FormatError, match="somebody else"):
        job.run(folder / "s")


def test_an_input_that_gives_fewer_samples_than_are_packed_is_refused(folder: Path) -> None:
    """The first shards hold some samples of a large input; then it has fewer."""
    job = Copies([1, 1, 1, 1, 1, 1, 9], shard_bytes=150, checkpoints=0)
    assert not job.run(folder / "s", 7)
    place = inputs.read_header(folder / "s", len(list((folder / "s").glob("shard-*.cws"))) - 1).after
    assert place.input == 6
    assert place.samples > 2
    with pytest.raises(PackError, match=r"input 6 \(in/6\) gave 2 samples, but \d of them were packed before"):
        Copies([1, 1, 1, 1, 1, 1, 2], shard_bytes=150).run(folder / "s")
    assert job.run(folder / "s")
    assert files_of(folder / "s") == whole(job, folder / "whole")
