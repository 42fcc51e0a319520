"""How torch.load goes about in a file inside a zip archive: every step back means to inflate again from the start.

found = watch(Path("x.pt.zip"))
found.seeks, found.backward, found.inflated_times
"""

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.packages import need


@dataclass(frozen=True)
class Steps:
    """What one reading did."""

    reads: int
    seeks: int
    backward: int
    compressed: int  # bytes of the member in the archive
    taken: int  # bytes of it that were read, again and again

    @property
    def inflated_times(self) -> float:
        """How often the whole member was inflated, in the end."""
        return self.taken / self.compressed


class CountingStream(io.RawIOBase):
    """Passes everything on to a stream, and counts what it is asked for."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.reads = self.seeks = self.backward = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        self.reads += 1
        data: bytes = self.stream.read(-1 if size is None else size)
        return data

    def readinto(self, buffer: Any) -> int:
        self.reads += 1
        count: int = self.stream.readinto(buffer)
        return count

    def tell(self) -> int:
        place: int = self.stream.tell()
        return place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        before = self.stream.tell()
        after: int = self.stream.seek(offset, whence)
        self.seeks += 1
        self.backward += after < before
        return after


class CountingFile(io.FileIO):
    """A file that knows how many of its bytes were read."""

    taken = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(-1 if size is None else size) or b""
        self.taken += len(data)
        return data


def watch(path: Path) -> Steps:
    """Let torch.load read the only member of an archive, as `archive.open` gives it, and count."""
    with CountingFile(path) as file, zipfile.ZipFile(file) as archive:
        (member,) = archive.infolist()
        directory = file.taken
        with archive.open(member) as stream:
            counting = CountingStream(stream)
            need("torch").load(counting)
            return Steps(
                counting.reads, counting.seeks, counting.backward, member.compress_size, file.taken - directory
            )
