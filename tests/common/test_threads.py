"""Work that is spread over threads: all of it is done, in order, whether there are threads or not."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cordwood.common.threads import map_in_threads


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 2, 20])
def test_results_come_in_order(threads: int, count: int) -> None:
    assert list(map_in_threads(lambda number: number * number, range(count), threads)) == [n * n for n in range(count)]


def test_threads_share_the_work() -> None:
    both = threading.Barrier(2, timeout=60)
    assert sorted(map_in_threads(lambda _: both.wait(), range(2), 2)) == [0, 1]


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_what_no_thread_takes_is_done_here(taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    submit, asked = ThreadPoolExecutor.submit, []

    def refusing(pool: ThreadPoolExecutor, function: Any, item: int) -> Any:
        asked.append(item)
        if len(asked) > taken:
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")
        return submit(pool, function, item)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", refusing)
    found = list(map_in_threads(lambda number: (number, threading.current_thread()), range(5), 2))
    assert [number for number, _ in found] == list(range(5))
    assert [thread is threading.main_thread() for _, thread in found] == [number >= taken for number in range(5)]


def test_an_error_in_the_work_is_raised() -> None:
    with pytest.raises(RuntimeError, match="of the work"):
        list(map_in_threads(_fail, range(4), 2))


def _fail(number: int) -> None:
    if number == 2:
        raise RuntimeError("of the work")
