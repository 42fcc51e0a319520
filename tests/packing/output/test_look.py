"""Codecs are chosen on inputs from all over the source: the same for every worker, part and resumed run."""

import os
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cordwood as cw
from cordwood.errors import PackError
from cordwood.packing import PackProgress
from cordwood.packing.workers import engine
from cordwood.store.writing import first_samples
from tests.packing.support.forkedworkers import fork_in
from tests.packing.support.memory import folder_in_memory
from tests.packing.support.numbers import Numbers, pack
from tests.store.support.photos import files_of

COUNT = 400
FIRST = 64
LOG = ".first-samples.log"
Sample = dict[str, Any]


@pytest.fixture
def folder() -> Iterator[Path]:
    with folder_in_memory() as made:
        yield made


@pytest.fixture(autouse=True)
def few_samples_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_samples, "MAX_FIRST_SAMPLES", FIRST)


def sorted_by_class(sample: Sample) -> Any:
    """Empty at first, then full; some inputs fail, some are dropped, some are two; with random numbers."""
    number = sample["number"]
    if number % 41 == 40:
        raise ValueError(f"input {number} is odd")
    full = torch.randint(0, 50, (200,), dtype=torch.int32) if number > 150 else torch.zeros(200, dtype=torch.int32)
    made = {"values": full + number, "number": number, "drawn": random.random() + np.random.random()}
    return [made] * (2 if number % 7 == 0 else number % 13 != 5)


def of_batch(batch: Sample) -> Any:
    made = [each for number in batch["number"].tolist() for each in sorted_by_class({"number": number})]
    return made or None


FORMS: dict[str, Sample] = {
    "single": {"transform": sorted_by_class},
    "batched": {"transform": of_batch, "batched": True, "batch_size": 6},
}
OPTIONS: Sample = {"on_error": "skip", "shard_bytes": 20_000}
pytestmark = pytest.mark.filterwarnings(r"ignore:\d+ of \d+ inputs failed")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("workers", [1, 3])
def test_workers_change_nothing(folder: Path, form: str, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fork_in(monkeypatch)
    pack(Numbers(COUNT), folder / "alone", **FORMS[form], **OPTIONS)
    pack(Numbers(COUNT), folder / "with", **FORMS[form], **OPTIONS, workers=workers)
    assert files_of(folder / "with") == files_of(folder / "alone")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("workers", "points"),
    [
        (0, [("inputs", 30), ("look", 1), ("look", 2), ("look", 2), ("inputs", 100), ("inputs", 300)]),
        (0, [("look", 4), ("inputs", 90)]),
        (2, [("inputs", 30), ("look", 1), ("look", 1), ("inputs", 200)]),
        (2, [("look", 1), ("inputs", 399)]),
    ],
)
def test_killed_at_any_point(
    folder: Path, form: str, workers: int, points: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, by the system: while the first inputs are done, while it looks, and in what follows."""
    fork_in(monkeypatch)
    pack(Numbers(COUNT), folder / "whole", **FORMS[form], **OPTIONS)
    monkeypatch.setattr(engine, "CHECKPOINT_SECONDS", 0)
    monkeypatch.setattr(engine, "_CHECKPOINT_SHARE", 0)
    for point in points:
        child = os.fork()
        if not child:
            seen: list[PackProgress] = []
            try:
                die = partial(die_at, point, seen)
                pack(Numbers(COUNT), folder / "s", **FORMS[form], **OPTIONS, workers=workers, progress=die)
            finally:
                os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        assert (folder / "s" / LOG).exists() or point[0] == "inputs"
    pack(Numbers(COUNT), folder / "s", **FORMS[form], **OPTIONS, workers=workers)
    assert files_of(folder / "s") == files_of(folder / "whole")


def die_at(point: tuple[str, int], seen: list[PackProgress], state: PackProgress) -> None:
    """End the process after so many reports of the look, or when so many inputs are packed."""
    seen += [state] * (state.looking_at is not None)
    what, number = point
    if (len(seen) if what == "look" else state.inputs) >= number:
        os._exit(9)


@pytest.mark.parametrize("form", FORMS)
def test_parts_have_the_plans_of_the_whole(folder: Path, form: str) -> None:
    pack(Numbers(COUNT), folder / "whole", **FORMS[form], **OPTIONS)
    paths = [folder / f"part{number}" for number in (1, 2, 3)]
    for number, path in enumerate(paths, 1):
        pack(Numbers(COUNT), path, part=(number, 3), **FORMS[form], **OPTIONS)
        for name in ("store.json", *(f"plans/{one.name}" for one in (folder / "whole" / "plans").iterdir())):
            assert (path / name).read_bytes() == (folder / "whole" / name).read_bytes()
    cw.merge(paths, folder / "all")
    found, expected = cw.open(folder / "all"), cw.open(folder / "whole")
    assert len(found) == len(expected)
    assert all(torch.equal(one["values"], other["values"]) for one, other in zip(found, expected, strict=True))


class Counting:
    """A transform; `calls` are the numbers that it was called with, `added` what it adds to samples of some numbers."""

    def __init__(self, added: dict[int, Sample] | None = None) -> None:
        self.calls: list[int] = []
        self._added = added or {}

    def __reduce__(self) -> Any:
        return Counting, (self._added,)

    def __call__(self, sample: Sample) -> Sample:
        self.calls.append(sample["number"])
        return {"x": torch.zeros(3), **sample, **self._added.get(sample["number"], {})}


def looked_at(count: int, folder: Path, **options: Any) -> list[int]:
    """The inputs that are transformed before it is their turn."""
    made = Counting()
    pack(Numbers(count), folder, made, **options)
    looked = made.calls[FIRST : len(made.calls) - (count - FIRST)]
    assert made.calls == [*range(FIRST), *looked, *range(FIRST, count)]
    return looked


def test_few_inputs_are_looked_at_and_from_everywhere(folder: Path) -> None:
    looked = looked_at(1000, folder / "s")
    assert FIRST // 2 < len(looked) <= FIRST  # with those among the first ones they are enough
    assert max(b - a for a, b in zip(sorted(looked), [*sorted(looked)[1:], 1000], strict=True)) <= 2 * 32
    assert looked_at(FIRST, folder / "all") == []
    assert len(looked_at(20_000, folder / "long")) <= FIRST  # however long a source is


def test_what_is_not_indexed_is_not_looked_at(folder: Path) -> None:
    def samples() -> Iterator[Sample]:
        yield from ({"number": number} for number in range(COUNT))

    made = Counting()
    pack(samples, folder / "s", made)
    assert made.calls == list(range(COUNT))


def test_progress_tells_of_the_look(folder: Path) -> None:
    states: list[Any] = []
    pack(Numbers(1000), folder / "s", progress=states.append)
    found = {state.looking_at for state in states if state.looking_at is not None}
    assert len(found) == 1
    inputs, of_inputs = found.pop()
    assert (FIRST // 2 < inputs <= 96, of_inputs) == (True, 1000)
    assert states[-1].looking_at is None


def test_a_field_that_only_the_look_sees_is_known(folder: Path) -> None:
    (looked, *_) = looked_at(COUNT, folder / "s")
    made = Counting({looked: {"note": torch.ones(2)}, looked + 1: {"note": None}})
    pack(Numbers(COUNT), folder / "t", made)
    found = cw.open(folder / "t")
    assert torch.equal(found[looked]["note"], torch.ones(2))
    assert found[looked + 1]["note"] is None
    assert "note" not in found[0]


@pytest.mark.parametrize("odd", [{"x": 3}, {"x": torch.zeros(3, dtype=torch.int8)}, {"x": None}, {"x": object()}])
def test_what_does_not_fit_the_first_samples_fails_though_it_was_looked_at(folder: Path, odd: Sample) -> None:
    (looked, *_) = looked_at(COUNT, folder / "s")
    with pytest.raises(PackError, match=f"input {looked} failed"):
        pack(Numbers(COUNT), folder / "t", Counting({looked: odd}))


def test_samples_of_many_bytes_are_looked_at_up_to_their_bound(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_samples, "MAX_FIRST_BYTES", 20 * 1000)
    made = Counting()

    def large(sample: Sample) -> Sample:
        return {**made(sample), "x": torch.zeros(250)}

    pack(Numbers(COUNT), folder / "s", large)
    looked = made.calls[20 : len(made.calls) - (COUNT - 20)]
    assert 15 < len(looked) <= 20
    assert sorted(number // 100 for number in looked)[:: len(looked) - 1] == [0, 3]


def test_little_of_a_small_source_is_transformed_twice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its samples are large: the first ones are a fifth of it, and as many more would be enough."""
    monkeypatch.setattr(first_samples, "MAX_FIRST_BYTES", 12 * 1000)
    made = Counting()

    def large(sample: Sample) -> Sample:
        return {**made(sample), "x": torch.zeros(250)}

    pack(Numbers(60), folder / "s", large)
    assert len(made.calls) == 60 + 8
