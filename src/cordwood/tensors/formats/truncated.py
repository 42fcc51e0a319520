"""Opens a file that lost its end, as far as it goes.

::

    opened = open_what_is_left(source, Allotment(None))
    opened.file.keys()   # of the storages that are there
    opened.lost          # what is missing, in words
"""

from dataclasses import dataclass
from typing import Any

import torch

from cordwood.errors import FormatError, Reason
from cordwood.tensors.formats.cord_reader import CordFile
from cordwood.tensors.formats.detect import TensorFile, open_file
from cordwood.tensors.formats.legacy_reader import LegacyFile, is_key, is_legacy
from cordwood.tensors.formats.pt_reader import PtFile
from cordwood.tensors.formats.safetensors_reader import SafetensorsFile, TensorEntry, is_safetensors, named_dtype
from cordwood.tensors.io.memory_budget import Allotment
from cordwood.tensors.io.source import ByteSource
from cordwood.tensors.unpickle.describe import Description

_FIRST_BYTES = 64
_MOST_DIMENSIONS = 64


@dataclass(slots=True)
class Opened:
    """A file, and what of it is missing."""

    file: TensorFile
    lost: list[str]


def open_what_is_left(source: ByteSource, allotment: Allotment) -> Opened:
    """The file behind a source; a FormatError only if nothing can be made of it."""
    taken = allotment.taken
    try:
        file = open_file(source, allotment, recover=True)
    except FormatError as error:
        if error.reason == Reason.LIMIT:
            raise
        allotment.taken = taken
        first = bytes(source.read(0, min(source.size, _FIRST_BYTES)))
        if is_legacy(first):
            return Opened(CutLegacyFile(source, allotment), [str(error)])
        if is_safetensors(first, source.size):
            cut = CutSafetensorsFile(source, allotment)
            return Opened(cut, list(cut.lost.values()) or [str(error)])
        raise
    lost = []
    if isinstance(file, PtFile | CordFile) and file.archive.is_recovered:
        lost.append(
            f"{file.source.name}: the archive has lost its directory, which stands at the end; "
            f"{len(file.archive.entries)} records were found without it"
        )
    return Opened(file, lost)


class CutLegacyFile(LegacyFile):
    """A file of the old format whose last storages are missing."""

    def _lay_out(self, keys: Description) -> dict[str, tuple[int, int]]:
        itemsizes = self._itemsizes()
        places: dict[str, tuple[int, int]] = {}
        position = keys.machine.position
        for given in keys.root if isinstance(keys.root, list) else []:
            if not is_key(given):
                break
            key = str(given)
            itemsize, numel = itemsizes.get(key, (0, -1))
            if key in places or numel < 0 or position + 8 + itemsize * numel > self.source.size:
                break
            if int.from_bytes(bytes(self.source.read(position, 8)), "little", signed=True) != numel:
                break
            places[key] = (position + 8, itemsize * numel)
            position += 8 + itemsize * numel
        self.end = position
        return places


class CutSafetensorsFile(SafetensorsFile):
    """A `.safetensors` file of which some tensors are beyond the end, or not as they should be."""

    def __init__(self, source: ByteSource, allotment: Allotment) -> None:
        self.lost: dict[str, str] = {}
        self.outlines: dict[str, tuple[torch.dtype | None, tuple[int, ...] | None]] = {}
        super().__init__(source, allotment)
        self.rows = {name: row for name, row in self.rows.items() if name not in self.lost}

    def _row(self, name: str, given: Any, data: int) -> TensorEntry:
        try:
            return super()._row(name, given, data)
        except FormatError as error:
            self.lost[name] = str(error)
            self.outlines[name] = _outline(given)
            return TensorEntry(name, torch.uint8, (0,), data, 0)

    def _check_complete(self, data: int) -> None:
        """It is not: what is there is read all the same."""


def _outline(given: Any) -> tuple[torch.dtype | None, tuple[int, ...] | None]:
    """Dtype and shape, as far as they can be."""
    if not isinstance(given, dict):
        return None, None
    word, shape = given.get("dtype"), given.get("shape")
    dtype = named_dtype(word)
    if not isinstance(shape, list) or len(shape) > _MOST_DIMENSIONS:
        return dtype, None
    counts = all(type(count) is int and 0 <= count < 1 << 60 for count in shape)
    return dtype, tuple(shape) if counts else None
