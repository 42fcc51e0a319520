"""The content of a tensor file before it is written: the pickle, and the reachable bytes of each storage.

Both `save` (from objects) and `trim` (from another file) make a `Parcel`; the writers of `.pt` and `.cord` files take
one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from cordwood.tensors.layout.reachable import StorageLayout, View, ViewGroup, fill

Bytes = npt.NDArray[np.uint8]


class Scratch:
    """Memory for one storage at a time, used again: fresh memory costs more than the copying."""

    def __init__(self) -> None:
        self._memory: Bytes = np.empty(0, np.uint8)

    def take(self, nbytes: int) -> Bytes:
        """Room for `nbytes`; what was taken before is no longer valid."""
        if len(self._memory) < nbytes:
            self._memory = np.empty(0, np.uint8)  # the old memory goes before the new one comes
            self._memory = np.empty(nbytes, np.uint8)
        return self._memory[:nbytes]


class PackedStorage(NamedTuple):
    """One storage as it will stand in the file."""

    key: str
    layout: StorageLayout
    views: Sequence[View]
    dtypes: Sequence[str]  # of the views, in names of the codecs
    read: Callable[[int, int], Bytes]  # (offset, length) of the bytes it is made from
    location: str = "cpu"

    @property
    def nbytes(self) -> int:
        """Its size in the file, before compression."""
        return self.layout.nbytes

    @property
    def is_verbatim(self) -> bool:
        """Whether nothing has to be gathered."""
        return all(group.is_verbatim for group in self.layout.groups)

    def group_bytes(self, group: ViewGroup, scratch: Scratch) -> Bytes:
        """The bytes of one group: those of the source where they are kept as they are, else gathered."""
        source = self.read(group.source, group.span)
        if group.is_verbatim:
            return source
        out = scratch.take(group.nbytes)
        fill(group, source, out)
        return out

    def pieces(self, scratch: Scratch) -> list[Bytes]:
        """All bytes in order, padding included; copied only where something must be gathered."""
        groups = self.layout.groups
        if len(groups) == 1 and groups[0].is_verbatim and groups[0].nbytes == self.layout.nbytes:  # as most are
            return [self.read(groups[0].source, groups[0].nbytes)]
        if self.is_verbatim:
            return list(self._verbatim())
        out = scratch.take(self.nbytes)
        self.gather(self.layout.groups, 0, out)
        return [out]

    def gather(self, groups: Sequence[ViewGroup], start: int, out: Bytes) -> None:
        """The bytes of neighbouring groups into `out`, which begins at `start` of the storage; zeros in between."""
        end = start
        for group in groups:
            out[end - start : group.offset - start] = 0
            end = group.offset + group.nbytes
            source = self.read(group.source, group.span)
            if group.is_verbatim:
                out[group.offset - start : end - start] = source
            else:
                fill(group, source, out[group.offset - start : end - start])
        out[end - start :] = 0

    def _verbatim(self) -> Iterator[Bytes]:
        """The groups, those that adjoin in the source as one piece, and zeros between them."""
        end = start = length = 0
        for group in self.layout.groups:
            if length and group.offset == end and group.source == start + length:
                length += group.nbytes
            else:
                if length:
                    yield self.read(start, length)
                if group.offset > end:
                    yield np.zeros(group.offset - end, np.uint8)
                start, length = group.source, group.nbytes
            end = group.offset + group.nbytes
        if length:
            yield self.read(start, length)
        if self.nbytes > end:
            yield np.zeros(self.nbytes - end, np.uint8)

    def snapshot(self) -> "PackedStorage":
        """The same storage over a copy of its reachable bytes."""
        copied = np.empty(self.nbytes, np.uint8)
        self.gather(self.layout.groups, 0, copied)
        groups = tuple(
            group._replace(source=group.offset, span=group.nbytes, copies=(), is_verbatim=True)
            for group in self.layout.groups
        )
        layout = self.layout._replace(groups=groups)
        return self._replace(layout=layout, read=lambda offset, length: copied[offset : offset + length])

    def hollow(self, zeros: Bytes) -> "PackedStorage":
        """A storage of the same size and no content, to see how large a file would be."""
        whole = ViewGroup(0, self.nbytes, 0, self.nbytes, (), (), True)
        layout = self.layout._replace(groups=(whole,) if self.nbytes else ())
        return self._replace(layout=layout, read=lambda offset, length: zeros[offset : offset + length])

    def group_array(self, group: ViewGroup) -> tuple[str, tuple[int, ...]]:
        """Dtype and shape in which a group is best compressed: those of a view that covers it, else plain items."""
        best: tuple[str, tuple[int, ...]] | None = None
        for index in group.views:
            view, placed = self.views[index], self.layout.placed[index]
            dims = sorted(
                ((s, n) for n, s in zip(view.shape, placed.strides, strict=True) if s and n > 1), reverse=True
            )
            dense = view.itemsize
            for stride, count in reversed(dims):
                if stride != dense:
                    break
                dense *= count
            else:
                if dense == group.nbytes:
                    shape = tuple(count for _, count in dims)
                    if best is None or len(shape) > len(best[1]):
                        best = self.dtypes[index], shape
        if best is not None:
            return best
        sizes = {self.views[index].itemsize: self.dtypes[index] for index in group.views}
        size = max(sizes, default=1)
        if group.nbytes % size:
            return "uint8", (group.nbytes,)
        return sizes.get(size, "uint8"), (group.nbytes // size,)


@dataclass(frozen=True, slots=True)
class Parcel:
    """Everything that goes into one file."""

    pickle: bytes
    storages: Sequence[PackedStorage]
    itemsizes: Mapping[str, int]  # in which the pickle counts a storage, by key
    tripwire: str | None = None  # key of a storage that is there to be refused (see `pt_writer`)
    byteorder: str = "little"
    prefix: str | None = None  # the archive's name inside; None: after the file
    extras: Mapping[str, bytes] = field(default_factory=dict)  # other records of an archive that is rewritten


class Content(Protocol):
    """What is to be written, with the pickle still open for the size of the tripwire."""

    @property
    def has_tripwire(self) -> bool:
        """Whether there was a place for one."""

    def parcel(self, trip_bytes: int = 0) -> Parcel:
        """The finished parcel."""
