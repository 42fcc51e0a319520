"""Reads the format, size and orientation of an image from its first bytes, without decoding it.

    probe(data)  # ImageHeader(format='jpeg', width=4000, height=3000, orientation=6, is_plain=True, ...)

The size is what a decoder would make room for, so it is looked at before a decoder sees the bytes: a file of a few
hundred bytes can claim an image of many gigabytes. Frames are counted without decoding any.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from cordwood.errors import FormatError, Reason
from cordwood.images.exif import EXIF_PREFIX, IMAGE_HEIGHT, IMAGE_WIDTH, ORIENTATION, directory, orientation, pages

MAX_FRAMES = 1 << 14  # counting ends there: Pillow takes a minute for the pages of a TIFF that has four times as many
MAX_PIXELS = 178_956_970  # where Pillow, too, refuses to go on
_MOST_CHUNKS = 1 << 16  # an orientation that hides behind more of them is not looked for
# Start of frame: the twelve kinds that hold sizes. C4, C8 and CC between them are tables and a reserved number.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BITMAP_HEADERS = (40, 108, 124)  # the sizes of Windows' own
_GIF_IMAGE, _GIF_EXTENSION, _GIF_END = b",!;"
_ALONE = frozenset(range(0xD0, 0xD8)) | {0x01}  # markers without a length


class ImageHeader(NamedTuple):
    """What the first bytes of an image tell.

    ::

        header = probe(data)
        header.format, header.width, header.height, header.orientation

    Width and height are those of the pixels as they are stored; orientations 5 to 8 swap them. ``is_plain``: one
    picture of 8-bit grey or colour, which every decoder reads alike; ``is_rgb``: a plain one has mode RGB in Pillow.
    ``frames`` are those of an animation, or the pages of a TIFF.
    """

    format: str
    width: int
    height: int
    orientation: int = 1
    is_plain: bool = True
    is_rgb: bool = True
    frames: int = 1

    @property
    def upright(self) -> tuple[int, int]:
        """Height and width of the image as it is seen."""
        return (self.width, self.height) if self.orientation >= 5 else (self.height, self.width)


def probe(data: bytes, max_pixels: int = MAX_PIXELS) -> ImageHeader:
    """Read an image's header, told by its content; FormatError for what is no image, or larger than ``max_pixels``.

    ::

        probe(Path("cat.jpg").read_bytes()).width
    """
    name = sniff(data)
    if name is None:
        shown = bytes(data[:12]).hex(" ")
        kinds = ", ".join(FORMATS)
        raise FormatError(f"no image: the data begin with {shown or 'nothing'}, which is none of {kinds}")
    try:
        header = _READERS[name](data)
    except IndexError:
        raise FormatError(
            f"the {name} image ends within its header, after {len(data)} bytes", Reason.TRUNCATED
        ) from None
    check_size(header.format, header.width, header.height, max_pixels)
    return header


def check_size(name: str, width: int, height: int, max_pixels: int) -> None:
    """Refuse an image without pixels, or with more than are allowed."""
    if width < 1 or height < 1:
        raise FormatError(f"the {name} image says that it is {width} x {height}: it has no pixels")
    if width * height > max_pixels:
        raise FormatError(
            f"the {name} image says that it is {width} x {height}, {width * height:,} pixels; {max_pixels:,} are "
            f"allowed (max_pixels)",
            Reason.LIMIT,
        )


def sniff(data: bytes) -> str | None:
    """The format of an image by its first 12 bytes, or None."""
    start = bytes(data[:12])
    for name, magics in _MAGICS.items():
        if start.startswith(magics) and (name != "webp" or start[8:12] == b"WEBP"):
            return name
    return None


def _number(data: bytes, at: int, size: int, *, big: bool = False) -> int:
    piece = data[at : at + size]
    if len(piece) < size:
        raise IndexError
    return int.from_bytes(piece, "big" if big else "little")


def _jpeg(data: bytes) -> ImageHeader:
    at = 2
    size: tuple[int, int, bool, bool] | None = None
    turned: int | None = None
    while True:
        # Stray bytes before a marker, and any number of FF as padding, are what decoders skip as well.
        at = data.find(b"\xff", at)
        while 0 <= at < len(data) and data[at] == 0xFF:
            at += 1
        if at < 0 or at >= len(data):
            break
        marker = data[at]
        at += 1
        if marker in _ALONE or marker == 0:
            continue
        if marker in (0xD9, 0xDA):  # the end, or the pixels
            break
        length = _number(data, at, 2, big=True) if len(data) >= at + 2 else 0
        if length < 2:
            break
        if marker in _FRAMES and size is None:
            height, width = _number(data, at + 3, 2, big=True), _number(data, at + 5, 2, big=True)
            size = width, height, data[at + 2] == 8 and data[at + 7] in (1, 3), data[at + 7] == 3
        elif marker == 0xE1 and turned is None and data[at + 2 : at + 8] == EXIF_PREFIX:
            turned = orientation(data[at + 8 : at + length])
        at += length
    if size is None:
        raise FormatError(f"the jpeg image tells no size: no frame header in its {len(data)} bytes", Reason.TRUNCATED)
    width, height, plain, rgb = size
    return ImageHeader("jpeg", width, height, turned or 1, plain, rgb)


def _png(data: bytes) -> ImageHeader:
    if data[12:16] != b"IHDR":
        raise FormatError(f"the png image does not begin with its header: {bytes(data[12:16])!r} instead of b'IHDR'")
    width, height = _number(data, 16, 4, big=True), _number(data, 20, 4, big=True)
    depth, colour = data[24], data[25]
    # Sixteen bits of grey are rounded differently from sixteen bits of colour, and not by every decoder alike.
    plain = depth <= 8 or colour in (2, 6)
    turned, at = 1, 8
    counts: list[int] = []  # of frames, as Pillow counts them: by what comes before the first pixels
    before = default = True  # the default image is no frame of the animation unless it has a frame control of its own
    for _ in range(_MOST_CHUNKS):
        if len(data) < at + 8:
            break
        length, kind = _number(data, at, 4, big=True), data[at + 4 : at + 8]
        if kind == b"eXIf":
            turned = orientation(data[at + 8 : at + 8 + length])
        elif kind == b"acTL":
            plain = False
            counts += [int.from_bytes(data[at + 8 : at + 12], "big")] if before else []
        elif kind == b"fcTL":
            default = default and not before
        elif kind == b"IDAT":
            before = False
        elif kind == b"IEND":
            break
        at += 12 + length
    frames = counts[0] + default if len(counts) == 1 and 0 < counts[0] <= 1 << 31 else 1
    return ImageHeader("png", width, height, turned, plain, colour == 2, frames)


def _webp(data: bytes) -> ImageHeader:
    kind = data[12:16]
    if kind == b"VP8X":
        flags = data[20]
        width, height = _number(data, 24, 3) + 1, _number(data, 27, 3) + 1
        turned = next((orientation(found) for found in _webp_chunks(data, b"EXIF")), 1) if flags & 8 else 1
        frames = max(sum(1 for _ in _webp_chunks(data, b"ANMF")), 1) if flags & 2 else 1
        return ImageHeader("webp", width, height, turned, not flags & 2, not flags & 16, frames)
    if kind == b"VP8L":
        bits = _number(data, 21, 4)
        return ImageHeader("webp", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1, is_rgb=not bits >> 28 & 1)
    if kind == b"VP8 ":
        return ImageHeader("webp", _number(data, 26, 2) & 0x3FFF, _number(data, 28, 2) & 0x3FFF)
    raise FormatError(f"the webp image begins with {bytes(kind)!r}; VP8, VP8L or VP8X was expected")


def _webp_chunks(data: bytes, wanted: bytes) -> Iterator[bytes]:
    """The contents of the chunks of one kind."""
    at = 12
    for _ in range(_MOST_CHUNKS):
        if len(data) < at + 8:
            break
        length = _number(data, at + 4, 4)
        if data[at : at + 4] == wanted:
            yield data[at + 8 : at + 8 + length]
        at += 8 + length + length % 2


def _bmp(data: bytes) -> ImageHeader:
    header_size = _number(data, 14, 4)
    if header_size == 12:
        return ImageHeader("bmp", _number(data, 18, 2), _number(data, 20, 2), is_plain=False)
    width, height = _number(data, 18, 4), _number(data, 22, 4)
    # A negative height says that the first row is the uppermost.
    height = (1 << 32) - height if height >= 1 << 31 else height
    plain = header_size in _BITMAP_HEADERS and _number(data, 28, 2) == 24 and _number(data, 30, 4) == 0
    return ImageHeader("bmp", width, height, is_plain=plain)


def _gif(data: bytes) -> ImageHeader:
    width, height = _number(data, 6, 2), _number(data, 8, 2)
    at = 13 + _colours(data[10])
    frames = 0
    while at < len(data) and data[at] != _GIF_END and frames < MAX_FRAMES:
        if data[at] == _GIF_IMAGE:
            if frames and len(data) < at + 11:
                break
            if not frames:
                # The first picture may be larger than the screen, which then grows.
                left, top, across, down = (_number(data, at + 1 + 2 * n, 2) for n in range(4))
                width, height = max(width, left + across), max(height, top + down)
            frames += 1
            at = _behind_blocks(data, at + 11 + _colours(data[at + 9]))
        elif data[at] == _GIF_EXTENSION:
            at = _behind_blocks(data, at + 2)
        else:  # decoders look for the next block
            at += 1
    return ImageHeader("gif", width, height, is_plain=False, frames=max(frames, 1))


def _colours(flags: int) -> int:
    """The bytes of a colour table."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _behind_blocks(data: bytes, at: int) -> int:
    """Where a chain of blocks ends that begins here; the last one is empty."""
    end = len(data)
    while at < end and data[at]:
        at += 1 + data[at]
    return at + 1


def _tiff(data: bytes) -> ImageHeader:
    told = directory(data, (IMAGE_WIDTH, IMAGE_HEIGHT, ORIENTATION))
    if IMAGE_WIDTH not in told or IMAGE_HEIGHT not in told:
        raise FormatError(f"the tiff image tells no size in the first directory of its {len(data)} bytes")
    turned = told.get(ORIENTATION, 1)
    turned = turned if 1 <= turned <= 8 else 1
    frames = max(pages(data, MAX_FRAMES), 1)
    return ImageHeader("tiff", told[IMAGE_WIDTH], told[IMAGE_HEIGHT], turned, is_plain=False, frames=frames)


_MAGICS: dict[str, tuple[bytes, ...]] = {
    "jpeg": (b"\xff\xd8\xff",),
    "png": (b"\x89PNG\r\n\x1a\n",),
    "webp": (b"RIFF",),
    "bmp": (b"BM",),
    "gif": (b"GIF87a", b"GIF89a"),
    "tiff": (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"),
}
_READERS: dict[str, Callable[[bytes], ImageHeader]] = {
    "jpeg": _jpeg,
    "png": _png,
    "webp": _webp,
    "bmp": _bmp,
    "gif": _gif,
    "tiff": _tiff,
}
FORMATS = tuple(_MAGICS)
