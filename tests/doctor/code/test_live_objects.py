"""Objects by their types, anywhere in the program; other threads may make tuples meanwhile."""

import gc
import sys
import threading

import pytest
import torch

from cordwood.doctor.code.live_objects import alive, with_subclasses

MOST = 100_000_000


class Kind:
    """Something to look for."""


class Derived(Kind):
    """Another one."""


def test_objects_of_these_types_are_found_and_no_others() -> None:
    one, other = Kind(), [Derived()]
    found = alive({Kind}, MOST)
    assert found is not None
    assert [id(each) for each in found] == [id(one)]
    both = alive(with_subclasses(Kind), MOST)
    assert both is not None
    assert {id(each) for each in both} == {id(one), id(other[0])}
    tensor = torch.ones(1)
    assert any(each is tensor for each in alive({torch.Tensor}, MOST) or [])


def test_too_many_are_not_gone_through() -> None:
    assert alive({Kind}, 10) is None


@pytest.mark.parametrize("enabled", [True, False])
def test_collecting_goes_on_as_before(enabled: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        alive({Kind}, MOST)
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_nothing_is_held_afterwards() -> None:
    marks = tuple(object() for _ in range(1))
    counts = [sys.getrefcount(marks)]
    alive({Kind}, MOST)
    counts.append(sys.getrefcount(marks))
    assert counts[0] == counts[1]


def test_threads_that_make_tuples_do_not_notice() -> None:
    """Such a tuple is known to the collector before it is whole, and must have no other holder then."""
    errors: list[BaseException] = []
    over = threading.Event()

    def make() -> None:
        try:
            while not over.is_set():
                tuple(number for number in range(50))
        except BaseException as error:  # what this is about is no ordinary error
            errors.append(error)

    thread = threading.Thread(target=make)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        thread.start()
        for _ in range(20):
            alive({Kind}, MOST)
    finally:
        sys.setswitchinterval(interval)
        over.set()
        thread.join()
    assert errors == []
