"""Dataset formats as inputs of a packing job.

How a source is found and read:

1. ``find_source``: what the caller gave (a path, a ``module:name``, an object) -> a ``Source``. ``importing`` imports
   names.
2. ``registry``: a path -> the one kind that recognises its content (``files.sniff``); built-in kinds and plug-ins.
3. ``kinds``, in the parent process: a path -> a list of inputs (``files.listing``), each with a handle, a name, a size
   and a date.
4. ``kinds``, in a worker process: a handle -> a sample. The reader travels there by ``pickling``.

``base`` defines ``Source`` and ``Input``; docs/extending.md explains each member. Imports ``images``, ``tensors`` and
``common``; used by ``packing`` and ``doctor``.

Where to add things:

* A dataset format: ``kinds/<name>.py`` with a subclass of ``Source``; its class in ``BUILT_IN`` of ``registry.py``. No
  other kind may recognise the same path. Tests in tests/sources/kinds/test_<name>.py; its row in the table of sources
  in docs/pack.md.
* A format of another package: an entry point of the group ``cordwood.sources``, as in docs/extending.md.
"""

from cordwood.sources.base import MAX_PIXELS, Decode, Frames, Input, Source, SourceOptions
from cordwood.sources.find_source import find
from cordwood.sources.importing import MAIN, is_own_file, module_name, named
from cordwood.sources.kinds.dataset import DatasetSource, IterableSource, SamplesInMemory
from cordwood.sources.pickling import dumps

__all__ = [
    "MAIN",
    "MAX_PIXELS",
    "DatasetSource",
    "Decode",
    "Frames",
    "Input",
    "IterableSource",
    "SamplesInMemory",
    "Source",
    "SourceOptions",
    "dumps",
    "find",
    "is_own_file",
    "module_name",
    "named",
]
