"""Parts of a job look at the same samples of the whole: they have one schema and the same plans, and can be merged."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from cordwood.packing.workers import engine
from cordwood.store.writing import encode
from cordwood.store.writing import first_samples as look
from tests.packing.support.memory import folder_in_memory
from tests.packing.support.numbers import Numbers, pack
from tests.sources import photos
from tests.store.support.photos import files_of
from tests.store.support.samples import assert_same_sample

COUNT = 40
LOOKED_AT = 16
LOG = ".first-samples.log"
LOOKED = [32, 24, 36, 20, 28, 34, 18, 26]  # behind the first samples
Sample = dict[str, Any]


@pytest.fixture
def folder() -> Iterator[Path]:
    with folder_in_memory() as made:
        yield made


@pytest.fixture(autouse=True)
def few_samples_tell_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look, "MAX_FIRST_SAMPLES", LOOKED_AT)


def settled_files(store: Path) -> dict[str, bytes]:
    """What tells the schema, the classes and the plans."""
    files = files_of(store)
    return {name: files[name] for name in files if name == "store.json" or name.startswith("plans/")}


def sometimes(sample: Sample) -> Any:
    """Fields that are None, of another shape or not there in whole parts; some inputs are dropped, some are two."""
    number = sample["number"]
    made = {
        "number": number,
        "late": None if number < 12 else torch.full((number % 3,), number),
        "early": number if number < 5 else None,
        "noise": torch.rand(4),
    }
    if number < 8:
        made["first"] = {"text": f"{number}"}
    return [made] * (number % 3)


def sometimes_in_batches(batch: Sample) -> Any:
    return [made for number in batch["number"].tolist() for made in sometimes({"number": number})]


@pytest.mark.parametrize("parts", [2, 5, 8])
@pytest.mark.parametrize(
    ("transform", "options"), [(sometimes, {}), (sometimes_in_batches, {"batched": True, "batch_size": 3})]
)
def test_parts_are_as_if_one_run_had_packed_them(
    folder: Path, parts: int, transform: Any, options: dict[str, Any]
) -> None:
    options = {**options, "shard_bytes": 400}
    whole = pack(Numbers(COUNT), folder / "whole", transform, **options)
    paths = [folder / f"part{number}" for number in range(1, parts + 1)]
    for number, path in enumerate(paths, 1):
        pack(Numbers(COUNT), path, transform, part=(number, parts), **options)
        assert settled_files(path) == settled_files(folder / "whole")
        assert not (path / LOG).exists()
    cw.merge(paths, folder / "all")
    found, expected = cw.open(folder / "all"), cw.open(folder / "whole")
    assert len(found) == len(expected) == whole.samples
    assert found.schema == expected.schema
    for one, other in zip(found, expected, strict=True):
        assert_same_sample(other, one)


class Counting:
    """A transform; `calls` are the numbers that it was called with. `dies_at` is not a part of what it is."""

    def __init__(self, dies_at: int | None = None, *, hard: bool = False) -> None:
        self.calls: list[int] = []
        self._dies_at = dies_at
        self._hard = hard

    def __reduce__(self) -> Any:
        return Counting, ()

    def __call__(self, sample: Sample) -> Any:
        number = sample["number"]
        if number == self._dies_at:
            if self._hard:
                os._exit(9)
            raise Killed
        self.calls.append(number)
        return sometimes(sample)


class Killed(BaseException):
    """Ends a job from its transform: no failure of an input."""


def test_no_more_is_looked_at_than_one_run_would(folder: Path) -> None:
    """Inputs give none, one or two samples; those up to number 16 give 16 together; some of those behind follow."""
    made = Counting()
    pack(Numbers(COUNT), folder / "s", made, part="4/4")
    assert made.calls == [*range(17), *LOOKED, *range(30, 40)]


def test_a_part_that_is_stopped_while_it_looks_goes_on(folder: Path) -> None:
    pack(Numbers(COUNT), folder / "whole", Counting(), part="2/4")
    calls: list[int] = []
    for dies_at in (3, 9, 15, 24, 26):
        made = Counting(dies_at)
        with pytest.raises(Killed):
            pack(Numbers(COUNT), folder / "s", made, part="2/4")
        calls += made.calls
        assert (folder / "s" / LOG).exists()
    made = Counting()
    packed = pack(Numbers(COUNT), folder / "s", made, part="2/4")
    assert packed.resumed_inputs == 0  # it has packed none of them
    assert calls == [*range(17), *LOOKED[:7]]
    assert made.calls == [*LOOKED[7:], *range(10, 20)]
    assert files_of(folder / "s") == files_of(folder / "whole")


def test_a_part_that_is_killed_while_it_looks_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, by the system: what it had looked at is in its log."""
    pack(Numbers(COUNT), folder / "whole", Counting(), part="3/4")
    child = os.fork()
    if not child:
        monkeypatch.setattr(engine, "CHECKPOINT_SECONDS", 0)
        monkeypatch.setattr(engine, "_CHECKPOINT_SHARE", 0)
        try:
            pack(Numbers(COUNT), folder / "s", Counting(11, hard=True), part="3/4")
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    made = Counting()
    pack(Numbers(COUNT), folder / "s", made, part="3/4")
    assert made.calls == [*range(11, 17), *LOOKED, *range(20, 30)]
    assert files_of(folder / "s") == files_of(folder / "whole")


def failing(sample: Sample) -> Sample:
    if sample["number"] % 10 == 5:
        raise ValueError("it ends with 5")
    return sample


def test_inputs_of_other_parts_that_fail_are_their_business(folder: Path) -> None:
    assert pack(Numbers(COUNT), folder / "s", failing, part="17/40").samples == 1
    assert not (folder / "s.errors.jsonl").exists()
    with pytest.raises(cw.PackError, match="input 15 failed: ValueError"):
        pack(Numbers(COUNT), folder / "other", failing, part="16/40")


def test_failures_of_a_part_are_listed_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is killed when it knows the schema, has listed failures, and has not yet told how far it is."""

    def die(state: Any) -> None:
        if state.failed >= 3:
            os._exit(9)

    child = os.fork()
    if not child:
        monkeypatch.setattr(engine, "CHECKPOINT_SECONDS", 1e9)
        try:
            pack(Numbers(100), folder / "s", failing, part="1/2", on_error="skip", progress=die)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    errors = folder / "s.errors.jsonl"
    assert len(errors.read_text().splitlines()) >= 3
    packed = pack(Numbers(100), folder / "s", failing, part="1/2", on_error="skip")
    assert [json.loads(line)["input"] for line in errors.read_text().splitlines()] == [5, 15, 25, 35, 45]
    assert (packed.failed, packed.samples, packed.inputs) == (5, 45, 50)


def test_a_part_without_any_sample_counts_its_inputs_once(folder: Path) -> None:
    calls: list[int] = []

    def drop(sample: Sample) -> None:
        calls.append(sample["number"])
        if len(calls) == 30:
            raise Killed

    with pytest.raises(Killed):
        pack(Numbers(20), folder / "s", drop, part="2/2", accept_changed_transform=True)
    packed = pack(Numbers(20), folder / "s", drop, part="2/2", accept_changed_transform=True)
    assert (packed.inputs, packed.dropped, packed.resumed_inputs) == (10, 10, 9)
    assert calls == [*range(20), *range(10, 20), 19]


@pytest.mark.parametrize("kept", [True, False])
def test_whether_labels_are_the_sources_is_told_by_the_whole(folder: Path, kept: bool) -> None:
    photos.write(folder / "in", *(f"{'cat' if number < 5 else 'dog'}/{number}.png" for number in range(10)))

    def labelled(sample: Sample) -> Sample:
        return {"label": 7 if sample["path"] == "cat/3.png" and not kept else sample["label"]}

    for number in (1, 2):
        pack(folder / "in", folder / f"part{number}", labelled, part=(number, 2))
        (field,) = cw.open(folder / f"part{number}").reader.shards.manifests[0].fields
        assert field.classes == (("cat", "dog") if kept else None)
    cw.merge([folder / "part1", folder / "part2"], folder / "all")
    assert len(cw.open(folder / "all")) == 10


def batches_of_four(numbers: list[Sample]) -> list[Sample]:
    return numbers


def pack_batches(folder: Path) -> list[int]:
    samples = [{"x": torch.full((3,), float(number)), "number": number} for number in range(COUNT)]
    cw.pack(samples, folder / "s", transform=batches_of_four, batched=True, batch_size=4, workers=0, progress=False)
    return cw.open(folder / "s").column("number").tolist()


@pytest.mark.parametrize("taken", [*range(4, 9), LOOKED_AT - 1])
def test_an_interrupt_within_a_unit_costs_the_unit_only(
    taken: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = iter(range(taken))
    take = look.FirstSamples.take

    def interrupted(self: look.FirstSamples, sample: Any, nbytes: int) -> None:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        take(self, sample, nbytes)

    with monkeypatch.context() as once:
        once.setattr(look.FirstSamples, "take", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pack_batches(folder)
    assert (folder / "s" / LOG).exists()
    assert pack_batches(folder) == list(range(COUNT))


def test_an_error_while_the_first_samples_are_encoded_is_raised(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = iter([MemoryError()])
    working = encode.encode

    def fails_once(*arguments: Any) -> encode.Encoded:
        for error in errors:
            raise error
        return working(*arguments)

    monkeypatch.setattr(encode, "CHUNK_SAMPLES", LOOKED_AT // 2)  # a chunk is full before all of them are in it
    monkeypatch.setattr(encode, "encode", fails_once)
    with pytest.raises(MemoryError):
        pack_batches(folder)
    assert pack_batches(folder) == list(range(COUNT))
