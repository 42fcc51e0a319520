"""Packages whose names load when they are first used (PEP 562).

    if not TYPE_CHECKING:
        __getattr__ = lazy_names(__name__, {"load": "loading.load", "pickle_module": "pickle_module"})

A type checker reads the imports under ``TYPE_CHECKING`` instead.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """The ``__getattr__`` of a package: imports each name from its module, or the module of that name itself."""

    def load(name: str) -> object:
        where = modules.get(name)
        if where is None:
            from cordwood.common.suggest import no_attribute  # only for messages

            raise no_attribute(package, name, modules)
        module = import_module(f"{package}.{where}")
        value = module if name == where else getattr(module, name)
        setattr(sys.modules[package], name, value)  # the next access does not come here
        return value

    return load
