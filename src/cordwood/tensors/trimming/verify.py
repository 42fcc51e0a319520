"""Compares a file that was just written with the one it was made from, tensor by tensor."""

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from cordwood.errors import FormatError, StorageError
from cordwood.tensors.content.dtypes import storage_dtypes
from cordwood.tensors.content.file_content import Bytes, PackedStorage, Scratch
from cordwood.tensors.content.storage_memory import bytes_of
from cordwood.tensors.formats.cord_reader import CordFile
from cordwood.tensors.formats.detect import PickledFile, open_file
from cordwood.tensors.formats.legacy_reader import word
from cordwood.tensors.formats.pt_reader import PtFile
from cordwood.tensors.formats.safetensors_reader import SafetensorsFile
from cordwood.tensors.io.memory_budget import Allotment
from cordwood.tensors.io.source import open_source
from cordwood.tensors.layout.reachable import View
from cordwood.tensors.trimming.rewrite import Rewritten
from cordwood.tensors.unpickle.describe import describe, nodes, sight

_AT_ONCE = 1 << 24


def verify(written: Rewritten, path: Path | None) -> None:
    """Raise StorageError if the file does not hold what it should."""
    if path is None:
        return
    try:
        with open_source(path) as source:
            file = open_file(source, Allotment(None))
            if isinstance(file, SafetensorsFile):
                raise StorageError(f"{path} is not the file that was written")
            _compare(written, file)
    except FormatError as error:
        raise StorageError(f"what was written cannot be read back, and nothing was replaced: {error}") from error


def _compare(written: Rewritten, file: PickledFile) -> None:
    for packed in written.storages:
        new = _bytes(file, packed.key)
        if len(new) != packed.nbytes or not _same(packed, new):
            raise StorageError(
                f"storage {packed.key} was written to {file.source.name} and reads back differently; the disk or the "
                "memory of this machine is at fault, and nothing was replaced"
            )
    _same_tensors(written, file)


def _bytes(file: PickledFile, key: str) -> Bytes:
    if isinstance(file, CordFile) or file.coding(key) != "stored":
        return bytes_of(file.read([key], Allotment(None))[key])
    start, size = file.place(key)
    if isinstance(file, PtFile) and not file.archive.check(file.entry(key)):
        raise StorageError(f"storage {key} was written and reads back with another checksum; nothing was replaced")
    return np.frombuffer(file.source.map(), np.uint8, size, start)


def _same(packed: PackedStorage, new: Bytes) -> bool:
    if not packed.views:
        return all(
            _equal(packed.read(group.source, group.span), new[group.offset : group.offset + group.nbytes])
            for group in packed.layout.groups
        )
    seen = set()
    for group in packed.layout.groups:
        source = packed.read(group.source, group.span)
        if not group.is_verbatim and any(_repeats(packed.views[index], group.nbytes) for index in group.views):
            if not _equal(packed.group_bytes(group, Scratch()), new[group.offset : group.offset + group.nbytes]):
                return False
            continue
        for index in group.views:
            view, placed = packed.views[index], packed.layout.placed[index]
            moved = placed.strides != view.strides or placed.offset - group.offset != view.offset - group.source
            if (view, placed) in seen or (group.is_verbatim and not moved):
                continue
            seen.add((view, placed))
            old = _through(source, view.offset - group.source, view, view.strides)
            if not _equal(old, _through(new, placed.offset, view, placed.strides)):
                return False
        if group.is_verbatim and not _equal(source, new[group.offset : group.offset + group.nbytes]):
            return False
    return True


def _repeats(view: View, nbytes: int) -> bool:
    """Whether a view sees bytes again and again, as windows that overlap do: far more than there are."""
    return view.itemsize * prod(n for n, s in zip(view.shape, view.strides, strict=True) if s) > 4 * nbytes


def _through(data: Bytes, offset: int, view: View, strides: tuple[int, ...]) -> Any:
    """The bytes that a view sees, repeated ones once."""
    kept = [(n, s) for n, s, old in zip(view.shape, strides, view.strides, strict=True) if n > 1 and old]
    shape = (*(n for n, _ in kept), view.itemsize)
    return as_strided(data[offset:], shape, (*(s for _, s in kept), 1), writeable=False)


def _equal(old: Any, new: Any) -> bool:
    """In pieces, so that comparing needs little memory."""
    if old.shape != new.shape:
        return False
    if old.size <= _AT_ONCE or not old.ndim:
        return bool(np.array_equal(old, new))
    if old.ndim == 1:
        return all(np.array_equal(old[i : i + _AT_ONCE], new[i : i + _AT_ONCE]) for i in range(0, len(old), _AT_ONCE))
    step = max(_AT_ONCE * len(old) // old.size, 1)
    if step == 1 and old[0].size > _AT_ONCE:
        return all(_equal(old[i], new[i]) for i in range(len(old)))
    return all(np.array_equal(old[i : i + step], new[i : i + step]) for i in range(0, len(old), step))


def _same_tensors(written: Rewritten, file: PickledFile) -> None:
    """Every tensor in its place, and every storage of the size that the pickle says."""
    description = describe(file.pickle, file.where, file.start)
    keys = {packed.key for packed in written.storages}  # of all but the tripwire
    found = []
    for node in nodes(description.root):
        sighted = sight(node)
        if sighted is not None and (key := str(word(sighted.storage.identity[2]))) in keys:
            _, offset, shape, strides = sighted.arguments[:4]
            found.append((key, tuple(shape), offset, tuple(strides)))
    itemsizes = {name: dtype.itemsize for name, dtype in storage_dtypes().items()}
    sized = all(
        identity[4] * itemsizes[identity[1].name] == file.nbytes(str(word(identity[2])))
        for identity in (persistent.identity for persistent in description.hooks.persistents)
        if word(identity[0]) == "storage"
    )
    if not sized or found != written.places():
        raise StorageError(f"the pickle in {file.source.name} reads back differently; nothing was replaced")
