"""Inputs cut into tasks: all of them, in order, whole units, and of a size that their time tells."""

from itertools import pairwise

import pytest

from cordwood.packing.workers.tasks import Tasks
from cordwood.packing.workers.work import EncodedResult, RawResult
from cordwood.sources import Input


def made(first: int, count: int, stop: int | None = None, batch: int = 1, seconds: float = 1e-6) -> list[list[int]]:
    """The handles of all tasks, if each input takes so long."""
    tasks = Tasks((Input(number) for number in range(first, count)), first, stop, batch)
    found = []
    while (task := tasks.next()) is not None:
        (number, handles, _), inputs = task
        assert [one.handle for one in inputs] == list(handles)
        assert number == handles[0]
        found.append(list(handles))
        tasks.learn(EncodedResult([1] * len(handles), raw_sizes=[8] * len(handles), seconds=seconds * len(handles)))
    return found


def test_all_inputs_come_once_and_in_order() -> None:
    for batch in (1, 7):
        for stop in (None, 21, 50):
            found = [number for task in made(14, 1000, stop, batch) for number in task]
            assert found == list(range(14, stop or 1000))


def test_batches_are_not_cut() -> None:
    tasks = made(14, 1000, batch=7)
    assert all(task[0] % 7 == 0 for task in tasks)
    assert all(len(task) % 7 == 0 for task in tasks[:-1])


def test_tasks_grow_with_inputs_that_are_quick() -> None:
    sizes = [len(task) for task in made(0, 50_000)]
    assert sizes[0] == 1
    assert all(after <= 4 * before for before, after in pairwise(sizes))
    assert max(sizes) == 2048
    assert {len(task) for task in made(0, 100, seconds=10.0)} == {1}


def test_large_samples_make_small_tasks() -> None:
    tasks = Tasks(map(Input, range(1000)), 0, None, 1)
    for _ in range(6):
        task = tasks.next()
        assert task is not None
        count = len(task[1])
        tasks.learn(EncodedResult([1] * count, raw_sizes=[1 << 20] * count, seconds=1e-6))
    assert count == 8


def test_samples_as_they_are_travel_one_by_one() -> None:
    tasks = Tasks(map(Input, range(10)), 0, None, 1)
    for _ in range(10):
        task = tasks.next()
        assert task is not None
        assert len(task[1]) == 1
        tasks.learn(RawResult([1], samples=[[{}]], seconds=1e-6))
    assert tasks.next() is None


def sizes_of(tasks: Tasks, nbytes: int, count: int) -> list[int]:
    """Inputs of the next tasks, if so many bytes are sent for each input, and nothing takes any time."""
    found = []
    for _ in range(count):
        task = tasks.next()
        assert task is not None
        inputs = len(task[1])
        found.append(inputs)
        tasks.learn_size(inputs, nbytes * inputs)
        tasks.learn(EncodedResult([1] * inputs, raw_sizes=[8] * inputs, seconds=1e-9))
    return found


@pytest.mark.parametrize(("nbytes", "most"), [(1, 2048), (8 << 10, 1024), (1 << 20, 8), (5 << 20, 1), (1 << 30, 1)])
def test_large_inputs_make_small_tasks(nbytes: int, most: int) -> None:
    """Those of an iterable are whole samples, whatever the transform makes of them."""
    assert max(sizes_of(Tasks(map(Input, range(100_000)), 0, None, 1), nbytes, 12)) == most


@pytest.mark.parametrize(("nbytes", "most"), [(1, 2044), (1 << 20, 7), (1 << 30, 7)])
def test_large_inputs_do_not_cut_batches(nbytes: int, most: int) -> None:
    assert max(sizes_of(Tasks(map(Input, range(100_000)), 0, None, 7), nbytes, 12)) == most


def test_tasks_grow_again_when_inputs_are_small_again() -> None:
    tasks = Tasks(map(Input, range(100_000)), 0, None, 1)
    sizes_of(tasks, 10, 6)
    assert sizes_of(tasks, 8 << 20, 3)[1:] == [1, 1]
    assert sizes_of(tasks, 10, 5) == [1, 4, 16, 64, 256]
