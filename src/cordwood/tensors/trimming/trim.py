"""``cw.trim``: rewrites a checkpoint without the bytes that no tensor reaches."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from cordwood.common.arguments import checks_keywords
from cordwood.common.html import Printed, bars, plain, together
from cordwood.common.tables import folded
from cordwood.common.text import change, human, printable
from cordwood.errors import FormatError, Reason, UsageError
from cordwood.tensors.content.file_content import PackedStorage, Parcel
from cordwood.tensors.formats.cord_reader import CordFile
from cordwood.tensors.formats.detect import open_file
from cordwood.tensors.formats.legacy_reader import LegacyFile
from cordwood.tensors.formats.pt_reader import PtFile
from cordwood.tensors.formats.pt_writer import write_pt
from cordwood.tensors.formats.safetensors_reader import SafetensorsFile
from cordwood.tensors.formats.suffixes import refusal, suffix_of
from cordwood.tensors.io.memory_budget import Allotment
from cordwood.tensors.io.source import ByteSource, open_source
from cordwood.tensors.io.zip_reader import STORED
from cordwood.tensors.saving.collect import TRIPWIRE
from cordwood.tensors.saving.save import Target
from cordwood.tensors.trimming.rewrite import Rewritten, SeenStorage
from cordwood.tensors.trimming.verify import verify


@dataclass(slots=True, repr=False)
class Trimmed(Printed):
    """What trimming did.

    ::

        trimmed = cw.trim("x.pt", "small.pt")
        print(f"{trimmed.saved} bytes fewer")
    """

    source: str
    target: str | None
    before: int  # bytes of the file
    after: int
    damaged: list[str] = field(default_factory=list)  # records whose checksum is not that of their bytes
    notes: list[str] = field(default_factory=list)

    @property
    def saved(self) -> int:
        """Bytes that the file is smaller."""
        return self.before - self.after

    def __str__(self) -> str:
        names = self.source if self.target in (None, self.source) else f"{self.source} -> {self.target}"
        lines = [f"{names}: {change(self.before, self.after)}", *self.notes]
        return folded(map(printable, [*lines, *(f"damaged: {what}" for what in self.damaged)]))

    def _repr_html_(self) -> str:
        sizes = [("before", self.before, human(self.before)), ("after", self.after, human(self.after))]
        return together([plain(str(self)), bars(sizes)])


@checks_keywords("cw.trim")
def trim(
    src: Any, dst: Any = None, *, in_place: bool = False, compress: bool | None = None, dry_run: bool = False
) -> Trimmed:
    """Rewrite a checkpoint so that it holds what its tensors reach, and nothing else.

    ::

        cw.trim("x.pt", "small.pt")
        cw.trim("x.pt", "x.cord")                 # the same, through the codecs
        cw.trim("x.pt", in_place=True)
        print(cw.trim("x.pt", dry_run=True).after)

    Values, sharing and everything around the tensors stay as they are; nothing of the file is run, so checkpoints of
    packages that are not installed survive. Reads only the bytes it keeps. The new file is compared with the old one,
    tensor by tensor, before it takes its place. A `.pt` file stays compressed or not, unless `compress` says otherwise.
    ``dry_run=True`` writes nothing and tells the size of the `.pt` file that would be written.
    """
    target = _target(src, dst, in_place, compress, dry_run)
    with open_source(src) as source:
        file = _opened(source)
        result = Trimmed(source.name, str(target.path) if target is not None else None, source.size, 0)
        if target is None:
            prefix = Path(os.fsdecode(dst) if _is_path(dst) else source.name).stem
            result.after = _size(file, prefix or "archive", _is_deflated(file) if compress is None else compress)
            return result
        rewritten = Rewritten(file, tripwire=_compresses(file, target, compress))
        if in_place and not compress and _has_no_waste(rewritten) and _is_deflated(file) == target.compress:
            result.after = source.size
            result.notes.append("nothing to trim: the file would not become smaller")
            return result
        result.damaged = _damaged(rewritten)
        if in_place and result.damaged:
            raise FormatError(
                f"{source.name} is damaged and was left as it is, because its checksums are the proof of that: "
                f"{result.damaged[0]}; trim it to another file to keep what can be read",
                Reason.BLOCK_CHECKSUM,
            )
        unchecked = sum(packed.nbytes != seen.nbytes for packed, seen in _pairs(rewritten))
        if unchecked and isinstance(file, PtFile):
            result.notes.append(
                f"{unchecked} trimmed record{'s' * (unchecked > 1)}: checksums were not compared, "
                "since only what is kept was read"
            )
        with target.opened(durable=True) as out:
            target.write_to(out, rewritten)
            out.flush()
            verify(rewritten, out.aside)
            result.after = out.tell()
    return result


def _is_path(value: Any) -> bool:
    return isinstance(value, str | bytes | os.PathLike)


def _target(src: Any, dst: Any, in_place: bool, compress: bool | None, dry_run: bool) -> Target | None:
    if dry_run:
        return None
    if (dst is None) != in_place:
        raise UsageError("trim takes either a second path or in_place=True")
    if in_place and not _is_path(src):
        raise UsageError("in_place=True needs the path of the file")
    if dst is not None and not _is_path(dst):
        raise UsageError("trim writes to a path, because it reads what it wrote before it keeps it")
    target = Target(src if in_place else dst, _format(src, src if in_place else dst), compress)
    if not in_place and _is_path(src) and target.path is not None:
        old = Path(os.fsdecode(src))
        if target.path.exists() and old.exists() and target.path.samefile(old):
            raise UsageError(f"{old} would be written over itself; say in_place=True if that is meant")
    return target


def _format(src: Any, path: Any) -> str | None:
    """What is to be named to write under this path: a checkpoint may keep a suffix that nothing new is given."""
    name = Path(os.fsdecode(path)).name
    why = refusal(name)
    if why is None:
        return None
    if not _is_path(src) or suffix_of(os.fsdecode(src)) != suffix_of(name):
        raise UsageError(why)
    return "pt"


def _opened(source: ByteSource) -> PtFile | LegacyFile:
    file = open_file(source, Allotment(None))
    if isinstance(file, CordFile):
        raise UsageError(f"{source.name} is a .cord file, which holds nothing but what its tensors reach")
    if isinstance(file, SafetensorsFile):
        raise UsageError(f"{source.name} is a .safetensors file, whose tensors share nothing and leave nothing over")
    return file


def _compresses(file: PtFile | LegacyFile, target: Target, compress: bool | None) -> bool:
    """Whether records are to be deflated; what the caller leaves open stays as it is in the file."""
    if target.format == "cord" and file.byteorder != "little":
        raise UsageError(
            f"{file.source.name} was written on a big-endian machine, and the numbers of a .cord file are "
            "little-endian: trim to a .pt file, or load it and save it again"
        )
    if compress is None and target.format == "pt" and not target.zipped:
        target.compress = _is_deflated(file)
    return target.compress


def _is_deflated(file: PtFile | LegacyFile) -> bool:
    if isinstance(file, PtFile) and file.pickle_entry.method != STORED:
        return True
    return any(file.coding(key) != "stored" for key in file.keys())  # noqa: SIM118 - it is no dict


def _has_no_waste(rewritten: Rewritten) -> bool:
    file = rewritten.file
    if isinstance(file, LegacyFile) or not {*file.keys()} <= {*rewritten.seen, TRIPWIRE}:
        return False
    return all(packed.nbytes == seen.nbytes for packed, seen in _pairs(rewritten))


def _pairs(rewritten: Rewritten) -> Iterator[tuple[PackedStorage, SeenStorage]]:
    return zip(rewritten.storages, rewritten.seen.values(), strict=True)


def _size(file: PtFile | LegacyFile, prefix: str, compress: bool) -> int:
    """The size of the result; that of an uncompressed one is known without reading the tensors."""
    rewritten = Rewritten(file, tripwire=compress)
    position = 0

    def count(data: Any) -> None:
        nonlocal position
        position += memoryview(data).nbytes

    write_pt(rewritten if compress else _Hollow(rewritten), count, prefix, compress=compress)
    return position


class _Hollow:
    """A content whose storages have sizes and no bytes."""

    has_tripwire = False

    def __init__(self, rewritten: Rewritten) -> None:
        self._rewritten = rewritten

    def parcel(self, trip_bytes: int = 0) -> Parcel:
        parcel = self._rewritten.parcel(trip_bytes)
        zeros = np.zeros(max((storage.nbytes for storage in parcel.storages), default=0), np.uint8)
        return replace(parcel, storages=[storage.hollow(zeros) for storage in parcel.storages])


def _damaged(rewritten: Rewritten) -> list[str]:
    """Records whose checksum is wrong, of those that are kept whole; of the others not all bytes are read."""
    file = rewritten.file
    if isinstance(file, LegacyFile):
        return []
    found = []
    for packed, seen in _pairs(rewritten):
        entry = file.entry(packed.key)
        if packed.nbytes == seen.nbytes and entry.crc and not file.archive.check(entry):
            found.append(f"{entry.name}: its bytes are not those that its checksum {entry.crc:08x} was made of")
    return found
