"""Settings of the whole test suite.

Hypothesis draws the same examples every time, so that a red run is red for everybody. To look for new ones:
``HYPOTHESIS_PROFILE=explore make test``.
"""

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
os.environ.pop("COLUMNS", None)  # pytest-xdist sets it: tables are as wide as in a file, where a test says nothing else


@pytest.fixture(scope="session", autouse=True)
def imports_are_no_garbage() -> Iterator[None]:
    """All test modules are imported by now, with torch and much else: a collection need not go through that again.

    Tests that look for leaks collect often, and would take a second each time.
    """
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Take SIGINT as a program in the foreground does; processes that tests start inherit this.

    `nohup`, `&` in a script and many CI systems start processes that ignore it.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
