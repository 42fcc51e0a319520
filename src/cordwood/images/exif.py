"""Reads the orientation of a photograph, and a few other numbers of TIFF directories.

    orientation(exif_block)  # 1 to 8; 1 where nothing sensible is said
    pages(data, most=100)    # how many directories a TIFF file has

An EXIF block is a small TIFF file. A camera that was held upright says 1, one held on its side 6 or 8; the pixels lie
as the sensor saw them. Damaged EXIF is common in photographs that are otherwise fine, so it counts as none.
"""

from collections.abc import Collection, Iterator
from itertools import islice
from typing import Literal, NamedTuple

IMAGE_WIDTH, IMAGE_HEIGHT, ORIENTATION = 256, 257, 274
_SHORT, _LONG, _LONG8 = 3, 4, 16
_SIZES = {_SHORT: 2, _LONG: 4, _LONG8: 8}
_WORDS = {42: (4, 2, 12), 43: (8, 8, 20)}  # TIFF and BigTIFF: bytes of an offset, of a count, of an entry
_MOST_ENTRIES = 4096  # a directory of a real image has some dozens; BigTIFF lets a file claim 2^64
EXIF_PREFIX = b"Exif\0\0"


class _Tiff(NamedTuple):
    """How the numbers of a TIFF block are written: plain, or as BigTIFF has them."""

    block: bytes
    order: Literal["little", "big"]
    word: int  # bytes of an offset
    count_size: int  # bytes of the number of entries
    entry_size: int

    @classmethod
    def of(cls, block: bytes) -> "_Tiff | None":
        """None if the block is no TIFF."""
        order: Literal["little", "big"] = "little" if block[:2] == b"II" else "big"
        sizes = _WORDS.get(int.from_bytes(block[2:4], order)) if block[:2] in (b"II", b"MM") else None
        return None if sizes is None else cls(block, order, *sizes)

    def number(self, at: int, size: int) -> int | None:
        """The number at a place, None behind the end."""
        piece = self.block[at : at + size]
        return int.from_bytes(piece, self.order) if len(piece) == size else None

    def directories(self) -> Iterator[tuple[int, int]]:
        """Where the entries of each directory begin, and how many there are; no directory twice."""
        at, seen = self.number(self.word, self.word), set[int]()
        while at and at not in seen:
            count = self.number(at, self.count_size)
            if count is None:
                return
            seen.add(at)
            start = at + self.count_size
            yield start, count
            at = self.number(start + count * self.entry_size, self.word)


def pages(block: bytes, most: int) -> int:
    """How many directories a TIFF block has; counting ends with `most`.

    ::

        pages(Path("scan.tif").read_bytes(), 100)  # 3
    """
    tiff = _Tiff.of(block)
    return 0 if tiff is None else sum(1 for _ in islice(tiff.directories(), most))


def directory(block: bytes, wanted: Collection[int]) -> dict[int, int]:
    """The first value of each wanted tag in the first directory of a TIFF block; what cannot be read is left out.

    ::

        directory(data, (IMAGE_WIDTH, IMAGE_HEIGHT))  # {256: 640, 257: 480}
    """
    found: dict[int, int] = {}
    tiff = _Tiff.of(block)
    first = None if tiff is None else next(tiff.directories(), None)
    if tiff is None or first is None:
        return found
    start, count = first
    for entry in range(min(count, _MOST_ENTRIES)):
        at = start + entry * tiff.entry_size
        tag, kind, values = tiff.number(at, 2), tiff.number(at + 2, 2), tiff.number(at + 4, tiff.word)
        if tag is None or kind is None or not values:
            continue
        size = _SIZES.get(kind)
        if tag in wanted and tag not in found and size is not None and size <= tiff.word:
            value = tiff.number(at + 4 + tiff.word, size)
            # More values than fit stand elsewhere; of the tags that are wanted each has one.
            if value is not None and values * size <= tiff.word:
                found[tag] = value
    return found


def orientation(block: bytes) -> int:
    """The orientation that an EXIF block tells, 1 to 8; 1 where it tells none that exists."""
    told = directory(block.removeprefix(EXIF_PREFIX), (ORIENTATION,)).get(ORIENTATION, 1)
    return told if 1 <= told <= 8 else 1
