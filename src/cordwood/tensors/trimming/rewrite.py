"""The content of an existing file, laid out anew: storages without waste, and the pickle with changed numbers.

Nothing of the pickle is run or understood beyond torch's own rebuild functions: their offset, stride and storage size
are changed in place, everything else stays as it is, byte for byte. So checkpoints of packages that are not installed
survive.
"""

import mmap
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from cordwood.errors import FormatError
from cordwood.tensors.content.dtypes import SUB_BYTE, codec_name, storage_dtypes, torch_dtype
from cordwood.tensors.content.file_content import Bytes, PackedStorage, Parcel
from cordwood.tensors.content.storage_memory import bytes_of
from cordwood.tensors.formats.legacy_reader import LegacyFile, word
from cordwood.tensors.formats.pt_reader import PtFile
from cordwood.tensors.io.memory_budget import Allotment
from cordwood.tensors.io.source import ByteSource
from cordwood.tensors.layout.reachable import StorageLayout, View, lay_out
from cordwood.tensors.saving.collect import TRIPWIRE
from cordwood.tensors.saving.pickle_codes import integer, integers, text
from cordwood.tensors.trimming.pickle_edits import Edits, span, without_frames
from cordwood.tensors.unpickle.describe import (
    Call,
    Description,
    Global,
    Persistent,
    StorageView,
    describe,
    nodes,
    sight,
)
from cordwood.tensors.unpickle.machine import Spanned
from cordwood.tensors.unpickle.references import find_references

_HOOKS_AT = {"_rebuild_tensor_v2": 5, "_rebuild_tensor_v3": 5, "_rebuild_qtensor": 6}
_REMADE = frozenset(("data.pkl", "byteorder", ".data/serialization_id", ".format_version", ".storage_alignment"))


@dataclass(slots=True)
class SeenStorage:
    """A storage of the file, and everything that refers to it."""

    key: str
    nbytes: int
    itemsizes: list[tuple[Persistent, int]] = field(default_factory=list)
    sights: list[tuple[StorageView, torch.dtype]] = field(default_factory=list)
    is_whole: bool = False


class Rewritten:
    """A file's content, ready to be written again."""

    def __init__(self, file: PtFile | LegacyFile, *, tripwire: bool = False) -> None:
        self.file = file
        self._description = _described(file)
        self._edits = Edits(self._description.machine)
        self._sighted: list[tuple[SeenStorage, int]] = []  # every view, in the order of the pickle
        self._trip: StorageView | None = None
        self._inflated: tuple[str, Bytes] | None = None
        self.seen = self._look()
        self._keys = self._new_keys()
        can_lay = TRIPWIRE not in self._keys.values() and self._hooks_end() is not None
        self._lay_tripwire = tripwire and self._trip is None and can_lay
        self.has_tripwire = tripwire and (self._trip is not None or can_lay)
        self.storages = [self._pack(storage) for storage in self.seen.values()]

    def _new_keys(self) -> dict[str, str]:
        """The old format counted storages by their addresses; in an archive, long names cost more than once."""
        keys = {key: str(number) for number, key in enumerate(self.seen)}
        if isinstance(self.file, LegacyFile):
            identities = [persistent.identity for storage in self.seen.values() for persistent, _ in storage.itemsizes]
            if all(isinstance(one, Spanned) and self._edits.can_replace(*span(one.starts, 2)) for one in identities):
                return keys
        return {key: key for key in self.seen}

    def _look(self) -> dict[str, SeenStorage]:
        """Find every storage, who sees it, and whether it must be kept whole."""
        seen: dict[str, SeenStorage] = {}
        kinds = storage_dtypes()
        for persistent in self._description.hooks.persistents:
            identity = persistent.identity
            if word(identity[0] if identity else None) == "module":
                continue
            kind, key = (identity[1], str(word(identity[2]))) if len(identity) in (5, 6) else (None, "")
            if not isinstance(kind, Global) or kind.name not in kinds or word(identity[0]) != "storage":
                raise FormatError(f"{self.file.where}: a persistent id that is not a storage's")
            storage = seen.get(key)
            if storage is None:
                storage = seen[key] = SeenStorage(key, self.file.nbytes(key))
            itemsize = kinds[kind.name].itemsize
            if type(identity[4]) is not int or identity[4] * itemsize != storage.nbytes:
                raise FormatError(f"{self.file.where}: storage {key[:40]} has another size than the pickle says")
            storage.itemsizes.append((persistent, itemsize))
            if not isinstance(identity, Spanned) or not self._edits.is_integer(*span(identity.starts, 4)):
                storage.is_whole = True
        references = find_references(self._description)
        for storage in seen.values():
            storage.is_whole |= any(id(persistent) in references.otherwise for persistent, _ in storage.itemsizes)
        for sighted in references.views:
            if word(sighted.storage.identity[0]) == "storage":
                self._note(seen[str(word(sighted.storage.identity[2]))], sighted, kinds)
        if TRIPWIRE in seen and self._is_tripwire(seen[TRIPWIRE]):
            ((self._trip, _),) = seen.pop(TRIPWIRE).sights
            self._sighted = [(storage, index) for storage, index in self._sighted if storage.key != TRIPWIRE]
        return seen

    def _note(self, storage: SeenStorage, sighted: StorageView, kinds: dict[str, torch.dtype]) -> None:
        """Take note of a tensor; if its bytes or its numbers are not understood, its storage stays whole."""
        dtype = self._dtype(sighted, kinds)
        if dtype is None or dtype in SUB_BYTE or not self._edits.is_integer(*span(sighted.arguments.starts, 1)):
            storage.is_whole = True
        self._sighted.append((storage, len(storage.sights)))
        storage.sights.append((sighted, dtype or torch.uint8))

    def _dtype(self, sighted: StorageView, kinds: dict[str, torch.dtype]) -> torch.dtype | None:
        if sighted.function.endswith("_v3"):
            named = sighted.arguments[6] if len(sighted.arguments) > 6 else None
            return torch_dtype(named.name) if isinstance(named, Global) and named.module == "torch" else None
        return kinds[sighted.storage.identity[1].name]

    def _is_tripwire(self, storage: SeenStorage) -> bool:
        """Whether it is one of ours: seen once, from end to end, by a tensor that hangs on a dict of hooks."""
        if storage.is_whole or len(storage.sights) != 1:
            return False
        ((sighted, dtype),) = storage.sights
        spread = sighted.arguments[1] == 0 and sighted.arguments[2] == (storage.nbytes,) and dtype == torch.uint8
        if not spread or not self._edits.can_replace(*span(sighted.arguments.starts, 2)):
            return False
        hanging = (
            state.get(TRIPWIRE)
            for node in nodes(self._description.root)
            if isinstance(node, Call) and node.name == "collections.OrderedDict"
            for state in node.states
            if isinstance(state, dict)
        )
        return any(isinstance(one, Call) and one.arguments is sighted.arguments for one in hanging)

    def _pack(self, storage: SeenStorage) -> PackedStorage:
        views = []
        for sighted, dtype in storage.sights:
            _, offset, shape, strides = sighted.arguments[:4]
            if offset < 0 or min((*shape, *strides), default=0) < 0:
                raise FormatError(f"{self.file.where}: a tensor of size {tuple(shape)}, stride {tuple(strides)}")
            size = dtype.itemsize
            fixed = not self._edits.can_replace(*span(sighted.arguments.starts, 3))
            views.append(View(offset * size, size, tuple(shape), tuple(s * size for s in strides), fixed))
        storage.is_whole |= not all(_fits(view, storage.nbytes) for view in views)
        layout = lay_out([] if storage.is_whole else views, storage.nbytes, whole=storage.is_whole)
        if any(layout.nbytes % itemsize for _, itemsize in storage.itemsizes):
            storage.is_whole = True
            layout = lay_out([], storage.nbytes, whole=True)
        dtypes = [codec_name(dtype) for _, dtype in storage.sights]
        if storage.is_whole:
            views = []
        return PackedStorage(self._keys[storage.key], layout, views, dtypes, self._reader(storage, layout))

    def _reader(self, storage: SeenStorage, layout: StorageLayout) -> Callable[[int, int], Bytes]:
        """Bytes of a record: only those asked for, unless it is deflated."""
        file, key = self.file, storage.key
        sparse = {(group.source, group.span) for group in layout.groups if group.nbytes * 4 < group.span}

        def read(offset: int, length: int) -> Bytes:
            if file.coding(key) == "stored":
                start, _ = file.place(key)
                return stored_bytes(file.source, start + offset, length, sparse=(offset, length) in sparse)
            if self._inflated is None or self._inflated[0] != key:
                self._inflated = None  # one at a time: the old memory goes before the new one comes
                self._inflated = key, bytes_of(file.read([key], Allotment(None))[key])
            return self._inflated[1][offset : offset + length]

        return read

    def places(self) -> list[tuple[str, tuple[int, ...], int, tuple[int, ...]]]:
        """Storage, shape, offset and strides of every tensor over a storage, as they must stand in the new pickle."""
        packed = dict(zip(self.seen, self.storages, strict=True))
        found = []
        for storage, index in self._sighted:
            _, offset, shape, strides = storage.sights[index][0].arguments[:4]
            new = packed[storage.key]
            if new.views:
                itemsize, place = new.views[index].itemsize, new.layout.placed[index]
                offset, strides = place.offset // itemsize, (stride // itemsize for stride in place.strides)
            found.append((new.key, tuple(shape), offset, tuple(strides)))
        return found

    def _hooks_end(self) -> int | None:
        """Where the first tensor's empty dict of hooks was written to the end."""
        ends = []
        for node in nodes(self._description.root):
            sighted = sight(node)
            at = _HOOKS_AT.get(sighted.function.rpartition(".")[2]) if sighted is not None else None
            if sighted is None or at is None or len(sighted.arguments) <= at:
                continue
            hooks = sighted.arguments[at]
            if isinstance(hooks, Call) and hooks.name == "collections.OrderedDict" and not hooks.pairs:
                ends.append(sighted.arguments.starts[at + 1])
        return min(ends, default=None)

    def parcel(self, trip_bytes: int = 0) -> Parcel:
        """The finished parcel."""
        edits = Edits(self._description.machine)
        for storage, packed in zip(self.seen.values(), self.storages, strict=True):
            self._edit_storage(edits, storage, packed)
        if isinstance(self.file, LegacyFile):
            self._edit_legacy(edits)
        storages = self.storages
        if self._trip is not None:
            identity = self._trip.storage.identity
            edits.replace(*span(identity.starts, 4), integer(trip_bytes))  # type: ignore[attr-defined]
            edits.replace(*span(self._trip.arguments.starts, 2), integers((trip_bytes,)))
            if not self.has_tripwire:
                storages = [*storages, PackedStorage(TRIPWIRE, StorageLayout(0, (), ()), [], [], _nothing)]
        if self._lay_tripwire:
            end = self._hooks_end()
            edits.insert(end if end is not None else 0, _tripwire_code(trip_bytes))
        itemsizes = {self._keys[storage.key]: storage.itemsizes[0][1] for storage in self.seen.values()}
        tripwire = TRIPWIRE if self.has_tripwire else None
        prefix: str | None = None
        extras: dict[str, bytes] = {}
        if isinstance(self.file, PtFile):
            prefix, extras = self.file.prefix.rstrip("/"), self._extras(self.file)
        return Parcel(edits.apply(), storages, itemsizes, tripwire, self.file.byteorder, prefix, extras)

    def _edit_storage(self, edits: Edits, storage: SeenStorage, packed: PackedStorage) -> None:
        if packed.nbytes != storage.nbytes:
            for persistent, itemsize in storage.itemsizes:
                starts = persistent.identity.starts  # type: ignore[attr-defined]
                edits.replace(*span(starts, 4), integer(packed.nbytes // itemsize))
        for (sighted, _), view, placed in zip(storage.sights, packed.views, packed.layout.placed, strict=False):
            starts = sighted.arguments.starts
            if placed.offset != view.offset:
                edits.replace(*span(starts, 1), integer(placed.offset // view.itemsize))
            if placed.strides != view.strides:
                edits.replace(*span(starts, 3), integers([stride // view.itemsize for stride in placed.strides]))

    def _edit_legacy(self, edits: Edits) -> None:
        """What the zip format writes in another way."""
        for persistent in self._description.hooks.persistents:
            identity = persistent.identity
            if word(identity[0]) == "module":
                # A class with its source text. The text stays, and the class is taken out of the tuple.
                edits.insert(persistent.begin, b"c_operator\ngetitem\n")
                edits.replace(persistent.at, persistent.at + 1, b"K\x01\x86R")
            elif isinstance(identity, Spanned) and len(identity) == 6:
                start, end = span(identity.starts, 5)
                if identity[5] is not None or end != start + 1:
                    raise FormatError(
                        f"{self.file.where}: a storage that lies over a part of another one, as torch wrote them in "
                        "2016; load the file and save it again instead"
                    )
                edits.delete(start, end)
                key = str(word(identity[2]))
                if self._keys[key] != key:
                    edits.replace(*span(identity.starts, 2), text(self._keys[key]))

    @staticmethod
    def _extras(file: PtFile) -> dict[str, bytes]:
        """Records that are neither torch's usual ones nor storages."""
        extras: dict[str, bytes] = {}
        allotment = Allotment(None)
        for name, entry in file.archive.entries.items():
            short = name.removeprefix(file.prefix)
            if short not in _REMADE and not short.startswith("data/") and not name.endswith("/"):
                allotment.take(entry.size, f"{file.source.name}: {entry.name}")
                extras[short] = file.archive.read(entry, entry.size)
        return extras


def _described(file: PtFile | LegacyFile) -> Description:
    found = describe(file.pickle, file.where, file.start)
    return describe(without_frames(found.machine), file.where) if found.machine.frames else found


def _nothing(offset: int, length: int) -> Bytes:
    return np.empty(0, np.uint8)


def _fits(view: View, nbytes: int) -> bool:
    if not all(view.shape):
        return True
    last = sum((count - 1) * stride for count, stride in zip(view.shape, view.strides, strict=True))
    return view.offset + last + view.itemsize <= nbytes


def stored_bytes(source: ByteSource, start: int, length: int, *, sparse: bool) -> Bytes:
    """Bytes of a file, in a mapping of it.

    The system reads ahead of, and behind, what is looked at in a mapping. It is told not to, and to fetch just this
    stretch; of one of which little is wanted, nothing but the pages that are looked at.
    """
    mapped = source.map()
    if length and isinstance(mapped.obj, mmap.mmap) and hasattr(mmap, "MADV_RANDOM"):
        begin = (source.base + start) // mmap.PAGESIZE * mmap.PAGESIZE
        stretch = (begin, source.base + start + length - begin)
        mapped.obj.madvise(mmap.MADV_RANDOM, *stretch)
        if not sparse:
            mapped.obj.madvise(mmap.MADV_WILLNEED, *stretch)
    return np.frombuffer(mapped, np.uint8, length, start)


def _tripwire_code(nbytes: int) -> bytes:
    """The state of a dict of hooks: a tensor over the tripwire's storage."""
    identity = text("storage") + b"ctorch\nByteStorage\n" + text(TRIPWIRE) + text("cpu") + integer(nbytes)
    arguments = b"(" + identity + b"tQ" + integer(0) + integers((nbytes,)) + integers((1,)) + b"\x89"
    hooks = b"ccollections\nOrderedDict\n)R"
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + arguments + hooks + b"tR"
    return b"}" + text("tripwire") + tensor + b"sb"
