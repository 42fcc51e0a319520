"""The memory of storages: which storages are the same memory, which views it has, and its bytes.

Two storage objects may lie over the same bytes (``torch.from_numpy`` twice, DLPack, slices of a storage). They are one
`Arena`, so that what shares memory now shares it after loading, too.
"""

import bisect
from collections.abc import Iterator

import numpy as np
import torch
from torch.storage import UntypedStorage

from cordwood.errors import UsageError
from cordwood.tensors.content.dtypes import SUB_BYTE, codec_name
from cordwood.tensors.content.file_content import Bytes
from cordwood.tensors.content.storage_memory import bytes_at
from cordwood.tensors.layout.reachable import View


class Arena:
    """One stretch of memory, seen through one or more storages."""

    __slots__ = (
        "base",
        "dtypes",
        "forms",
        "is_covered",
        "is_mixed",
        "is_quantized",
        "keep_whole",
        "key",
        "location",
        "nbytes",
        "storages",
        "views",
        "whole_as",
    )

    def __init__(self, key: str, location: str, base: int, nbytes: int, mixed: bool) -> None:
        self.key = key
        self.location = location
        self.base = base
        self.nbytes = nbytes
        self.is_mixed = mixed  # written as an untyped storage, because it is seen under several dtypes
        self.storages: list[UntypedStorage] = []
        self.forms: tuple[torch.dtype, ...] = ()  # dtypes of its views
        self.whole_as: tuple[torch.dtype, ...] = ()  # dtypes under which the storage itself is saved
        self.views: list[View] = []
        self.dtypes: list[str] = []  # of the views, in names of the codecs
        self.keep_whole = False
        self.is_covered = False
        self.is_quantized = False

    @property
    def is_whole(self) -> bool:
        """No byte may be left out."""
        return self.keep_whole or self.is_covered or bool(self.whole_as)

    def offset_of(self, storage: UntypedStorage) -> int:
        """Where the storage begins in this arena."""
        return storage.data_ptr() - self.base if self.base else 0

    def sees(self, view: View, dtype: torch.dtype, *, covers: bool, fits: bool, quantized: bool) -> None:
        """Take note of a tensor."""
        # Dtypes that came after typed storages are written over an untyped one anyway, which counts as bytes.
        form = dtype if dtype in torch.storage._dtype_to_storage_type_map() else torch.uint8
        self.views.append(view)
        self.dtypes.append(codec_name(dtype))
        if form not in self.forms:
            self.forms += (form,)
        self.is_covered |= covers
        self.is_quantized |= quantized
        # A tensor larger than its storage (FSDP frees storages) is kept as it is, as torch.save does.
        self.keep_whole |= not fits or dtype in SUB_BYTE

    def read(self, offset: int, length: int) -> Bytes:
        """Bytes of the memory: in place on the CPU, a copy from any other device."""
        if not length:
            return np.empty(0, np.uint8)
        if not self.base:
            raise UsageError(f"a storage of {self.nbytes} bytes on {self.location} has no memory to save")
        if self.storages[0].device.type == "cpu":
            return bytes_at(self.base + offset, length, self.storages)
        out = np.empty(length, np.uint8)
        for storage in self.storages:
            start = self.offset_of(storage)
            first, last = max(start, offset), min(start + storage.nbytes(), offset + length)
            if first < last:
                flat = torch.empty(0, dtype=torch.uint8, device=storage.device)
                flat.set_(storage, first - start, (last - first,), (1,))
                out[first - offset : last - offset] = flat.cpu().numpy()
        return out


class Arenas:
    """Every arena of one object, in order of appearance."""

    def __init__(self, spans: list[tuple[str, int, int, bool]] | None = None) -> None:
        self._spans = sorted(spans or [])  # (location, start, end, mixed): known from an earlier look
        self._by_storage: dict[int, Arena] = {}
        self._by_span: dict[tuple[str, int] | None, Arena] = {}
        self._all: list[Arena] = []

    def __iter__(self) -> Iterator[Arena]:
        return iter(self._all)

    def of(self, storage: UntypedStorage) -> Arena:
        """The arena of a storage, made at its first appearance."""
        found = self._by_storage.get(storage._cdata)
        if found is None:
            found = self._by_storage[storage._cdata] = self._place(storage)
            # Kept, so that neither its memory nor its identity is given to something else meanwhile.
            found.storages.append(storage)
        return found

    def _place(self, storage: UntypedStorage) -> Arena:
        location = "cpu" if storage.device.type == "cpu" else torch.serialization.location_tag(storage)
        start, nbytes, mixed = storage.data_ptr(), storage.nbytes(), False
        span: tuple[str, int] | None = None
        if start and nbytes and self._spans:
            index = bisect.bisect_right(self._spans, (location, start, 1 << 64, True)) - 1
            if index >= 0:
                at, first, end, known = self._spans[index]
                if at == location and start < end and start + nbytes <= end:
                    start, nbytes, mixed, span = first, end - first, known, (location, first)
        if span in self._by_span:
            return self._by_span[span]
        made = Arena(str(len(self._all)), location, start, nbytes, mixed)
        self._all.append(made)
        if span is not None:
            self._by_span[span] = made
        return made

    def settle(self) -> tuple[bool, "Arenas"]:
        """Whether everything was known beforehand, and if not, arenas for another look that know it."""
        spans: list[tuple[str, int, int, bool]] = []
        settled = True
        forms: set[torch.dtype] = set()
        for arena in sorted((a for a in self._all if a.base and a.nbytes), key=lambda a: (a.location, a.base)):
            self._check(arena)
            last = spans[-1] if spans else None
            if last is not None and last[0] == arena.location and arena.base < last[2]:
                settled = False
                forms.update(arena.forms, arena.whole_as)
                mixed = last[3] or arena.is_mixed or len(forms) > 1
                spans[-1] = (last[0], last[1], max(last[2], arena.base + arena.nbytes), mixed)
                continue
            forms = {*arena.forms, *arena.whole_as}
            mixed = arena.is_mixed or len(forms) > 1
            settled &= mixed == arena.is_mixed
            spans.append((arena.location, arena.base, arena.base + arena.nbytes, mixed))
        # Spans that turned out to be one storage under one dtype need no memory of them.
        return settled, Arenas(spans)

    @staticmethod
    def _check(arena: Arena) -> None:
        if arena.whole_as and len({(s.data_ptr(), s.nbytes()) for s in arena.storages}) > 1:
            raise UsageError(
                "a storage is saved by itself while another storage lies over a part of its memory; "
                "save a tensor over it instead"
            )
        if not arena.is_mixed:
            return
        if arena.is_quantized:
            raise UsageError(
                "a quantized tensor shares its memory with a tensor of another dtype, which no file of torch's can "
                "hold; clone() one of them"
            )
        if set(arena.whole_as) - {torch.uint8}:
            raise UsageError(
                f"a storage is saved by itself as {sorted(map(str, arena.whole_as))[0]} while tensors see its memory "
                "under another dtype, which no file of torch's can hold; save a tensor over it instead"
            )
