"""A slow and plain reader of Cordwood frames, written from frame.md alone.

>>> array, dtype = read(open("photo.cwfr", "rb").read())
>>> array, dtype = read_short(frame, read_short_plan("uint8", [28, 28], [(assets, template)]))

It needs NumPy, and the `zstandard` and `lz4` packages only for planes coded with them. Read it beside the page:
the functions stand in the page's order, and each `Reject(n)` is reason number n to reject a frame.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Table = Any  # huffman: {(length, code): symbol}; ans: [(symbol, nb, base) of every state]

# name, bytes of an element, NumPy's type of the array: unsigned integers where NumPy has none
DTYPES = [
    ("bool", 1, "?"), ("uint8", 1, "u1"), ("int8", 1, "i1"), ("uint16", 2, "u2"), ("int16", 2, "i2"),
    ("uint32", 4, "u4"), ("int32", 4, "i4"), ("uint64", 8, "u8"), ("int64", 8, "i8"), ("float16", 2, "f2"),
    ("bfloat16", 2, "u2"), ("float32", 4, "f4"), ("float64", 8, "f8"), ("complex64", 4, "c8"), ("complex128", 8, "c16"),
    ("float8_e4m3fn", 1, "u1"), ("float8_e5m2", 1, "u1"), ("float8_e4m3fnuz", 1, "u1"), ("float8_e5m2fnuz", 1, "u1"),
    ("float8_e8m0fnu", 1, "u1"), ("complex32", 2, "u4"), ("float4_e2m1fn_x2", 1, "u1"),
]  # fmt: skip
COMPLEX = (13, 14, 20)
MED, MIXED = 1, 3
IN_IMAGES = (MED, MIXED)
HUFFMAN, ANS = 0, 1
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class Reject(Exception):  # noqa: N818  (the page's word)
    """The frame, or the plan's assets, must be rejected: `reason` is the number in the page's table."""

    def __init__(self, reason: int) -> None:
        super().__init__(f"reason {reason} to reject")
        self.reason = reason


def check(fine: bool, reason: int) -> None:
    """Reject for this reason unless all is fine."""
    if not fine:
        raise Reject(reason)


# Conventions


class Fields:
    """Reads one field after the other; to run past the end is `short`: 1 in a header or assets, 19 in a block."""

    def __init__(self, data: bytes, short: int) -> None:
        self.data, self.at, self.short = data, 0, short

    def take(self, n: int) -> bytes:
        """The next n bytes."""
        check(n <= len(self.data) - self.at, self.short)
        self.at += n
        return self.data[self.at - n : self.at]

    def uint(self, size: int) -> int:
        """A u8, u16, u32 or u64."""
        return int.from_bytes(self.take(size), "little")

    def u8(self) -> int:
        """The next byte."""
        return self.uint(1)

    def varint(self) -> int:
        """An unsigned LEB128 number, in its shortest form."""
        value = 0
        for i in range(10):
            byte = self.u8()
            value |= (byte & 127) << (7 * i)
            if byte < 128:
                check(byte != 0 or i == 0, 9)
                break
        check(byte < 128 and value < 2**64, 9)
        return value

    def end(self, reason: int) -> None:
        """Nothing may follow."""
        check(self.at == len(self.data), reason)


class BitStream:
    """Reads bits from the lowest of the first byte upwards; to run past the end is `short`."""

    def __init__(self, data: bytes, short: int) -> None:
        self.data, self.at, self.left, self.short = data, 0, 8 * len(data), short

    def take(self, n: int) -> int:
        """A field of n bits."""
        check(n <= self.left, self.short)
        chunk = int.from_bytes(self.data[self.at // 8 : (self.at + n + 7) // 8], "little")
        value = (chunk >> self.at % 8) & ((1 << n) - 1)
        self.at, self.left = self.at + n, self.left - n
        return value

    def end(self) -> None:
        """Only zeros may follow, up to the end of the byte."""
        check(self.left < 8 and self.take(self.left) == 0, self.short)


def unzigzag(u: int) -> int:
    """0, 1, 2, 3 become 0, -1, 1, -2."""
    return (u >> 1) ^ -(u & 1)


def crc32c(data: bytes) -> int:
    """The Castagnoli CRC-32."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


# The frame


@dataclass
class Plan:
    """What a plan owns."""

    palette: tuple[int, int, int, list[Array]] = (-1, 0, 0, [])  # dtype, bits, axis, palettes
    tables: tuple[int, int, list[Table]] = (-1, 0, [])  # entropy coder, log, tables
    dictionary: bytes = b""


@dataclass
class Header:
    """What the header says; the names are the page's."""

    dtype: int = 0
    shape: tuple[int, ...] = ()
    plan: Plan = field(default_factory=Plan)  # owns nothing, unless the frame names one
    # the chain
    value: int = 0
    bits: int = 0  # of a code
    minimum: int = 0
    shift: int = 0
    axis: int = 255
    palettes: list[Array] = field(default_factory=list)
    predict: int = 0
    geometry: int = 0
    color: int = 0
    lag: int = 0
    planes: int = 0
    coder: int = 0
    entropy: int = HUFFMAN
    tile: tuple[int, int] = (1, 1)
    block: int = 1
    is_short: bool = False
    table: list[tuple[int, int]] = field(default_factory=list)  # size and checksum of every block

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return DTYPES[self.dtype][1]

    @property
    def elements(self) -> int:
        """How many there are: two for every complex number."""
        return math.prod(self.shape) * (2 if self.dtype in COMPLEX else 1)

    @property
    def image(self) -> tuple[int, int, int, int]:
        """Rows, columns, channels, and the height of one image, as predicts 1 and 3 see the array."""
        s = self.shape
        if self.geometry == 0:
            return math.prod(s[:-1]), s[-1], 1, s[-2]
        if self.geometry == 1:
            return math.prod(s[:-3]) * s[-2], s[-1], s[-3], s[-2]
        return math.prod(s[:-2]), s[-2], s[-1], s[-3]

    @property
    def block_starts(self) -> range:
        """The first row (predict 1 and 3) or element of every block."""
        nothing = self.elements == 0 or self.bits == 0
        return range(0, 0 if nothing else self.image[0] if self.predict in IN_IMAGES else self.elements, self.block)


def read(frame: bytes, assets: dict[int, bytes] | None = None) -> tuple[Array, str]:
    """The array in a frame, and the name of its dtype. `assets` holds plans' assets by their hash."""
    header, blocks = read_header(frame, assets or {})
    codes = np.zeros(header.elements, f"<u{max(header.bits, 8) // 8}")
    for start, (size, checksum) in zip(header.block_starts, header.table, strict=True):
        body = blocks.take(size)
        check(crc32c(body) == checksum, 15)
        undo = read_image_block if header.predict in IN_IMAGES else read_block
        undo(header, start, body, codes)
    return to_array(header, codes)


def to_array(h: Header, codes: Array) -> tuple[Array, str]:
    """The array that all codes of a frame give, and the name of its dtype."""
    name, _, numpy_type = DTYPES[h.dtype]
    return undo_value(h, codes).view(np.dtype(numpy_type).newbyteorder("<")).reshape(h.shape), name


def read_header(frame: bytes, assets: dict[int, bytes]) -> tuple[Header, Fields]:
    """The header, and the blocks, which end where the frame ends."""
    f = Fields(frame, short=1)
    check(f.take(4) == b"CWFR", 2)
    check(f.u8() == 1, 3)
    f.u8()  # a higher minor is fine
    size = f.uint(4)
    check(size <= len(frame), 1)
    check(size >= 15, 13)
    flags = f.u8()
    check(flags & 0b1110 == 0, 4)
    check(crc32c(frame[: size - 4]) == int.from_bytes(frame[size - 4 : size], "little"), 5)

    f.data = frame[: size - 4]
    h = Header(dtype=f.u8())
    check(h.dtype < len(DTYPES), 6)
    rank = f.u8()
    check(rank <= 64, 7)
    h.shape = tuple(f.varint() for _ in range(rank))
    check_shape(h)
    if flags & 1:
        plan_hash = f.uint(8)
        owned = assets.get(plan_hash, b"")
        check(hashlib.blake2b(owned, digest_size=8).digest() == plan_hash.to_bytes(8, "little"), 16)
        h.plan = read_plan(owned)
    read_value(h, f)
    read_predict(h, f)
    read_planes_and_coder(h, f)
    check_chain(h)
    h.block = f.varint()
    check(1 <= h.block < 2**40 and (h.bits != 1 or h.block % 8 == 0), 10)
    for _ in h.block_starts:
        h.table.append((f.varint(), f.uint(4)))
    pad = f.u8()
    check(pad <= 63 and not any(f.take(pad)), 13)
    f.end(13)
    check(size + sum(block_size for block_size, _ in h.table) == len(frame), 14)
    return h, Fields(frame[size:], short=14)


def check_shape(h: Header) -> None:
    """Whether the dimensions and the array are not too large."""
    nbytes = math.prod(max(d, 1) for d in h.shape) * h.itemsize * (2 if h.dtype in COMPLEX else 1)
    check(all(d < 2**48 for d in h.shape) and nbytes < 2**56, 8)


# The chain: each function reads the fields of one stage; check_chain checks what depends on several of them


def read_value(h: Header, f: Fields) -> None:
    """Field 1: elements to codes."""
    h.value = f.u8()
    check(h.value <= 2, 11)
    h.bits = 8 * h.itemsize
    if h.value == 1:
        check(h.dtype <= 8, 11)
        if not h.is_short:  # a template has no range
            h.minimum, h.bits, h.shift = unzigzag(f.varint()), f.u8(), f.u8()
            check_range(h)
    if h.value == 2:
        check(9 <= h.dtype <= 14 or h.dtype == 20, 12)
        h.bits, h.axis, source = f.u8(), f.u8(), f.u8()
        check(h.bits in (8, 16) and (source in (1, 2) if h.is_short else source <= 2), 12)
        check(h.axis == 255 or (h.axis < len(h.shape) and h.dtype not in COMPLEX), 12)
        count = 1 if h.axis == 255 else h.shape[h.axis]
        check(count <= 65536, 12)
        if source == 0:
            h.palettes = read_palettes(f, h.dtype, h.bits, count)
        elif source == 1:
            h.palettes = read_formula(f, h.dtype, h.bits, count)
        else:
            *form, h.palettes = h.plan.palette
            check(form == [h.dtype, h.bits, h.axis] and len(h.palettes) == count, 17)


def check_range(h: Header) -> None:
    """Whether narrow may have these bits and this shift."""
    check(h.bits in (0, 1, 8, 16, 32, 64) and h.bits <= 8 * h.itemsize, 11)
    check(h.shift < h.bits if h.bits >= 8 else h.shift == 0, 11)


def read_palettes(f: Fields, dtype: int, bits: int, count: int) -> list[Array]:
    """The bit patterns of so many palettes."""
    itemsize = DTYPES[dtype][1]
    palettes = []
    for _ in range(count):
        n = f.varint()
        check(1 <= n <= 2**bits and n * count <= 2**24, 12)
        palettes.append(np.frombuffer(f.take(n * itemsize), f"<u{itemsize}"))
    return palettes


def read_formula(f: Fields, dtype: int, bits: int, count: int) -> list[Array]:
    """The bit patterns of every palette that a formula gives."""
    check(9 <= dtype <= 12, 12)
    n, work, operations = f.varint(), f.u8(), f.u8()
    check(1 <= n <= 2**bits and n * count <= 2**24 and work <= 1 and 1 <= operations <= 4, 12)
    kind = np.dtype(("<f4", "<f8")[work])
    values = [np.arange(n).astype(kind) for _ in range(count)]
    for _ in range(operations):
        operation, scope = f.u8(), f.u8()
        check(operation <= 3 and scope <= 1, 12)
        operands = np.frombuffer(f.take(kind.itemsize * (count if scope else 1)), kind)
        apply = (np.multiply, np.divide, np.add, np.subtract)[operation]
        with np.errstate(all="ignore"):
            values = [apply(v, operands[p if scope else 0]) for p, v in enumerate(values)]
    with np.errstate(all="ignore"):
        if DTYPES[dtype][0] == "bfloat16":
            return [to_bfloat16(v) for v in values]
        itemsize = DTYPES[dtype][1]
        return [v.astype(f"<f{itemsize}").view(f"<u{itemsize}") for v in values]


def to_bfloat16(values: Array) -> Array:
    """Rounds once, to nearest even: float64 by way of float32 rounded to odd, which keeps what the last step needs."""
    single = values.astype("<f4")
    bits = single.view("<u4").astype(np.int64)
    inexact = (single != values) & ~np.isnan(values)
    bits = np.where(inexact, (bits - (np.abs(single) > np.abs(values))) | 1, bits)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(values), (bits >> 16) | 0x40, rounded).astype("<u2")


def read_predict(h: Header, f: Fields) -> None:
    """Field 2: codes to residuals."""
    h.predict = f.u8()
    check(h.predict <= 3, 10)
    if h.predict in IN_IMAGES:
        h.geometry, h.color = f.u8(), f.u8()
        check(h.geometry <= 2 and h.color <= 2, 10)
    if h.predict == 2:
        h.lag = f.varint()
        check(1 <= h.lag < 2**32, 10)


def read_planes_and_coder(h: Header, f: Fields) -> None:
    """Fields 3 and 4: residuals to planes, planes to bytes."""
    h.planes = f.u8()
    check(h.planes <= 2, 10)
    h.coder = f.u8()
    check(h.coder <= 1, 10)
    if h.coder == 0:
        check(h.planes == 0 and h.predict == 0, 10)
    else:
        h.entropy, height, width = f.u8(), f.u8(), f.u8()
        check(h.entropy <= 1 and height <= 15 and width <= 15 and 3 <= height + width <= 20, 10)
        h.tile = (2**height, 2**width)


def check_chain(h: Header) -> None:
    """Whether these stages go together, and with the shape and the bits of a code."""
    if h.predict in IN_IMAGES:
        check(h.bits == 8 or (h.bits == 16 and h.predict == MED), 10)
        check(h.dtype not in COMPLEX and len(h.shape) >= (2, 3, 3)[h.geometry], 10)
        channels = h.image[2]
        check(channels <= 65536 and (h.color != 1 or channels >= 3), 10)
    check(h.bits != 1 or (h.predict == 0 and h.planes == 0), 10)
    check(h.planes == 1 or not (h.predict == 1 and h.bits == 16), 10)
    check(h.planes != 2 or (h.value == 0 and h.predict == 0), 10)


# The chain undone: from residuals back to elements


def undo_value(h: Header, codes: Array) -> Array:
    """Elements, as unsigned numbers, from codes."""
    kind = f"<u{h.itemsize}"
    if h.value == 0:
        return codes
    if h.value == 1:
        codes = (codes >> h.shift).astype(kind)
        codes += codes.dtype.type(h.minimum % 2 ** (8 * h.itemsize))
        return codes
    elements = np.zeros(h.elements, kind)
    # one row a palette
    by_palette = [
        a[None] if h.axis == 255 else np.moveaxis(a.reshape(*h.shape, 1), h.axis, 0) for a in (codes, elements)
    ]
    for palette, indices, result in zip(h.palettes, *by_palette, strict=True):
        check(indices.size == 0 or int(indices.max()) < len(palette), 25)
        result[...] = palette[indices]
    return elements


def undo_zigzag(residuals: Array) -> Array:
    """Signed differences, as unsigned numbers modulo the width."""
    one = residuals.dtype.type(1)
    differences: Array = (residuals >> one) ^ (~(residuals & one) + one)
    return differences


def undo_med(residuals: Array, bits: int) -> Array:
    """One channel of a block, from a matrix of residuals."""
    differences = undo_zigzag(residuals).tolist()
    above: list[int] = []
    for row in differences:
        for x, difference in enumerate(row):
            if above and x:
                w, n, nw = row[x - 1], above[x], above[x - 1]
                lo, hi = min(w, n), max(w, n)
                prediction = max(lo, hi - max(nw - lo, 0))
            else:
                prediction = above[x] if above else row[x - 1] if x else 0
            row[x] = (prediction + difference) % 2**bits
        above = row
    return np.array(differences, residuals.dtype)


def undo_mixed(residuals: list[Array], kinds: Array, factors: Array, base: int) -> list[Array]:
    """All channels of a block; bands of `kinds` and `factors` follow one another, channel after channel."""
    bands = len(kinds) // len(residuals)
    check(int(kinds.max()) <= 7 and int(factors.max()) <= 7, 25)
    check(int(factors[base * bands : (base + 1) * bands].max()) == 0, 25)
    rows, width = residuals[0].shape
    differences = [undo_zigzag(one).view(np.int8).astype(int).tolist() for one in residuals]
    images = []
    for c in range(len(residuals)):
        image: list[list[int]] = []
        for y in range(rows):
            row: list[int] = []
            for x in range(width):
                group = c * bands + y // 16, (x + y % 16) // 16
                quarters = (0, -1, 1, -2, 2, -3, 3, -4)[factors[group]]
                difference = differences[c][y][x] + (quarters * differences[base][y][x] + 2) // 4
                row.append((predicted(image, row, int(kinds[group])) + difference) % 256)
            image.append(row)
        images.append(np.array(image, np.uint8))
    return images


def predicted(above: list[list[int]], left: list[int], kind: int) -> int:
    """The prediction of the next pixel of a row, from the rows above it and what is left of it."""
    x = len(left)
    if not above or not left:
        return above[-1][0] if above else left[-1] if left else 0
    w, n, nw = left[-1], above[-1][x], above[-1][x - 1]
    ww = left[-2] if x > 1 else w
    nn = above[-2][x] if len(above) > 1 else n
    med = sorted((w, n, w + n - nw))[1]
    w2, n2 = mean(med, beyond(w, w, ww)), mean(med, beyond(n, n, nn))
    gradient = beyond(w, n, nw)
    return (med, mean(w, n), w2, n2, mean(w2, n2), gradient, mean(mean(w, n), gradient), mean(w, med))[kind]


def mean(a: int, b: int) -> int:
    """Halfway, rounded up."""
    return (a + b + 1) // 2


def beyond(a: int, b: int, c: int) -> int:
    """As far from a as b is from c, between 0 and 255."""
    return min(max(a + b - c, 0), 255)


def undo_color(channels: list[Array], color: int, bits: int) -> None:
    """Adds the other channel again, in place."""
    half = channels[0].dtype.type(2 ** (bits - 1))
    if color == 1:
        channels[0] += channels[1] - half
        channels[2] += channels[1] - half
    if color == 2:
        for c in range(1, len(channels)):
            channels[c] += channels[c - 1] - half


# A coded block


def read_image_block(h: Header, start: int, body: bytes, codes: Array) -> None:
    """Puts the codes of the block that begins at row `start` where they belong; with predict 1 and 3."""
    all_rows, width, channels, height = h.image
    rows = min(h.block, all_rows - start)
    size = codes.itemsize  # planes a channel: bytes of 16-bit codes are apart
    shapes = [(rows, width)] * (channels * size)
    if h.predict == MIXED:
        shapes += [(channels * ((rows + 15) // 16), (width + 30) // 16)] * 2
    planes = read_planes(h, body, shapes)
    images = []
    for c in range(channels):
        residuals = np.stack(planes[c * size : (c + 1) * size], -1).view(codes.dtype)[..., 0]
        images.append(residuals if h.predict == MIXED else undo_med(residuals, h.bits))
    if h.predict == MIXED:
        images = undo_mixed(images, planes[-2], planes[-1], 1 if h.color == 1 else 0)
    undo_color(images, h.color, h.bits)
    for c, image in enumerate(images):
        for r, row in enumerate(image, start):
            if h.geometry == 1:
                codes.reshape(-1, channels, height, width)[r // height, c, r % height] = row
            else:
                codes.reshape(-1, width, channels)[r, :, c] = row


def read_block(h: Header, start: int, body: bytes, codes: Array) -> None:
    """Puts the codes of the block that begins at element `start` where they belong; with predict 0 or 2."""
    count, size = min(h.block, h.elements - start), codes.itemsize
    if h.bits == 1:
        (plane,) = read_planes(h, body, [(1, (count + 7) // 8)])
        codes[start : start + count] = np.unpackbits(plane[0], count=count, bitorder="little")
        return
    if h.planes == 0:
        (plane,) = read_planes(h, body, [(1, count * size)])
        residuals = plane[0].view(codes.dtype)
    else:
        residuals = np.stack(read_planes(h, body, [(1, count)] * size), -1).view(codes.dtype)[0, :, 0]
    if h.planes == 2:
        residuals = (residuals >> 1) | (residuals << (h.bits - 1))
    if h.predict == 2:
        residuals = undo_zigzag(residuals)
        for i in range(h.lag, count):
            residuals[i] = (int(residuals[i]) + int(residuals[i - h.lag])) % 2**h.bits
    codes[start : start + count] = residuals


def read_planes(h: Header, body: bytes, shapes: list[tuple[int, int]]) -> list[Array]:
    """The planes of a block: matrices of bytes of these rows and columns."""
    f = Fields(body, short=19)
    modes = [0] * len(shapes) if h.coder == 0 else list(f.take(len(shapes)))
    check(max(modes) <= 5, 18)
    planes = [np.zeros(shape, np.uint8) for shape in shapes]
    is_sized = not h.is_short or len(planes) > 1
    for mode, plane in zip(modes, planes, strict=True):
        if mode == 0:
            data = f.take(plane.size)
        elif mode == 1:
            data = f.take(1) * plane.size
        elif mode == 2:
            continue
        else:
            data = f.take(f.varint() if is_sized else len(body) - f.at)
            if mode == 4:
                data = lz4_block(data, plane.size)
            else:
                check(mode == 3 or h.plan.dictionary != b"", 17)
                magic = ZSTD_MAGIC if h.is_short else b""
                data = zstd_frame(magic + data, plane.size, h.plan.dictionary if mode == 5 else b"")
        plane[...] = np.frombuffer(data, np.uint8).reshape(plane.shape)
    if 2 in modes:
        coded = [plane for mode, plane in zip(modes, planes, strict=True) if mode == 2]
        read_entropy_section(f, coded, h.tile, h.entropy, h.plan)
    f.end(19)
    return planes


def zstd_frame(data: bytes, size: int, dictionary: bytes) -> bytes:
    """What one Zstandard frame holds: exactly `size` bytes."""
    import zstandard

    try:
        content_size = zstandard.get_frame_parameters(data).content_size
        check(content_size in (size, zstandard.CONTENTSIZE_UNKNOWN), 20)
        with_dictionary = zstandard.ZstdCompressionDict(dictionary) if dictionary else None
        decoder = zstandard.ZstdDecompressor(dict_data=with_dictionary, max_window_size=2**31)
        plane = decoder.decompress(data, max_output_size=size, allow_extra_data=False)
    except zstandard.ZstdError:
        raise Reject(20) from None
    check(len(plane) == size, 20)
    return plane


def lz4_block(data: bytes, size: int) -> bytes:
    """What one LZ4 block holds: exactly `size` bytes."""
    import lz4.block

    try:
        plane: bytes = lz4.block.decompress(data, uncompressed_size=size)
    except lz4.block.LZ4BlockError:
        raise Reject(21) from None
    check(len(plane) == size, 21)
    return plane


# The entropy section


def read_entropy_section(f: Fields, planes: list[Array], tile: tuple[int, int], coder: int, plan: Plan) -> None:
    """Fills the planes."""
    source, count = f.u8(), f.varint()
    check(source <= 1 and 1 <= count <= 64, 22)
    if source == 0:
        log = f.u8()
        tables = read_tables(f.take(f.varint()), count, coder, log)
    else:
        owner, log, tables = plan.tables
        check(owner == coder and len(tables) == count, 17)

    height, width = tile
    tiles = [
        p[y : y + height, x : x + width]
        for p in planes
        for y in range(0, len(p), height)
        for x in range(0, p.shape[1], width)
    ]
    chosen = [0] * len(tiles) if count == 1 else read_tile_map(f, len(tiles), count, coder)

    sizes = [f.varint() for _ in range(4 if coder == ANS else 8)]
    coded = [f.take(size) for size in sizes]
    f.end(19)
    streams = [AnsStream(data, log) if coder == ANS else HuffmanStream(data) for data in coded]
    for pixels, number in zip(tiles, chosen, strict=True):
        for k in range(pixels.size):
            pixels.flat[k] = streams[k % len(streams)].symbol(tables[number])
    for stream in streams:
        stream.end()


def read_tables(data: bytes, count: int, coder: int, log: int) -> list[Table]:
    """The tables that K descriptions give."""
    check(5 <= log <= 12 if coder == ANS else log == 11, 22)
    bits = BitStream(data, short=22)
    tables = []
    for _ in range(count):
        lo, hi = bits.take(8), bits.take(8)
        check(lo <= hi, 22)
        sizes = {lo: 2**log if coder == ANS else 0}  # frequencies, or lengths of codes
        if lo < hi:
            sizes, level = {}, 4
            for symbol in range(lo, hi + 1):
                u = 0
                while bits.take(1):
                    u += 1
                level += unzigzag(u)
                check(0 <= level <= (13 if coder == ANS else 11), 22)
                if coder == ANS and level >= 2:
                    sizes[symbol] = 2 ** (level - 1) + bits.take(level - 1)
                elif level:
                    sizes[symbol] = level
        tables.append(ans_table(sizes, log) if coder == ANS else huffman_table(sizes))
    bits.end()
    return tables


def huffman_table(lengths: dict[int, int]) -> Table:
    """Canonical codes for the symbols with these lengths."""
    check(sum(2 ** (11 - length) for length in lengths.values()) == 2**11, 22)
    table, code, last = {}, 0, 0
    for length, symbol in sorted((length, symbol) for symbol, length in lengths.items()):
        code, last = code << (length - last), length
        table[length, code] = symbol
        code += 1
    return table


def ans_table(frequencies: dict[int, int], log: int) -> Table:
    """What every state gives, for symbols with these frequencies."""
    states = 2**log
    check(sum(frequencies.values()) == states, 22)
    spread, position = [0] * states, 0
    for symbol in sorted(frequencies):
        for _ in range(frequencies[symbol]):
            spread[position] = symbol
            position = (position + states // 2 + states // 8 + 3) % states
    table, following = [], dict(frequencies)
    for symbol in spread:
        x = following[symbol]
        following[symbol] += 1
        nb = log - (x.bit_length() - 1)
        table.append((symbol, nb, (x << nb) - states))
    return table


def read_tile_map(f: Fields, tiles: int, count: int, coder: int) -> list[int]:
    """The number of every tile's table."""
    form = f.u8()
    check(form <= 1, 23)
    data = f.take(f.varint())
    if form == 0:
        width = (count - 1).bit_length()
        check(len(data) == (tiles * width + 7) // 8, 23)
        bits = BitStream(data, short=23)
        numbers = [bits.take(width) for _ in range(tiles)]
        bits.end()
        check(max(numbers) < count, 23)
        return numbers
    steps = np.zeros((1, tiles), np.uint8)
    check(data[:1] in (b"", b"\0"), 23)  # the source
    check(data[1:2] in (b"", b"\1"), 22)  # K
    read_entropy_section(Fields(data, short=19), [steps], (1, tiles), coder, Plan())
    check(int(steps.max()) < count, 23)
    return [int(total) % count for total in np.cumsum(steps[0], dtype=np.int64)]


class HuffmanStream:
    """One of eight streams of huffman codes."""

    def __init__(self, data: bytes) -> None:
        self.bits = BitStream(data, short=24)

    def symbol(self, table: Table) -> int:
        """The next symbol."""
        length, code = 0, 0
        while (length, code) not in table:
            length, code = length + 1, 2 * code + self.bits.take(1)
        return int(table[length, code])

    def end(self) -> None:
        """Checks that the stream ends as it should."""
        self.bits.end()


class AnsStream:
    """One of four streams of an ans state."""

    def __init__(self, data: bytes, log: int) -> None:
        self.bits = BitStream(data, short=24)
        check(self.bits.take(self.bits.take(3)) == 0, 24)
        self.state = self.bits.take(log)

    def symbol(self, table: Table) -> int:
        """The next symbol."""
        symbol, nb, base = table[self.state]
        self.state = base + self.bits.take(nb)
        return int(symbol)

    def end(self) -> None:
        """Checks that the stream ends as it should."""
        check(self.state == 0 and self.bits.left == 0, 24)


# What a plan owns


def read_plan(assets: bytes) -> Plan:
    """What the assets hold."""
    f = Fields(assets, short=1)
    check(f.take(4) == b"CWPL", 2)
    check(f.u8() == 1, 3)
    f.u8()  # a higher minor is fine
    plan = Plan()
    has_palette = f.u8()
    check(has_palette <= 1, 12)
    if has_palette:
        dtype, bits, axis, count = f.u8(), f.u8(), f.u8(), f.varint()
        check((9 <= dtype <= 14 or dtype == 20) and bits in (8, 16) and 1 <= count <= 65536, 12)
        plan.palette = dtype, bits, axis, read_palettes(f, dtype, bits, count)
    has_tables = f.u8()
    check(has_tables <= 1, 22)
    if has_tables:
        coder, log, count = f.u8(), f.u8(), f.varint()
        check(coder <= 1 and 1 <= count <= 64, 22)
        plan.tables = coder, log, read_tables(f.take(f.varint()), count, coder, log)
    plan.dictionary = f.take(f.varint())
    f.end(13)
    return plan


# Short frames


@dataclass
class Chain:
    """One chain of a plan."""

    plan: Plan  # what it owns
    template: Header | None


@dataclass
class ShortPlan:
    """What short frames are read with: a dimension that varies is None, and so is a shape whose rank does."""

    dtype: int
    shape: list[int | None] | None
    chains: list[Chain]


def read_short_plan(
    dtype: str, shape: Sequence[int | None] | None, chains: Sequence[tuple[bytes, bytes | None]]
) -> ShortPlan:
    """The plan of this dtype and shape whose chains have these assets and templates."""
    number = [name for name, _, _ in DTYPES].index(dtype)
    made = ShortPlan(number, None if shape is None else list(shape), [])
    for assets, template in chains:
        plan = read_plan(assets) if assets else Plan()
        usable = template is not None and made.shape is not None
        made.chains.append(Chain(plan, read_template(made, plan, template or b"") if usable else None))
    return made


def read_template(short_plan: ShortPlan, plan: Plan, template: bytes) -> Header:
    """The chain in a template, before it is settled for a frame."""
    f = Fields(template, short=1)
    # A dimension that varies is too large here for the axis of a palette.
    shape = tuple(65537 if d is None else d for d in short_plan.shape or ())
    h = Header(dtype=short_plan.dtype, shape=shape, plan=plan, is_short=True)
    read_value(h, f)
    read_predict(h, f)
    read_planes_and_coder(h, f)
    f.end(10)
    return h


def read_short(frame: bytes, plan: ShortPlan | None) -> tuple[Array, str]:
    """The array in a short frame, and the name of its dtype."""
    h, block = read_short_header(frame, plan)
    codes = np.zeros(h.elements, f"<u{max(h.bits, 8) // 8}")
    for start in h.block_starts:
        undo = read_image_block if h.predict in IN_IMAGES else read_block
        undo(h, start, block, codes)
    return to_array(h, codes)


def read_short_header(frame: bytes, plan: ShortPlan | None) -> tuple[Header, bytes]:
    """All that is known of a short frame before its block, and the block."""
    check(plan is not None, 16)
    assert plan is not None
    f = Fields(frame, short=1)
    number = f.u8()
    template = plan.chains[number].template if number < len(plan.chains) else None
    check(template is not None, 10)
    assert template is not None
    h = replace(template, shape=tuple(f.varint() if d is None else d for d in plan.shape or ()))
    check_shape(h)
    if h.elements > 0 and h.value == 1:
        read_range(h, f)
    settle(h)
    h.block = max(h.image[0] if h.predict in IN_IMAGES else h.elements, 1)
    block = frame[f.at :]
    check(len(h.block_starts) == 1 or block == b"", 14)
    return h, block


def read_range(h: Header, f: Fields) -> None:
    """What narrow did to this frame."""
    kind = f.u8()
    if kind == 6:
        h.value = 0
        return
    check(kind & 7 <= 5, 11)
    h.bits, h.shift = (0, 1, 8, 16, 32, 64)[kind & 7], kind >> 3
    h.minimum = unzigzag(f.varint())
    check_range(h)


def settle(h: Header) -> None:
    """Changes the chain to one that these codes and this shape can have."""
    if h.elements == 0:
        h.value, h.bits, h.predict = 0, 8 * h.itemsize, 0
    if h.bits <= 1:
        h.predict = 0
    if h.predict == MIXED and h.bits > 8:
        h.predict = MED
    if h.predict in IN_IMAGES:
        has_images = h.bits in (8, 16) and h.dtype not in COMPLEX and len(h.shape) >= (2, 3, 3)[h.geometry]
        if not has_images or h.image[2] > 65536:
            h.predict = 0
        elif h.color == 1 and h.image[2] < 3:
            h.color = 0
    if h.predict == 1 and h.bits == 16:
        h.planes = 1
    if h.bits <= 8:
        h.planes = 0
    if h.planes == 2 and (h.value != 0 or h.predict != 0):
        h.planes = 1
    if h.predict not in IN_IMAGES and h.coder == 1 and h.tile[0] > 1:
        h.tile = (1, 2**12)
