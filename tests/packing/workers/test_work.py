"""What a process does with inputs: the same for each of them, whoever does it, and in whatever company."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from cordwood.codecs import plan
from cordwood.packing.journal.failure import Failure
from cordwood.packing.journal.inputs import FAILED
from cordwood.packing.transform.transform import prepare_transform
from cordwood.packing.workers.work import EncodedResult, Job, RawResult, Result, Work, same, seed_of
from cordwood.store.format.manifest import FieldEntry, Manifest
from cordwood.store.writing.first_samples import FixedSchema
from cordwood.store.writing.infer import infer


def read(number: int) -> dict[str, Any]:
    if number % 10 == 9:
        raise OSError(f"no {number}")
    return {"number": number, "drawn": torch.rand(5), "label": number % 3}


def several(sample: dict[str, Any]) -> Any:
    return [{**sample, "more": np.random.random()} for _ in range(sample["number"] % 3)]


def work(transform: Any = several, batch: int = 1, labels: Sequence[str] = ()) -> Work:
    return Work(Job(read, prepare_transform(transform, batched=batch > 1), 4, batch, labels=labels))


def fixed() -> FixedSchema:
    schema = infer([{**read(0), "more": 0.5}])
    entries = tuple(FieldEntry(leaf.name, "raw") for leaf in schema.leaves)
    return FixedSchema(Manifest(schema, entries), [plan([np.zeros(1, leaf.stored)], "raw") for leaf in schema.frames])


def frames_of(results: list[Result]) -> list[bytes]:
    parts = [part for result in results if isinstance(result, EncodedResult) for part in result.parts]
    return [frame for part in parts for frame in part.frames]


def test_raw_samples_come_until_the_schema_is_known() -> None:
    doing = work()
    result = doing.do(7, [7, 8, 9, 10])
    assert result.counts == [1, 2, FAILED, 1]
    assert isinstance(result, RawResult)
    assert [len(samples) for samples in result.samples] == [1, 2, 0, 1]
    assert result.failures[2].error == "OSError: no 9"
    doing.fix_schema(fixed())
    result = doing.do(7, [7, 8, 9, 10])
    assert isinstance(result, EncodedResult)
    assert result.counts == [1, 2, FAILED, 1]
    assert sum(len(part) for part in result.parts) == len(result.raw_sizes) == 4


def test_the_company_of_an_input_does_not_matter() -> None:
    numbers = list(range(40))
    found = []
    for cuts in ([40], [1] * 40, [13, 20, 7]):
        doing = work()
        doing.fix_schema(fixed())
        place, results = 0, []
        for size in cuts:
            results.append(doing.do(place, numbers[place : place + size]))
            place += size
        found.append((frames_of(results), [count for result in results for count in result.counts]))
    assert found[0] == found[1] == found[2]


def test_seeds_are_spread_and_fit_every_generator() -> None:
    seeds = {seed_of(seed, first) for seed in (-(1 << 63), 0, 1, (1 << 63) - 1) for first in range(500)}
    assert len(seeds) == 2000
    assert 0 <= min(seeds) <= max(seeds) < 1 << 63
    assert max(seeds) > 1 << 62


def test_an_input_that_cannot_be_read_is_left_out_of_its_batch() -> None:
    sizes = []

    def batched(batch: dict[str, Any]) -> dict[str, Any]:
        sizes.append(len(batch["number"]))
        return batch

    result = work(batched, batch=4).do(8, [8, 9, 10, 11, 12])
    assert result.counts == [1, FAILED, 1, 1, 1]
    assert sizes == [3, 1]


def test_a_batch_that_fails_fails_for_all_that_are_in_it() -> None:
    def batched(batch: dict[str, Any]) -> dict[str, Any]:
        if 10 in batch["number"]:
            raise ValueError("no ten")
        return batch

    result = work(batched, batch=4).do(8, [8, 9, 10, 11, 12])
    assert result.counts == [FAILED] * 4 + [1]
    assert [result.failures[place].error for place in range(4)] == [
        "ValueError: no ten",
        "OSError: no 9",
        "ValueError: no ten",
        "ValueError: no ten",
    ]


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("of", ["reader", "transform"])
def test_a_program_that_wants_to_end_is_a_failure_of_its_input(batch: int, of: str) -> None:
    """`sys.exit` in somebody's code does not end the job without a word."""

    def reader(number: int) -> int:
        return sys.exit(f"at {number}") if number == 2 and of == "reader" else number

    def transform(given: Any) -> Any:
        return sys.exit("at 2") if 2 in torch.as_tensor(given).reshape(-1) and of == "transform" else given

    doing = Work(Job(reader, prepare_transform(transform, batched=batch > 1), 0, batch))
    result = doing.do(0, [0, 1, 2, 3, 4, 5])
    failed = [2, 3] if (batch, of) == (2, "transform") else [2]
    assert [place for place, count in enumerate(result.counts) if count == FAILED] == failed
    assert {failure.error for failure in result.failures.values()} == {"SystemExit: at 2"}
    assert "sys.exit" in result.failures[2].traceback


def test_ctrl_c_is_no_failure_of_an_input() -> None:
    def interrupted(sample: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work(interrupted).do(0, [0])


def test_it_tells_where_it_is() -> None:
    """Which input is read, which batch is transformed; and that no code of others runs while samples are encoded."""
    places: list[tuple[int, int]] = []
    transform = prepare_transform(lambda batch: batch, batched=True)
    watch = lambda first, inputs: places.append((first, inputs))  # noqa: E731 - what is watched
    Work(Job(read, transform, 0, 3), watch=watch).do(6, [6, 7, 8, 10, 11])
    assert places == [(6, 1), (7, 1), (8, 1), (6, 3), (6, 0), (9, 1), (10, 1), (9, 2), (9, 0)]
    places.clear()
    Work(Job(read, prepare_transform(None)), watch=watch).do(6, [6, 7])
    assert places == [(6, 1), (6, 0), (7, 1), (7, 0)]


def test_what_failed_before_is_neither_read_nor_tried_again() -> None:
    read_numbers: list[int] = []

    def reader(number: int) -> dict[str, Any]:
        read_numbers.append(number)
        return {"number": number}

    job = Job(reader, prepare_transform(lambda batch: batch, batched=True), 0, 3, retries=1)
    failure = Failure("it was slow", "")
    result = Work(job).do(6, [6, 7, 8, 9], {7: failure, 99: failure})
    assert result.counts == [1, FAILED, 1, 1]
    assert result.failures == {1: failure}
    assert read_numbers == [6, 8, 9]


@pytest.mark.parametrize(
    ("transform", "kept"),
    [
        (None, True),
        (lambda sample: {"label": torch.tensor(sample["label"])}, True),
        (lambda sample: {"label": sample["label"] + 1}, False),
        (lambda sample: {"other": 1}, False),
    ],
)
def test_whether_labels_are_the_sources(transform: Any, kept: bool) -> None:
    result = work(transform, labels=["label"]).do(0, [0, 1, 2])
    assert isinstance(result, RawResult)
    assert result.labels_kept == {"label": kept}


def test_values_of_others_can_be_compared() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError

        __hash__ = None  # type: ignore[assignment]

    assert same(3, 3)
    assert same(np.int64(3), 3)
    assert not same(None, 3)
    assert not same(Odd(), 3)
