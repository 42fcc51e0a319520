"""Reads the orientation of a photograph, and a few other numbers of a TIFF directory.

    orientation(exif_block)  # 1 to 8; 1 where nothing sensible is said

An EXIF block is a small TIFF file. A camera that was held upright says 1, one held on its side 6 or 8; the pixels lie
as the sensor saw them. Damaged EXIF is common in photographs that are otherwise fine, so it counts as none.
"""

from collections.abc import Collection

IMAGE_WIDTH, IMAGE_HEIGHT, ORIENTATION = 256, 257, 274
_SHORT, _LONG, _LONG8 = 3, 4, 16
_SIZES = {_SHORT: 2, _LONG: 4, _LONG8: 8}
_MOST_ENTRIES = 4096  # a directory of a real image has some dozens; BigTIFF lets a file claim 2^64
EXIF_PREFIX = b"Exif\0\0"


def directory(block: bytes, wanted: Collection[int]) -> dict[int, int]:
    """The first value of each wanted tag in the first directory of a TIFF block; what cannot be read is left out.

    ::

        directory(data, (IMAGE_WIDTH, IMAGE_HEIGHT))  # {256: 640, 257: 480}
    """
    order: str
    if block[:2] == b"II":
        order = "little"
    elif block[:2] == b"MM":
        order = "big"
    else:
        return {}

    def number(at: int, size: int) -> int | None:
        piece = block[at : at + size]
        return int.from_bytes(piece, "little" if order == "little" else "big") if len(piece) == size else None

    version = number(2, 2)
    if version == 42:
        first, word, count_size, entry_size = number(4, 4), 4, 2, 12
    elif version == 43:
        first, word, count_size, entry_size = number(8, 8), 8, 8, 20
    else:
        return {}
    count = number(first, count_size) if first else None
    if not first or count is None:
        return {}
    found: dict[int, int] = {}
    for entry in range(min(count, _MOST_ENTRIES)):
        at = first + count_size + entry * entry_size
        tag, kind, values = number(at, 2), number(at + 2, 2), number(at + 4, word)
        if tag is None or kind is None or not values:
            continue
        size = _SIZES.get(kind)
        if tag in wanted and tag not in found and size is not None and size <= word:
            value = number(at + 4 + word, size)
            # More values than fit stand elsewhere; of the tags that are wanted each has one.
            if value is not None and values * size <= word:
                found[tag] = value
    return found


def orientation(block: bytes) -> int:
    """The orientation that an EXIF block tells, 1 to 8; 1 where it tells none that exists."""
    told = directory(block.removeprefix(EXIF_PREFIX), (ORIENTATION,)).get(ORIENTATION, 1)
    return told if 1 <= told <= 8 else 1
