"""Samples transformed in worker processes."""

import multiprocessing
import os
import pickle
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import cordwood as cw
from cordwood.errors import FeedError, FormatError, UsageError
from cordwood.feed.batches import sample_processes
from cordwood.feed.batches.collate import Collation
from cordwood.feed.batches.sample_processes import process_batches
from cordwood.feed.batches.sample_threads import ThreadBatches
from cordwood.store.reading.image_treatment import Seeds
from cordwood.store.reading.selection import Numbers
from tests.store.support.packed import images, pack
from tests.store.support.samples import assert_same_sample

# That workers are forked beside other threads is no news to torch.
pytestmark = [
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create . worker processes in total"),  # on few cores
]

COUNT = 23


def fetch(numbers: Numbers, seeds: Seeds) -> list[dict[str, Any]]:
    return [{"x": torch.full((2,), number), "n": number} for number in numbers.tolist()]


def plans(size: int = 4, count: int = COUNT) -> list[tuple[Numbers, Seeds]]:
    numbers = np.arange(count, 0, -1)
    seeds = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return [(numbers[at : at + size], seeds[at : at + size]) for at in range(0, count, size)]


def batches(transform: Callable[..., Any] | None, workers: int = 2, options: Any = None, **more: Any) -> Iterator[Any]:
    return process_batches(fetch, transform, Collation(options), workers, more.pop("plans", plans()), **more)


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    yield
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("workers", [1, 3])
def test_batches_are_those_of_threads(workers: int) -> None:
    def transform(sample: dict[str, Any], seed: int) -> dict[str, Any]:
        return {**sample, "drawn": seed % 1000, "ids": [1] * (sample["n"] % 3)}

    options: dict[str, Any] = {"ids": "pad"}
    with ThreadBatches(fetch, transform, Collation(options), 2) as work:
        expected = [work.batch(*plan) for plan in plans()]
    found = list(batches(transform, workers, options))
    assert len(found) == len(expected) == 6
    for one, other in zip(found, expected, strict=True):
        assert_same_sample(one, other)
        assert one["x"].is_shared()


def test_without_a_transform_a_callers_function_collates() -> None:
    found = list(batches(None, options=lambda samples: [sample["n"] for sample in samples]))
    assert [number for batch in found for number in batch] == list(range(COUNT, 0, -1))


def test_batches_of_more_bytes_than_a_pipe_holds() -> None:
    def transform(sample: dict[str, Any]) -> dict[str, Any]:
        return {"text": chr(64 + sample["n"]) * 100_000, "x": sample["x"]}

    found = list(batches(transform))
    assert [text for batch in found for text in batch["text"]] == [chr(64 + n) * 100_000 for n in range(COUNT, 0, -1)]
    assert [number for batch in found for number in batch["x"][:, 0].tolist()] == list(range(COUNT, 0, -1))


def draw(sample: dict[str, Any]) -> dict[str, Any]:
    return {
        "python": random.random(),
        "numpy": np.random.rand(),
        "torch": torch.rand((), dtype=torch.float64).item(),
        "normal": torch.randn(20),
    }


def test_what_is_drawn_depends_on_the_sample_alone() -> None:
    def drawn(workers: int, size: int, **more: Any) -> list[dict[str, Any]]:
        return [sample for batch in batches(draw, workers, list, plans=plans(size), **more) for sample in batch]

    first = drawn(1, 4)
    for other in (drawn(3, 4), drawn(2, 5, ahead=1)):
        for one, again in zip(first, other, strict=True):
            assert_same_sample(one, again)
    draws = [sample[name] for sample in first for name in ("python", "numpy", "torch")]
    assert len({round(value, 6) for value in draws}) == 3 * COUNT


def test_the_callers_generators_do_not_move() -> None:
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()  # type: ignore[index]
    list(batches(draw))
    after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()  # type: ignore[index]
    assert before[:2] == after[:2]
    assert torch.equal(before[2], after[2])


def test_ragged_fields_are_told_of_once_and_here() -> None:
    with pytest.warns(UserWarning, match="differs in shape") as told:
        found = list(batches(lambda sample: {"v": torch.ones(sample["n"])}))
    assert [str(one.message)[:30] for one in told] == ["field 'v' differs in shape wit"]
    assert [len(one) for one in found[0]["v"]] == [23, 22, 21, 20]


def module_level(sample: dict[str, Any], seed: int) -> dict[str, Any]:
    return {**sample, "seed": seed % 7}


class FromStore:
    def __init__(self, dataset: cw.Dataset) -> None:
        self.dataset = dataset

    def __call__(self, numbers: Numbers, seeds: Seeds) -> list[Any]:
        return self.dataset.__getitems__(numbers)


@pytest.mark.slow
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_of_every_kind_read_a_store(tmp_path: Path, context: str) -> None:
    samples = images(10)
    ds = pack(tmp_path / "s", samples)
    ds[[1, 2]]
    plan = [(np.array([9, 0, 3]), np.arange(3, dtype=np.uint64)), (np.array([5]), np.array([8], np.uint64))]
    first, second = process_batches(FromStore(ds), module_level, Collation(), 1, plan, context=context)
    assert first["seed"].tolist() == [0, 1, 2]
    assert_same_sample(first["image"], torch.stack([samples[number]["image"] for number in (9, 0, 3)]))
    assert second["meta"]["path"] == ["5.jpg"]


@pytest.mark.filterwarnings("ignore:Got pickle error when attempting to start a worker")
def test_a_transform_that_cannot_be_pickled_is_told_what_to_do() -> None:
    made = process_batches(fetch, lambda sample: sample, Collation(), 1, plans(), context="spawn")
    with pytest.raises(Exception, match="pickle") as found:
        next(made)
    assert "make them functions or classes of a module" in found.value.__notes__[0]


# ---- errors and ends -------------------------------------------------------------------------------------------------


def test_an_error_has_its_type_the_workers_traceback_and_the_sample() -> None:
    def transform(sample: dict[str, Any]) -> Any:
        if sample["n"] == 15:
            raise KeyError("where it went wrong")
        return sample

    made = batches(transform)
    assert [next(made)["n"].tolist() for _ in range(2)] == [[23, 22, 21, 20], [19, 18, 17, 16]]
    with pytest.raises(KeyError) as found:
        next(made)
    text = str(found.value)
    assert 'raise KeyError("where it went wrong")' in text
    assert "raised by sample_transform for sample 15 of the dataset" in text
    assert multiprocessing.active_children() == []
    assert list(made) == []


def test_stop_iteration_does_not_end_an_epoch() -> None:
    with pytest.raises(FeedError, match="sample_transform raised StopIteration for sample 23 "):
        next(batches(lambda sample: next(iter(()))))


def test_an_error_in_the_plans_passes() -> None:
    def broken() -> Iterator[tuple[Numbers, Seeds]]:
        yield from plans()[:1]
        raise ZeroDivisionError("no more plans")

    with pytest.raises(ZeroDivisionError, match="no more plans"):
        list(batches(None, plans=broken()))


def test_what_cannot_be_pickled_is_an_error_of_the_batch() -> None:
    def transform(sample: dict[str, Any]) -> Any:
        return (lambda: sample) if sample["n"] == 15 else sample

    made = batches(transform, options=list)
    assert len([next(made) for _ in range(2)]) == 2
    with pytest.raises((AttributeError, pickle.PicklingError), match="comes back by pickling"):
        next(made)


def dies(sample: dict[str, Any]) -> Any:
    if sample["n"] == 15:
        os.kill(os.getpid(), signal.SIGKILL)
    return sample


def test_a_killed_worker_is_an_error_and_the_others_end() -> None:
    with pytest.raises(FeedError, match=r"a worker process of sample_transform died: .*sample_workers=0"):
        list(batches(dies, 2))
    assert multiprocessing.active_children() == []


def caught_in_a_thread(wait: Callable[[threading.Thread], None]) -> list[FeedError]:
    """What a thread comes upon whose worker is killed, while this one waits for it."""
    caught: list[FeedError] = []

    def work() -> None:
        try:
            list(batches(dies, 2))
        except FeedError as error:
            caught.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    wait(thread)
    thread.join()
    return caught


@pytest.mark.slow
def test_a_killed_worker_is_seen_by_a_thread_that_gets_no_signals() -> None:
    assert len(caught_in_a_thread(threading.Thread.join)) == 1


@pytest.mark.slow
def test_a_killed_worker_is_not_told_to_the_main_thread_that_had_workers_of_torchs() -> None:
    def work_until_it_ends(thread: threading.Thread) -> None:
        while thread.is_alive():
            os.sched_yield()  # a handler of signals may run here

    assert len(list(DataLoader([1, 2], num_workers=1))) == 2  # type: ignore[arg-type] # sets torch's handler of SIGCHLD
    assert len(caught_in_a_thread(work_until_it_ends)) == 1


def fail(worker: int) -> Any:
    """What the receiver of a batch comes upon."""
    if worker:
        os.kill(worker, signal.SIGKILL)
    raise ConnectionResetError("nobody there")


class NotReceived:
    def __init__(self, dies: bool) -> None:
        self.dies = dies

    def __reduce__(self) -> Any:
        return fail, (os.getpid() if self.dies else 0,)


def test_a_worker_that_dies_before_its_tensors_are_fetched_is_an_error_of_ours() -> None:
    with pytest.raises(FeedError, match="a worker process of sample_transform died: nobody there") as found:
        list(batches(lambda sample: NotReceived(dies=True), options=list))
    assert isinstance(found.value.__cause__, ConnectionResetError)


def test_a_batch_that_a_living_worker_sent_in_vain_is_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_processes, "_SOON", 0.0)
    with pytest.raises(ConnectionResetError, match="nobody there"):
        list(batches(lambda sample: NotReceived(dies=False), options=list))


def dies_with_the_lock(sample: dict[str, Any]) -> Any:
    frame = sys._getframe()
    while "done_event" not in frame.f_locals:
        assert frame.f_back is not None
        frame = frame.f_back
    frame.f_locals["done_event"]._cond.acquire()
    return dies({"n": 15})


@pytest.mark.slow
def test_a_worker_that_dies_with_a_lock_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_processes, "_SOON", 0.1)
    with pytest.raises(FeedError, match="a worker process of sample_transform died"):
        list(batches(dies_with_the_lock, 2))
    assert multiprocessing.active_children() == []


def test_closing_early_ends_the_workers() -> None:
    made = batches(module_level, 3)
    next(made)
    assert len(multiprocessing.active_children()) == 3
    made.close()  # type: ignore[attr-defined]
    assert multiprocessing.active_children() == []


def test_dropping_it_ends_the_workers() -> None:
    made = batches(module_level, 2)
    next(made)
    del made
    assert multiprocessing.active_children() == []


def test_damaged_samples_are_an_error_or_are_mended_here() -> None:
    def damaged(numbers: Numbers, seeds: Seeds) -> list[dict[str, Any]]:
        if 15 in numbers:
            raise FormatError("sample 15 is damaged", 15)
        return fetch(numbers, seeds)

    with pytest.raises(FormatError, match="sample 15 is damaged"):
        list(process_batches(damaged, None, Collation(), 2, plans()))
    asked = []

    def mend(numbers: Numbers, seeds: Seeds) -> str:
        asked.append((numbers.tolist(), seeds.tolist()))
        return "mended"

    found = list(process_batches(damaged, None, Collation(), 2, plans(), mend=mend))
    assert asked == [(plans()[2][0].tolist(), plans()[2][1].tolist())]
    assert [batch if batch == "mended" else batch["n"].tolist()[0] for batch in found] == [23, 19, "mended", 11, 7, 3]


def test_no_workers_are_refused() -> None:
    with pytest.raises(UsageError, match="sample_workers is 0"):
        next(batches(None, 0))
