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

from typing import TYPE_CHECKING

from cordwood.common.lazy import lazy_names

if TYPE_CHECKING:
    from cordwood.tensors import pickle_module as pickle_module
    from cordwood.tensors.content.dtypes import torch_dtype as torch_dtype
    from cordwood.tensors.formats.cord_reader import is_cord as is_cord
    from cordwood.tensors.formats.legacy_reader import is_legacy as is_legacy
    from cordwood.tensors.formats.safetensors_reader import is_safetensors as is_safetensors
    from cordwood.tensors.inspecting.checksums import Progress as Progress
    from cordwood.tensors.inspecting.inspect import inspect as inspect
    from cordwood.tensors.inspecting.result import Inspection as Inspection
    from cordwood.tensors.inspecting.result import TensorRow as TensorRow
    from cordwood.tensors.inspecting.text import format_lines as format_lines
    from cordwood.tensors.inspecting.text import format_total as format_total
    from cordwood.tensors.io.memory_budget import Allotment as Allotment
    from cordwood.tensors.io.source import ByteSource as ByteSource
    from cordwood.tensors.io.source import open_source as open_source
    from cordwood.tensors.io.zip_reader import Archive as Archive
    from cordwood.tensors.io.zip_reader import is_zip as is_zip
    from cordwood.tensors.loading.load import load as load
    from cordwood.tensors.loading.peek import Peek as Peek
    from cordwood.tensors.loading.peek import peek as peek
    from cordwood.tensors.saving.background import Saving as Saving
    from cordwood.tensors.saving.save import save as save
    from cordwood.tensors.trimming.trim import Trimmed as Trimmed
    from cordwood.tensors.trimming.trim import trim as trim
    from cordwood.tensors.unpickle.tensor_info import TensorInfo as TensorInfo
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "Allotment": "io.memory_budget",
            "Archive": "io.zip_reader",
            "Inspection": "inspecting.result",
            "Peek": "loading.peek",
            "Progress": "inspecting.checksums",
            "ByteSource": "io.source",
            "Saving": "saving.background",
            "TensorInfo": "unpickle.tensor_info",
            "TensorRow": "inspecting.result",
            "Trimmed": "trimming.trim",
            "format_lines": "inspecting.text",
            "format_total": "inspecting.text",
            "inspect": "inspecting.inspect",
            "is_cord": "formats.cord_reader",
            "is_legacy": "formats.legacy_reader",
            "is_safetensors": "formats.safetensors_reader",
            "is_zip": "io.zip_reader",
            "load": "loading.load",
            "open_source": "io.source",
            "peek": "loading.peek",
            "pickle_module": "pickle_module",
            "save": "saving.save",
            "torch_dtype": "content.dtypes",
            "trim": "trimming.trim",
        },
    )
