"""Detects the format of a file by its content, and opens it."""

from cordwood.errors import FormatError
from cordwood.tensors.formats.cord_reader import CordFile, is_cord
from cordwood.tensors.formats.legacy_reader import LegacyFile, is_legacy
from cordwood.tensors.formats.pt_reader import PtFile
from cordwood.tensors.formats.safetensors_reader import SafetensorsFile, is_safetensors
from cordwood.tensors.io.memory_budget import Allotment
from cordwood.tensors.io.source import ByteSource, open_source
from cordwood.tensors.io.zip_reader import STORED, Archive, ZipEntry, is_zip

PickledFile = PtFile | LegacyFile | CordFile
TensorFile = PickledFile | SafetensorsFile

_FIRST_BYTES = 64


def open_file(source: ByteSource, allotment: Allotment, *, recover: bool = False) -> TensorFile:
    """The file behind a source.

    With `recover`, an archive that lost its directory (its end was cut off) is read as far as it goes.
    """
    first = bytes(source.read(0, min(source.size, _FIRST_BYTES)))
    if is_zip(first):
        return _open_archive(source, first, allotment, recover=recover, nested=False)
    return _open_plain(source, first, allotment)


def _open_plain(source: ByteSource, first: bytes, allotment: Allotment) -> TensorFile:
    if is_legacy(first):
        return LegacyFile(source, allotment)
    if is_safetensors(first, source.size):
        return SafetensorsFile(source, allotment)
    raise FormatError(
        f"{source.name}: {_guess(first, source)}; known are .cord, .pt (torch.save, old and new, also zipped again) "
        "and .safetensors files"
    )


def _guess(first: bytes, source: ByteSource) -> str:
    if not source.size:
        return "the file is empty"
    if len(first) > 8 and first[8:9] == b"{":
        length = int.from_bytes(first[:8], "little")
        return f"a .safetensors header of {length} bytes in a file of {source.size}: the file is cut short"
    if first[:1] == b"\x80":
        return "a plain pickle, which only pickle.load reads (and which may run code)"
    if source.size > 262 and bytes(source.read(257, 5)) == b"ustar":
        return (
            "a tar archive: torch's format of 2016, or a folder of files; only torch.load(weights_only=False) reads it"
        )
    known = {
        b"\x1f\x8b": "gzip",
        b"\x89HDF": "HDF5",
        b"\x93NUMPY": "NumPy",
        b"BZh": "bzip2",
        b"\x28\xb5\x2f\xfd": "zstd",
    }
    for magic, name in known.items():
        if first.startswith(magic):
            return f"a {name} file"
    if first.lstrip()[:1] in (b"<", b"{") or first.startswith(b"version https://git-lfs"):
        return "text, not tensors: perhaps an error page, or a Git LFS pointer whose file was not fetched"
    return f"begins with {first[:8].hex(' ')}, by which no tensor file is known"


def _open_archive(source: ByteSource, first: bytes, allotment: Allotment, *, recover: bool, nested: bool) -> TensorFile:
    try:
        archive = Archive(source)
    except FormatError:
        if not recover:
            raise
        archive = Archive.recover(source)
    if is_cord(first):
        return CordFile(source, archive, allotment)
    prefix = _torch_prefix(archive)
    if prefix is not None:
        return PtFile(source, archive, prefix, allotment)
    if not nested:
        inside = [entry for entry in archive.entries.values() if not entry.name.endswith("/")]
        if len(inside) == 1:
            return _open_inside(source, archive, inside[0], allotment, recover=recover)
    names = ", ".join(list(archive.entries)[:3])
    raise FormatError(
        f"{source.name}: a zip archive, but not of tensors: it has {len(archive.entries)} entries ({names[:100]} "
        "...) and no data.pkl"
    )


def _torch_prefix(archive: Archive) -> str | None:
    """The name that all of a torch archive's entries begin with, slash included."""
    first = next(iter(archive.entries), "")
    if "/" not in first:
        return None
    prefix = first[: first.index("/") + 1]
    return prefix if any(prefix + name in archive.entries for name in ("data.pkl", "constants.pkl")) else None


def _open_inside(
    source: ByteSource, archive: Archive, entry: ZipEntry, allotment: Allotment, *, recover: bool
) -> TensorFile:
    """A file that was zipped once more: read in memory."""
    name = f"{source.name}: {entry.name}"
    if entry.method == STORED:
        inner = source.part(archive.start(entry), entry.size, name)
    else:
        allotment.take(entry.size, name)
        inner = open_source(memoryview(archive.read(entry, entry.size)))
        inner.name = name
    first = bytes(inner.read(0, min(inner.size, _FIRST_BYTES)))
    if is_zip(first):
        return _open_archive(inner, first, allotment, recover=recover, nested=True)
    return _open_plain(inner, first, allotment)
