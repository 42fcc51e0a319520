"""What readers and writers of tensor files have in common: names and numbers of the formats, and access to storages."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch.storage import UntypedStorage

from cordwood.common.threads import map_in_threads
from cordwood.errors import FormatError

LEGACY_MAGIC_NUMBER: Final = 0x1950A86A20F9469CFC6C  # of torch's format before zip
LEGACY_VERSION: Final = 1001

CORD_MARK_NAME: Final = "cordwood-tensors"  # the first entry, by which a .cord file is known
CORD_MANIFEST_NAME: Final = "manifest.json"
CORD_PICKLE_NAME: Final = "data.pkl"
CORD_VERSION: Final = (1, 0)

Write = Callable[[Any], object]  # takes the next bytes of a file

_WORTH_THREADS = 4 << 20
_THREADS = 2


def in_threads(work: Callable[[Any], None], items: Sequence[Any], nbytes: int) -> None:
    """Do something for each item, several at a time where there is enough to do."""
    for _ in map_in_threads(work, items, _THREADS if nbytes >= _WORTH_THREADS else 1):
        pass


def slice_storage(whole: UntypedStorage, start: int, size: int) -> UntypedStorage:
    """A window into a mapped file, which keeps the mapping alive."""
    part = whole[start : start + size]
    if not isinstance(part, torch.UntypedStorage) or part.nbytes() != size:
        raise FormatError(f"{size} bytes at {start}, but the file has {whole.nbytes()}; it was cut short meanwhile")
    return part
