"""Python objects as sources: datasets that are read by number, and iterables that are read in order.

    DatasetSource(torchvision.datasets.CIFAR10("data"))     # read in the workers, by number
    SamplesInMemory({"x": images, "y": labels})             # the rows of tensors
    IterableSource(lambda: read_my_log("events.log"))       # read in the parent, one after the other

Which of them an object is, `find` tells.
"""

import hashlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from cordwood.errors import UsageError
from cordwood.sources.base import Input, Source
from cordwood.sources.importing import made, module_name
from cordwood.sources.kinds.columns import own, rows_of


class DatasetSource(Source):
    """Anything with a length that gives a sample for a number; each number is an input.

    ``name`` is the ``module:name`` it was made by, if it was: a dataset that cannot be pickled is then made anew in
    each worker.
    """

    kind = "dataset"

    def __init__(self, dataset: Any, name: str | None = None) -> None:
        self._dataset = dataset
        self._name = name
        self._count = len(dataset)

    @property
    def count(self) -> int:
        return self._count

    def inputs(self, start: int = 0) -> Iterator[Input]:
        return map(Input, range(start, self._count))

    def reader(self) -> Callable[[Any], Any]:
        return _ByNumber(self._dataset, self._name)

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind, "object": self._name or type_name(self._dataset)}

    def origin(self) -> Any:
        return self._dataset

    def fingerprint(self) -> str:
        return hashlib.blake2b(f"{self._count} by number".encode(), digest_size=16).hexdigest()


class SamplesInMemory(DatasetSource):
    """A list of samples, or tensors whose rows are samples: each goes to one worker, not all of them to each."""

    def __init__(self, found: Any, name: str | None = None) -> None:
        super().__init__(rows_of(found, name or type_name(found)), name or type_name(found))
        self._found = found

    def inputs(self, start: int = 0) -> Iterator[Input]:
        return (Input(self._dataset[number]) for number in range(start, self._count))

    def reader(self) -> Callable[[Any], Any]:
        return own

    def origin(self) -> Any:
        return self._found


class _ByNumber:
    """Reads a dataset's samples; pickled with it, or with the name that makes it."""

    def __init__(self, dataset: Any, name: str | None) -> None:
        self._dataset = dataset
        self._name = name

    def __call__(self, number: int) -> Any:
        return self._dataset[number]

    def __reduce__(self) -> tuple[Any, ...]:
        # The object itself is sent if it can be: a factory may draw random numbers, or ask the clock.
        if self._name is None:
            return _ByNumber, (self._dataset, None)
        from cordwood.sources.pickling import dumps

        try:
            return _unpickled, (dumps(self._dataset), self._name)
        except Exception:  # whatever an object raises that holds an open file, a lock, a database
            return _made_anew, (self._name,)


def _unpickled(pickled: bytes, name: str) -> _ByNumber:
    import cloudpickle

    return _ByNumber(cloudpickle.loads(pickled), name)


def _made_anew(name: str) -> _ByNumber:
    return _ByNumber(made(name, "source"), name)


class IterableSource(Source):
    """Samples from an iterable, or from a function that makes one; iterated in the parent process.

    The samples themselves are the handles. An iterator can be gone through once; a list, a set or a function that
    returns a new generator can be gone through again. Resuming goes through what is packed already without keeping it.
    """

    kind = "iterable"

    def __init__(self, iterable: Iterable[Any] | Callable[[], Iterable[Any]], name: str | None = None) -> None:
        self._iterable = iterable
        self._name = name
        self._spent = False

    @property
    def count(self) -> int | None:
        if hasattr(type(self._iterable), "__len__"):
            try:
                return len(self._iterable)  # type: ignore[arg-type]
            except TypeError:  # torch's way to say that there is none
                return None
        return None

    @property
    def indexed(self) -> bool:
        return isinstance(self._iterable, list | tuple)

    def inputs(self, start: int = 0) -> Iterator[Input]:
        iterator = self._iterator()
        skipped = sum(1 for _ in islice(iterator, start))
        if skipped < start:
            raise UsageError(
                f"{self._title} ended after {skipped} samples, but the job has come to sample {start} already: it must "
                "give the same samples every time it is gone through"
            )
        return map(Input, iterator)

    def _iterator(self) -> Iterator[Any]:
        found = self._iterable
        if callable(found) and not hasattr(found, "__iter__"):
            found = found()
        if not isinstance(found, Iterable):
            raise UsageError(f"{self._title} gave {type_name(found)}, which cannot be iterated")
        iterator = iter(found)
        if iterator is self._iterable:
            if self._spent:
                raise UsageError(
                    f"{self._title} can be gone through once only, and was: give the function that makes it, without "
                    "calling it"
                )
            self._spent = True
        return iterator

    def reader(self) -> Callable[[Any], Any]:
        return _itself

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind, "object": self._title}

    def origin(self) -> Any:
        return self._iterable

    @property
    def _title(self) -> str:
        return self._name or type_name(self._iterable)


def _itself(sample: Any) -> Any:
    return sample


def type_name(found: Any) -> str:
    """What an object is, the same in every run: a function's own name, else that of its class."""
    if inspect.isgenerator(found):
        return f"generator {found.__qualname__}"
    named = found if inspect.isroutine(found) or isinstance(found, type) else type(found)
    return f"{module_name(named)}.{getattr(named, '__qualname__', type(found).__name__)}"
