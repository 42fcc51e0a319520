"""Makes named tuples from names in a file: new classes, or those that the caller gives. No module is imported."""

from collections import namedtuple
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from cordwood.errors import UsageError


@lru_cache(maxsize=1024)  # a file may tell of any number of them
def fresh_class(name: str, fields: tuple[str, ...]) -> Any:
    """The named tuple class of that name and these fields; the same one every time, and in every process.

    Names are checked before they come here (:func:`cordwood.store.schema.node.is_named_tuple`).
    """
    made = namedtuple(name, fields, rename=True, module=__name__)  # type: ignore[misc]
    # Pickle would look for the class by name in a module, where it is not: workers send samples by pickling them.
    made.__reduce__ = _reduce  # type: ignore[method-assign]
    return made


def fresh(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """A named tuple of a fresh class."""
    return fresh_class(name, fields)._make(values)


def _reduce(self: Any) -> tuple[Any, ...]:
    return fresh, (type(self).__name__, self._fields, tuple(self))


class NamedTuples:
    """The classes for the named tuples of a store: the caller's where name and fields fit, else fresh ones.

    ::

        NamedTuples([Point])("Point", ("x", "y"))   # Point itself
    """

    def __init__(self, types: Sequence[type] = ()) -> None:
        self.types: dict[tuple[str, tuple[str, ...]], Any] = {}
        for cls in types:
            fields = getattr(cls, "_fields", None)
            if not isinstance(cls, type) or not issubclass(cls, tuple) or type(fields) is not tuple:
                raise UsageError(f"types has {cls!r}, but is for named tuple classes")
            self.types[cls.__name__, fields] = cls

    def __call__(self, name: str, fields: tuple[str, ...]) -> Any:
        """The class to make such a named tuple with; ``._make`` takes its values."""
        return self.types.get((name, fields)) or fresh_class(name, fields)
