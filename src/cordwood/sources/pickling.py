"""Pickles objects of a script or a notebook for another process, with cloudpickle: lambdas and local classes work.

data = dumps(dataset)
dataset = cloudpickle.loads(data)
"""

import importlib
import io
import sys
from collections.abc import Callable
from pickle import PickleBuffer
from types import ModuleType
from typing import Any

import cloudpickle


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """Sends modules that are objects of a class of their own by their names.

    cloudpickle takes a function's names for submodules of what it uses: one that says `torch` and `self.classes` brings
    `torch.classes` along, which is an instance of a subclass of ModuleType, and cannot be pickled by it.
    """

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, ModuleType) and type(value) is not ModuleType:
            name = value.__name__
            if sys.modules.get(name) is value:
                return importlib.import_module, (name,)
        return super().reducer_override(value)


def dumps(value: Any, buffer_callback: Callable[[PickleBuffer], Any] | None = None) -> bytes:
    """What `cloudpickle.loads` makes the object of again, in a process that finds the same modules."""
    main = sys.modules.get("__mp_main__")
    if main is not None and main.__name__ == "__mp_main__":  # a spawned process: others do not find its script
        cloudpickle.register_pickle_by_value(main)
    file = io.BytesIO()
    _Pickler(file, protocol=5, buffer_callback=buffer_callback).dump(value)
    return file.getvalue()
