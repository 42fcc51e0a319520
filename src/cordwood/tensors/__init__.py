"""Tensor files: save, load, peek into, inspect and trim them.

How an object is saved:

1. ``saving``: an object -> its pickle, and the views of each storage.
2. ``layout``: the views of a storage -> the bytes that they reach, and their new offsets and strides.
3. ``content``: pickle and bytes, independent of the format.
4. ``formats``: content -> a ``.pt`` or ``.cord`` file, written through ``io``.

How a file is loaded:

1. ``io``: a path, file object or buffer -> bytes at any offset, within a limit on memory.
2. ``formats.detect``: bytes -> an open file of its format.
3. ``unpickle``: the pickle -> objects. Runs no code that the file names.
4. ``loading``: storages -> tensors on their device; all of them, or those that are asked for.

``trimming`` combines both: it reads a file, lays its storages out anew and edits the pickle. ``inspecting`` describes a
file. ``pickle_module`` is for callers of ``torch.save``; files name its functions, so it stays where it is.

Names load when they are first used (PEP 562), because most of these modules import torch. Imports ``codecs``,
``common`` and ``native``; used by ``store``, ``sources``, ``packing``, ``doctor``, ``demo`` and ``cli``.

Where to add things:

* A file format: a reader in ``formats``, opened in ``formats/detect.py``; for writing, its suffix in
  ``formats/suffixes.py`` and a case in ``Target.write_to`` of ``saving/save.py``. Tests in tests/tensors.
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
