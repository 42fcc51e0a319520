"""Samples transformed on threads."""

import contextlib
import functools
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from cordwood.errors import FeedError
from cordwood.feed.batches.collate import Collation
from cordwood.feed.batches.sample_threads import SampleTransform, ThreadBatches
from cordwood.store.reading.image_treatment import Seeds
from cordwood.store.reading.selection import Numbers

NUMBERS = np.arange(40, 10, -1)
SEEDS = np.arange(40, 10, -1).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
EVERY_NUMBER_OF_THREADS = pytest.mark.parametrize("threads", [1, 2, 7, 64])


def fetch(numbers: Numbers, seeds: Seeds) -> list[dict[str, Any]]:
    return [{"x": torch.full((2,), number), "n": number} for number in numbers.tolist()]


def made(
    transform: Callable[..., Any] | None,
    threads: int = 3,
    options: Any = None,
    numbers: Numbers = NUMBERS,
    seeds: Seeds = SEEDS,
) -> Any:
    with ThreadBatches(fetch, transform, Collation(options), threads) as work:
        return work.batch(numbers, seeds)


@EVERY_NUMBER_OF_THREADS
def test_a_batch_is_in_the_order_of_its_numbers(threads: int) -> None:
    batch = made(lambda sample: {**sample, "double": sample["n"] * 2}, threads)
    assert batch["n"].tolist() == NUMBERS.tolist()
    assert batch["double"].tolist() == (NUMBERS * 2).tolist()
    assert batch["x"].tolist() == [[number] * 2 for number in NUMBERS.tolist()]


def test_without_a_transform_samples_stay_what_they_are() -> None:
    assert made(None)["n"].tolist() == NUMBERS.tolist()
    assert made(None, options=lambda samples: [sample["n"] for sample in samples]) == NUMBERS.tolist()


def test_rules_of_the_collation_apply() -> None:
    batch = made(lambda sample: {"ids": list(range(sample["n"] % 3))}, options={"ids": ("pad", -1)})
    assert batch["ids"].lengths.tolist() == (NUMBERS % 3).tolist()


def test_ragged_fields_are_told_of_once() -> None:
    with ThreadBatches(fetch, lambda sample: torch.ones(sample["n"]), Collation(), 2) as work:
        with pytest.warns(UserWarning, match="field 'value' differs in shape"):
            work.batch(NUMBERS, SEEDS)
        work.batch(NUMBERS, SEEDS)


def test_threads_work_at_the_same_time() -> None:
    """Each waits for the other, so one alone would never come to an end."""
    together = threading.Barrier(3, timeout=60)

    def transform(sample: dict[str, Any]) -> int:
        together.wait()
        return threading.get_ident()

    assert len(set(made(transform, threads=3, numbers=NUMBERS[:3], seeds=SEEDS[:3]).tolist())) == 3


def test_the_threads_end_with_it() -> None:
    before = threading.active_count()
    work = ThreadBatches(fetch, lambda sample: sample, Collation(), 4)
    work.batch(NUMBERS, SEEDS)
    work.close()
    work.close()
    assert threading.active_count() == before


# ---- seeds -----------------------------------------------------------------------------------------------------------


def method_of_an_object(sample: dict[str, Any], *, seed: int) -> int:
    return seed


class Module(torch.nn.Module):
    def forward(self, sample: dict[str, Any], seed: int) -> int:
        return seed


class Callee:
    def __call__(self, sample: dict[str, Any], seed: int = 0) -> int:
        return seed


@EVERY_NUMBER_OF_THREADS
@pytest.mark.parametrize(
    "transform",
    [
        lambda sample, seed: seed,
        method_of_an_object,
        Module(),
        Callee(),
        Callee().__call__,
        functools.partial(lambda a, sample, seed: seed, 1),
    ],
)
def test_a_transform_that_has_a_seed_gets_the_samples_own(transform: Callable[..., Any], threads: int) -> None:
    seen = made(lambda sample, seed: seed, threads, options=list)
    assert seen == SEEDS.tolist()
    assert all(type(seed) is int for seed in seen)
    assert made(transform, threads, options=list) == SEEDS.tolist()


def test_a_seed_that_the_caller_filled_in_stays() -> None:
    assert set(made(functools.partial(method_of_an_object, seed=3)).tolist()) == {3}


def test_a_sample_that_is_called_seed_is_no_seed() -> None:
    assert made(lambda seed: seed["n"]).tolist() == NUMBERS.tolist()


def test_functions_without_a_signature_get_the_sample() -> None:
    assert not SampleTransform(dict).takes_seed
    assert not SampleTransform(lambda sample, **options: sample).takes_seed
    assert SampleTransform(dict)({"a": 1}, 0, 5) == {"a": 1}


# ---- errors ----------------------------------------------------------------------------------------------------------


class OddError(Exception):
    def __init__(self, one: int, other: str) -> None:
        super().__init__(one, other)


@EVERY_NUMBER_OF_THREADS
def test_an_error_is_that_of_the_first_sample_that_has_one(threads: int) -> None:
    def transform(sample: dict[str, Any]) -> Any:
        if sample["n"] in (35, 20, 19, 12):
            raise OddError(sample["n"], "is bad")
        return sample

    with ThreadBatches(fetch, transform, Collation(), threads) as work:
        for _ in range(20):
            with pytest.raises(OddError) as found:
                work.batch(NUMBERS, SEEDS)
            assert found.value.args == (35, "is bad")
            assert found.value.__notes__ == ["raised by sample_transform for sample 35 of the dataset"]
        good = np.array([40, 39, 36])
        assert work.batch(good, SEEDS[:3])["n"].tolist() == [40, 39, 36]


def test_after_an_error_nothing_is_kept() -> None:
    kept = []

    def transform(sample: dict[str, Any]) -> Any:
        kept.append(weakref.ref(sample["x"]))
        raise ValueError

    gc.collect()
    gc.disable()
    try:
        with contextlib.suppress(ValueError):
            made(transform)
        assert kept
        assert [one() for one in kept] == [None] * len(kept)
    finally:
        gc.enable()


def test_stop_iteration_does_not_end_an_epoch() -> None:
    with pytest.raises(FeedError, match="sample_transform raised StopIteration for sample 40 ") as found:
        made(lambda sample: next(iter(())))
    assert isinstance(found.value.__cause__, StopIteration)
    with pytest.raises(FeedError, match=r"collate raised StopIteration for the samples 40, 39, .* 30 in all"):
        made(None, options=lambda samples: next(iter(())))


def test_an_error_of_the_collate_function_names_the_samples() -> None:
    with pytest.raises(ZeroDivisionError) as found:
        made(None, options=lambda samples: 1 // 0)
    named = "the samples 40, 39, 38, 37, 36, 35, 34, 33, ... 30 in all of the dataset"
    assert found.value.__notes__ == [f"raised while {named} were put together to a batch"]


def test_an_interrupt_in_the_asking_thread_waits_for_the_others() -> None:
    begun, go_on = threading.Event(), threading.Event()
    asking = threading.current_thread()
    finished = []

    def transform(sample: dict[str, Any]) -> Any:
        if threading.current_thread() is asking:
            assert begun.wait(60)
            go_on.set()
            raise KeyboardInterrupt
        begun.set()
        assert go_on.wait(60)
        finished.append(sample["n"])
        return sample

    with ThreadBatches(fetch, transform, Collation(), 2) as work, pytest.raises(KeyboardInterrupt):
        work.batch(NUMBERS, SEEDS)
    assert finished  # what was under way; how many more were begun before the others knew is chance


def test_fetch_must_give_every_sample() -> None:
    with (
        ThreadBatches(lambda *plan: fetch(*plan)[1:], lambda sample: sample, Collation(), 2) as work,
        pytest.raises(ValueError, match="zip"),
    ):
        work.batch(NUMBERS, SEEDS)
