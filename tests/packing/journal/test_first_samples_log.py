"""A job that is stopped while its first samples are looked at: they are not made again, and its bytes are the same."""

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cordwood as cw
from cordwood.packing.journal.first_samples_log import FirstSamplesLog, WaitingInput
from cordwood.packing.journal.inputs import FAILED, InputEntry, is_name
from cordwood.packing.journal.shard_log import Log, records
from cordwood.sources import Input, Source
from cordwood.store.writing import first_samples
from tests.packing.support.copies import Copies
from tests.packing.support.memory import folder_in_memory
from tests.packing.support.numbers import Numbers, pack
from tests.sources import photos
from tests.store.support.photos import files_of
from tests.store.support.samples import assert_same_sample, values

LOG = ".first-samples.log"
COUNT = 60
Sample = dict[str, Any]


@pytest.fixture
def folder() -> Iterator[Path]:
    with folder_in_memory() as made:
        yield made


# ---- the log ---------------------------------------------------------------------------------------------------------

SIZES = st.none() | st.integers(0, 1 << 60)
NAMES = st.none() | st.text(min_size=1).filter(is_name)
ENTRIES = st.builds(
    lambda name, size, stamp, samples: InputEntry(name, size, None if name is None else stamp, samples),
    NAMES,
    SIZES,
    SIZES,
    st.integers(FAILED, 5),
)
PARTS = st.lists(st.tuples(values(), st.integers(0, 1 << 60)), max_size=4).flatmap(
    lambda samples: st.tuples(
        st.integers(0, 1 << 60),
        st.lists(st.builds(WaitingInput, st.integers(0, 1 << 60), ENTRIES), max_size=4),
        st.just([sample for sample, _ in samples]),
        st.lists(st.text(max_size=3), max_size=2),
        st.just([unit for _, unit in samples]),
        st.none() | st.integers(0, 1 << 60),
    )
)


@given(st.lists(PARTS, max_size=3), st.integers(0, 3))
@settings(max_examples=60)
def test_what_is_added_comes_back_to_another_process(parts: list[Any], before: int) -> None:
    """Some of it is added by one process, the rest by the next one."""
    with folder_in_memory() as made:
        for done, some in ((0, parts[:before]), (len(parts[:before]), parts[before:])):
            log = FirstSamplesLog(made)
            assert len(list(log.read())) == done
            for part in some:
                log.append(*part)
            log.close()
        found = list(FirstSamplesLog(made).read())
        assert len(found) == len(parts)
        for part, (next_input, waiting, samples, classes, units, looked) in zip(found, parts, strict=True):
            assert (part.next_input, part.waiting, part.classes) == (next_input, waiting, classes)
            assert (part.units, part.looked) == (units, looked)
            assert len(part.samples) == len(samples)
            for one, other in zip(samples, part.samples, strict=True):
                assert_same_sample(one, other)
        log = FirstSamplesLog(made)
        log.remove()
        log.remove()
        assert list(made.iterdir()) == []
        assert list(FirstSamplesLog(made).read()) == []


def written(folder: Path) -> Path:
    """A log of three parts."""
    log = FirstSamplesLog(folder)
    for number in range(3):
        waiting = [WaitingInput(number, InputEntry("a", 1, 2, 1))]
        log.append(number + 1, waiting, [{"x": torch.arange(number)}], ["label"], [number])
    log.close()
    return folder / LOG


def test_a_part_that_was_cut_short_and_all_behind_it_are_passed_over(folder: Path) -> None:
    path = written(folder)
    data = path.read_bytes()
    ends = [record.end for record in records(path)]
    assert len(ends) == 3
    for end in range(len(data) + 1):
        assert _parts_in(path, data[:end]) == sum(last <= end for last in ends)


def test_a_part_that_was_damaged_and_all_behind_it_are_passed_over(folder: Path) -> None:
    path = written(folder)
    data = path.read_bytes()
    ends = [record.end for record in records(path)]
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        assert _parts_in(path, bytes(changed)) == sum(end <= place for end in ends)


def _parts_in(path: Path, data: bytes) -> int:
    path.write_bytes(data)
    return len(list(FirstSamplesLog(path.parent).read()))


GOOD: dict[str, Any] = {"next": 4, "numbers": [3], "sizes": [1], "classes": [], "units": [], "looked": None}
LINE = b'["b", 1, 2, 1]\n'


@pytest.mark.parametrize(
    ("members", "lines", "samples"),
    [
        ([], LINE, b""),
        ({**GOOD, "next": None}, LINE, b""),
        ({**GOOD, "next": float("inf")}, LINE, b""),
        ({name: GOOD[name] for name in GOOD if name != "next"}, LINE, b""),
        ({**GOOD, "sizes": []}, LINE, b""),
        ({**GOOD, "sizes": ["x"]}, LINE, b""),
        ({**GOOD, "numbers": [3, 4]}, LINE, b""),
        ({**GOOD, "numbers": ["x"]}, LINE, b""),
        ({**GOOD, "classes": 7}, LINE, b""),
        ({**GOOD, "units": [3]}, LINE, b""),
        ({**GOOD, "units": None}, LINE, b""),
        ({**GOOD, "looked": "x"}, LINE, b""),
        (GOOD, b"", b""),
        (GOOD, b"nonsense\n", b""),
        (GOOD, b'["../b", 1, 2, 1]\n', b""),
        (GOOD, LINE, b"short"),
        (GOOD, LINE, struct.pack("<Q", 1 << 60)),
        (GOOD, LINE, struct.pack("<Q", 1) + b"\xff"),
    ],
)
def test_a_part_that_cannot_be_understood_is_passed_over(
    folder: Path, members: Any, lines: bytes, samples: bytes
) -> None:
    """Though its checksum is right."""
    path = written(folder)
    good = path.stat().st_size
    log = Log(path, good)
    log.add(members, lines, samples)
    log.close()
    first = FirstSamplesLog(folder)
    assert [part.next_input for part in first.read()] == [1, 2, 3]
    # What is added now stands in its place.
    first.append(9, [], [], [], [])
    first.close()
    assert [part.next_input for part in FirstSamplesLog(folder).read()] == [1, 2, 3, 9]


def test_what_json_cannot_hold_is_passed_over(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(folder)
    log = Log(path, path.stat().st_size)
    for text in ("[" * 100_000, "no JSON"):
        monkeypatch.setattr(json, "dumps", lambda *_, text=text, **__: text)
        log.add({}, b"", b"")
    log.close()
    assert [part.next_input for part in FirstSamplesLog(folder).read()] == [1, 2, 3]


# ---- a store ---------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.sampled_from([1, 1, 1, 0, FAILED, 2, 5]), max_size=40),
    st.integers(1, 5),
    st.booleans(),
    st.lists(st.integers(1, 6), max_size=6),
    st.integers(),
)
@settings(max_examples=50)
def test_nothing_is_done_twice_and_the_bytes_are_the_same(
    counts: list[int], batch: int, names: bool, stops: list[int], seed: int
) -> None:
    job = Copies(counts, batch, names=names, checkpoints=1)
    with folder_in_memory() as made:
        assert job.run(made / "whole")
        expected, failed, totals = files_of(made / "whole"), job.failed, job.totals
        job.failed, job.done = [], []
        for number, tasks in enumerate(stops):
            assert not job.run(made / "s", tasks, seed + number)
            assert not list((made / "s").glob("*.cws"))
        assert job.run(made / "s", seed=seed)
        assert files_of(made / "s") == expected
    assert LOG not in expected
    assert job.done == list(range(len(counts)))
    assert (job.failed, job.totals) == (failed, totals)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("damage", ["cut", "flipped", "rubbish", "empty"])
def test_a_damaged_log_costs_time_and_nothing_else(folder: Path, batch: int, damage: str) -> None:
    job = Copies([1, 2, 0, FAILED, 1] * 6, batch, checkpoints=1)
    assert job.run(folder / "whole")
    expected = files_of(folder / "whole")
    job.failed, job.done = [], []
    assert not job.run(folder / "s", 4)
    path = folder / "s" / LOG
    data = path.read_bytes()
    place = 2 * len(data) // 3
    bad = {
        "cut": data[:place],
        "flipped": data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :],
        "rubbish": b"rubbish" * 100,
        "empty": b"",
    }
    path.write_bytes(bad[damage])
    before = len(job.done)
    assert job.run(folder / "s")
    assert files_of(folder / "s") == expected
    again = before + len(job.counts) - len(job.done)  # inputs that were not done again
    assert (0 < again < before) if damage in ("cut", "flipped") else again == 0
    assert job.failed == [number for number, count in enumerate(job.counts) if count == FAILED]


def test_samples_that_are_enough_are_begun_with(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process died when it had looked at the last one, and before a shard held any of them."""
    job = Copies([1] * 12, checkpoints=1)
    monkeypatch.setattr(first_samples, "MAX_FIRST_SAMPLES", 8)
    assert job.run(folder / "whole")
    expected, job.done = files_of(folder / "whole"), []
    monkeypatch.setattr(first_samples, "MAX_FIRST_SAMPLES", 256)
    while len(job.done) < 8:
        assert not job.run(folder / "s", 1)
    monkeypatch.setattr(first_samples, "MAX_FIRST_SAMPLES", 8)
    assert job.run(folder / "s")
    assert job.done == list(range(12))
    assert files_of(folder / "s") == expected


# ---- whole jobs ------------------------------------------------------------------------------------------------------


class Stop(Exception):  # noqa: N818 - no error
    """Stops a job from its progress."""


def stop_at(inputs: int) -> Callable[[Any], None]:
    def stop(state: Any) -> None:
        if state.inputs >= inputs:
            raise Stop

    return stop


class Counting:
    """A transform that drops, multiplies and fails; `calls` are the numbers that it was called with."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def __reduce__(self) -> Any:
        return Counting, ()  # what it has counted is no part of what it is

    def __call__(self, sample: Sample) -> Any:
        number = int(sample["number"])
        self.calls.append(number)
        if number % 11 == 7:
            raise ValueError(f"{number} fails")
        if number % 5 == 4:
            return None
        made = {**sample, "noise": torch.rand(3), "name": f"n{number}", "none": None if number % 2 else (1, "x")}
        return [made, made] if number % 3 == 0 else made


class CountingBatches(Counting):
    """The same for batches."""

    def __reduce__(self) -> Any:
        return CountingBatches, ()

    def __call__(self, batch: Sample) -> Any:
        self.calls += batch["number"].tolist()
        first = self.calls[-1] // 7
        if first == 2:
            raise ValueError("the third batch fails")
        return None if first == 4 else {**batch, "noise": torch.rand(len(batch["number"]), 3)}


def source_of(kind: str, folder: Path) -> Any:
    if kind == "unnamed":
        return Numbers(COUNT)
    if not folder.exists():
        folder.mkdir()
        for number in range(COUNT):
            torch.save({"number": torch.tensor(number)}, folder / f"{number:03d}.pt")
    return folder


@pytest.mark.parametrize("kind", ["named", "unnamed"])
@pytest.mark.parametrize(
    ("transform", "options"), [(Counting, {}), (CountingBatches, {"batched": True, "batch_size": 7})]
)
def test_a_job_goes_on_behind_them(folder: Path, kind: str, transform: type[Counting], options: dict[str, Any]) -> None:
    options = {**options, "on_error": "skip", "seed": 3}
    whole = pack(source_of(kind, folder / "in"), folder / "whole", transform(), **options)
    calls: list[int] = []
    for stop in (10, 25, 26, 50):
        made = transform()
        with pytest.raises(Stop):
            pack(source_of(kind, folder / "in"), folder / "s", made, **options, progress=stop_at(stop))
        assert (folder / "s" / LOG).exists()
        assert not list((folder / "s").glob("shard-*.cws"))
        calls += made.calls
    done = len(calls)
    assert calls == list(range(done))
    made = transform()
    packed = pack(source_of(kind, folder / "in"), folder / "s", made, **options)
    assert calls + made.calls == list(range(COUNT))
    assert packed.resumed_inputs == done >= 50
    assert (packed.samples, packed.inputs, packed.dropped, packed.failed, packed.bytes_in, packed.raw_bytes) == (
        whole.samples,
        whole.inputs,
        whole.dropped,
        whole.failed,
        whole.bytes_in,
        whole.raw_bytes,
    )
    assert packed.failed > 0
    assert packed.resumed_samples <= packed.samples
    assert files_of(folder / "s") == files_of(folder / "whole")
    assert (folder / "s.errors.jsonl").read_bytes() == (folder / "whole.errors.jsonl").read_bytes()


def test_a_failure_among_them_ends_the_job_where_it_is(folder: Path) -> None:
    """What the message promises is so: what comes before it is packed."""
    made = Counting()
    with pytest.raises(cw.PackError, match=r"input 7 failed: .*what comes before it is packed"):
        pack(Numbers(COUNT), folder / "s", made)
    assert made.calls == list(range(8))
    made = Counting()
    packed = pack(Numbers(COUNT), folder / "s", made, on_error="skip")
    assert made.calls == list(range(7, COUNT))
    assert packed.resumed_inputs == 7


class Sized(Source):
    """Inputs that have a size and no name."""

    kind = "sized"

    def inputs(self, start: int = 0) -> Iterator[Input]:
        return (Input(number, size=100 + number) for number in range(start, COUNT))

    def reader(self) -> Callable[[Any], Any]:
        return lambda number: {"number": number}


def test_the_bytes_of_inputs_without_a_name_are_counted(folder: Path) -> None:
    with pytest.raises(Stop):
        pack(Sized(), folder / "s", progress=stop_at(25))
    assert pack(Sized(), folder / "s").bytes_in == sum(range(100, 100 + COUNT))


@pytest.mark.parametrize("kept", [True, False])
def test_classes_that_were_dropped_stay_dropped(folder: Path, kept: bool) -> None:
    """A label that is not the source's, among the samples before the stop, takes the names from all of them."""
    photos.write(folder / "in", *(f"{'cat' if number < 10 else 'dog'}/{number}.png" for number in range(20)))

    def labelled(sample: Sample) -> Sample:
        other = sample["path"] == "cat/3.png" and not kept
        return {"label": 1 if other else sample["label"]}

    pack(folder / "in", folder / "whole", labelled)
    with pytest.raises(Stop):
        pack(folder / "in", folder / "s", labelled, progress=stop_at(15))
    pack(folder / "in", folder / "s", labelled)
    assert files_of(folder / "s") == files_of(folder / "whole")
    (field,) = cw.open(folder / "s").reader.shards.manifests[0].fields
    assert field.classes == (("cat", "dog") if kept else None)


def test_a_job_without_any_sample_does_nothing_twice_either(folder: Path) -> None:
    calls: list[int] = []

    def drop(sample: Sample) -> None:
        calls.append(sample["number"])

    with pytest.raises(Stop):
        pack(Numbers(20), folder / "s", drop, progress=stop_at(12), accept_changed_transform=True)
    packed = pack(Numbers(20), folder / "s", drop, accept_changed_transform=True)
    assert calls == list(range(20))
    assert (packed.inputs, packed.dropped, packed.resumed_inputs) == (20, 20, 12)
    assert [path.name for path in (folder / "s").glob(".*")] == [".lock"]
