"""Ctrl-C as a wish, the second one as an order; a program's own ways with signals are left alone."""

import signal
import threading
from typing import Any

import pytest

from cordwood.packing.workers.interrupt import Interruption


def test_the_first_is_a_wish_and_the_second_an_order() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interruption() as interrupted:
        assert not interrupted()
        signal.raise_signal(signal.SIGINT)
        assert interrupted()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_program_that_handles_it_itself_goes_on_doing_so() -> None:
    seen: list[int] = []

    def own(number: int, frame: Any) -> None:
        seen.append(number)

    assert_left_alone(own)
    assert seen == [signal.SIGINT]


def test_a_program_that_ignores_it_goes_on_doing_so() -> None:
    assert_left_alone(signal.SIG_IGN)


def assert_left_alone(disposition: Any) -> None:
    """Fail if an interrupt in a program with this handler is noticed, or the handler is another one afterwards."""
    before = signal.signal(signal.SIGINT, disposition)
    try:
        with Interruption() as interrupted:
            signal.raise_signal(signal.SIGINT)
            assert not interrupted()
        assert signal.getsignal(signal.SIGINT) is disposition
    finally:
        signal.signal(signal.SIGINT, before)


def test_threads_get_no_signals() -> None:
    found: list[bool] = []

    def work() -> None:
        with Interruption() as interrupted:
            found.append(interrupted())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False]
