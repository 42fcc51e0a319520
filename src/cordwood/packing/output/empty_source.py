"""Sources that hold nothing: refused, as an empty folder is, before anything is written.

    inputs = begun(source)              # UsageError: there is nothing to pack
    Tasks(inputs, 0, None, batch)

A filter that lets nothing through, a split that is not there, a generator that was used before: an empty store would
hide all of these until training.
"""

from collections.abc import Iterator
from itertools import islice

from cordwood.errors import UsageError
from cordwood.sources import Input, Source


def nothing_in(source: Source) -> UsageError:
    """What is said of a source without inputs."""
    told = source.describe()
    name = told.get("path") or told.get("object") or f"the source of kind {source.kind!r}"
    return UsageError(
        f"{name} has no inputs, but a store needs at least one: there is nothing to pack; see whether a path, a split "
        "or a filter of it leaves nothing, or whether it was gone through before"
    )


def begun(source: Source) -> Iterator[Input]:
    """All inputs, the first of which is asked for now: an iterable tells only so whether it has any."""
    inputs = source.inputs()
    first = list(islice(inputs, 1))
    if not first:
        raise nothing_in(source)
    return _all(first, inputs)


def _all(first: list[Input], rest: Iterator[Input]) -> Iterator[Input]:
    yield first.pop()  # not kept: it may be a large sample
    yield from rest
