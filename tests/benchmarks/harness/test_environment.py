"""A recorded run waits for a quiet machine, and says so."""

import os
import time
from collections.abc import Iterator

import pytest

from benchmarks.harness import environment
from benchmarks.harness.environment import wait_for_quiet

Output = pytest.CaptureFixture[str]


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    made = Clock()
    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", made.monotonic)
        patched.setattr(time, "sleep", made.sleep)
        patched.setattr(os, "cpu_count", lambda: 2)
        yield made


def test_a_quiet_machine_is_not_waited_for(clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.setattr(environment, "load", lambda: "0.50")
    wait_for_quiet()
    assert (clock.now, capsys.readouterr().err) == (0.0, "")


def test_what_ended_just_now_is_waited_for(clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.setattr(environment, "load", lambda: f"{2.0 - clock.now / 20:.2f}")
    wait_for_quiet()
    assert clock.now == pytest.approx(30.0)
    assert capsys.readouterr().err == "the load is 2.00: waiting until the machine is quiet ...\n"


def test_a_machine_that_stays_busy_is_told_of(clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.setattr(environment, "load", lambda: "3.00")
    wait_for_quiet()
    assert clock.now <= environment.PATIENCE_SECONDS + 5
    assert capsys.readouterr().err.endswith("the load is still 3.00: figures will be those of a busy machine\n")


def test_where_the_load_is_not_told_nobody_waits(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "load", lambda: environment.UNKNOWN)
    wait_for_quiet()
    assert clock.now == 0.0
