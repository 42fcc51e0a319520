"""Compares the contents of a file with its own checksums, a little at a time."""

from collections.abc import Callable
from dataclasses import dataclass, field

from cordwood.errors import FormatError, Reason
from cordwood.tensors.formats.cord_reader import CordFile
from cordwood.tensors.formats.detect import TensorFile
from cordwood.tensors.formats.pt_reader import PtFile
from cordwood.tensors.io.memory_budget import Allotment
from cordwood.tensors.io.source import ByteSource
from cordwood.tensors.io.zip_reader import Archive, ZipEntry

Progress = Callable[[int, int], None]  # bytes done, bytes in all


@dataclass(slots=True)
class Checked:
    """What the checksums said."""

    words: str
    damaged: list[str] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)  # of the storages that are damaged


def check_file(file: TensorFile, outer: ByteSource, progress: Progress | None) -> Checked:
    """Read everything once; `outer` is the file itself, if `file` was found inside an archive."""
    if isinstance(file, CordFile):
        checked = _check_cord(file, progress)
    elif isinstance(file, PtFile):
        checked = check_archive(file.archive, f"{file.prefix}data/", progress)
    else:
        checked = Checked("the format has no checksums")
    if outer is not file.source:
        around = check_archive(Archive(outer), "", None)
        checked.damaged += [f"{outer.name}: {what}" for what in around.damaged]
    return checked


def check_archive(archive: Archive, before_keys: str, progress: Progress | None) -> Checked:
    """The CRCs of all entries, streamed. `before_keys` is what names of storages begin with."""
    entries = list(archive.entries.values())
    # torch can be told to write no checksums: then all of them are 0.
    without = not any(entry.crc for entry in entries if entry.size)
    checked = Checked("")
    total, done = sum(entry.stored for entry in entries), 0
    for entry in entries:
        what = _wrong(archive, entry, without)
        if what is not None:
            checked.damaged.append(what)
            if before_keys and entry.name.startswith(before_keys):
                checked.keys.add(entry.name.removeprefix(before_keys))
        done += entry.stored
        if progress is not None:
            progress(done, total)
    wrong = len(checked.damaged)
    if without and entries:
        checked.words = "the file was written without checksums"
    elif wrong:
        checked.words = f"{wrong} of {len(entries)} records damaged"
    else:
        checked.words = f"the checksums of all {len(entries)} records agree"
    return checked


def _wrong(archive: Archive, entry: ZipEntry, without: bool) -> str | None:
    try:
        if archive.check(entry) or without:
            return None
    except FormatError as error:
        return str(error)
    return f"{entry.name[:100]}: its bytes do not have the checksum {entry.crc:08x} that they were saved with"


def _check_cord(file: CordFile, progress: Progress | None) -> Checked:
    """Storages are decoded, one at a time, and thrown away."""
    checked = Checked("")
    keys = file.keys()
    total, done, skipped = sum(file.stored(key) for key in keys), 0, 0
    for key in keys:
        try:
            file.read([key], Allotment(None))
        except FormatError as error:
            if error.reason == Reason.LIMIT:
                skipped += 1  # larger than the memory of this machine, which is no damage
            else:
                checked.damaged.append(str(error))
                checked.keys.add(key)
        done += file.stored(key)
        if progress is not None:
            progress(done, total)
    good = len(keys) - len(checked.damaged) - skipped
    checked.words = f"{good} of {len(keys)} storages decoded and their checksums agree"
    if skipped:
        checked.words += f", {skipped} larger than memory not checked"
    return checked
