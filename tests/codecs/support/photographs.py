"""Photographs for the tests: those that the demo uses, prepared as it prepares them."""

from functools import cache

import pytest

from cordwood.errors import UsageError
from tests.codecs.support.definitions import Array


@cache
def photographs() -> list[Array]:
    """Images of 224x224x3 bytes; the test is skipped where the demo extra is not installed."""
    pytest.importorskip("PIL")
    from cordwood.demo.acts.photographs import find_photographs
    from cordwood.demo.acts.prepare import prepared_pixels

    try:
        return [prepared_pixels(path) for path in find_photographs()]
    except UsageError as error:
        pytest.skip(str(error))
