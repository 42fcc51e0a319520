"""Tensor files: save, load, peek into, inspect and trim them.

Names load when they are first used (PEP 562): what only formats sizes and tables for people needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cordwood.tensors import pickle_module as pickle_module
    from cordwood.tensors.inspecting.inspect import inspect as inspect
    from cordwood.tensors.inspecting.result import Inspection as Inspection
    from cordwood.tensors.loading.load import load as load
    from cordwood.tensors.loading.peek import Peek as Peek
    from cordwood.tensors.loading.peek import peek as peek
    from cordwood.tensors.saving.save import save as save
    from cordwood.tensors.trimming.trim import Trimmed as Trimmed
    from cordwood.tensors.trimming.trim import trim as trim

# Public name -> the module it is in; a module's own name stands for the module itself.
_HOME = {
    "Inspection": "inspecting.result",
    "Peek": "loading.peek",
    "Trimmed": "trimming.trim",
    "inspect": "inspecting.inspect",
    "load": "loading.load",
    "peek": "loading.peek",
    "pickle_module": "pickle_module",
    "save": "saving.save",
    "trim": "trimming.trim",
}

__all__ = ["Inspection", "Peek", "Trimmed", "inspect", "load", "peek", "pickle_module", "save", "trim"]


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{home}")
    value = module if name == home else getattr(module, name)
    globals()[name] = value  # the next access does not come here
    return value
