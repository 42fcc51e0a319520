"""What it costs to start workers: measured by starting them, told where it matters, and what to do about it."""

import os
import threading
from typing import Any

import pytest

from cordwood.errors import UsageError
from cordwood.packing.report.startup_cost import advice, counts, measured
from cordwood.packing.transform.transform import prepare_transform
from cordwood.packing.workers import pool
from cordwood.packing.workers.work import Job
from tests.feed.support.leftovers import Leftovers
from tests.packing.support.forkedworkers import launch


@pytest.fixture(autouse=True)
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool._Worker, "_launch", launch)


def job(transform: Any = None) -> Job:
    return Job(lambda number: {"number": number}, prepare_transform(transform), 0, 1, 0, (), {})


def test_all_workers_are_waited_for_and_ended() -> None:
    clock = iter((10.0, 14.5)).__next__
    before = Leftovers.now()
    assert measured(job(), 3, clock) == 4.5
    assert Leftovers.now() == before


class DiesWhenItArrives:
    """Ends every process that gets it."""

    def __call__(self, sample: Any) -> Any:
        return sample

    def __reduce__(self) -> Any:
        return os._exit, (3,)


def test_workers_that_die_are_not_waited_for_and_what_cannot_be_sent_is_told() -> None:
    assert measured(job(DiesWhenItArrives()), 2) > 0
    with pytest.raises(UsageError, match="cannot be sent to worker processes"):
        measured(job(threading.Lock().__enter__), 1)


@pytest.mark.parametrize(
    ("seconds", "starting", "told"), [(6.0, 4.0, True), (21.0, 4.0, False), (0.5, 0.4, False), (3.0, 0.0, False)]
)
def test_it_is_told_where_it_is_more_than_a_fifth(seconds: float, starting: float, told: bool) -> None:
    assert counts(seconds, starting) == told


def test_advice_is_given_where_one_process_is_quicker() -> None:
    assert advice(6.0, 4.0, 2) == (
        "a job as small as this is done sooner in one process: workers=0 (--workers 0), about 0:04 or less"
    )
    assert "about 0:01 or less" in advice(4.1, 4.0, 2)
    assert advice(6.0, 4.0, 3) == ""  # as long
    assert advice(6.0, 4.0, 0) == ""
    assert advice(0.3, 0.29, 2) == ""
    assert advice(60.0, 4.0, 2) == ""
