"""What is inside a frame: the header that the plain reader sees, and the planes of every block before the chain is
undone.

>>> header, blocks = look_inside(codecs.encode(array, plan))
"""

from typing import Any

from cordwood import codecs
from cordwood.codecs.stages.base import DEFAULTS
from cordwood.native import _native
from tests.codecs.support.definitions import Array
from tests.format.support.readers import reader


def look_inside(frame: bytes, plan: codecs.Plan | None = None) -> tuple[Any, list[list[Array]]]:
    """The header, and for every block its planes as matrices."""
    header, body = reader.read_header(frame, {plan.hash: plan.assets.encoded} if plan else {})
    blocks = []
    for start, (size, _) in zip(header.block_starts, header.table, strict=True):
        blocks.append(reader.read_planes(header, body.take(size), shapes_of(header, start)))
    return header, blocks


def shapes_of(header: Any, start: int) -> list[tuple[int, int]]:
    """Rows and columns of every plane of the block that begins at `start`."""
    code = max(header.bits, 8) // 8
    if header.predict == 1:
        rows, width, channels, _ = header.image
        return [(min(header.block, rows - start), width)] * (channels * code)
    count = min(header.block, header.elements - start)
    if header.bits == 1:
        return [(1, (count + 7) // 8)]
    return [(1, count * code)] if header.planes == 0 else [(1, count)] * code


def modes_of(frame: bytes, plan: codecs.Plan | None = None) -> list[list[int]]:
    """For every block the modes of its planes; none where the bytes are stored."""
    header, body = reader.read_header(frame, {plan.hash: plan.assets.encoded} if plan else {})
    found = []
    for start, (size, _) in zip(header.block_starts, header.table, strict=True):
        block = body.take(size)
        found.append(list(block[: len(shapes_of(header, start))]) if header.coder else [])
    return found


def encode_in_blocks(array: Array, plan: codecs.Plan, block: int) -> bytes:
    """A frame with blocks of this many elements or rows, as only large arrays have them otherwise."""
    settings = dict(zip(DEFAULTS, plan.settings(array.ndim), strict=True)) | {"block": block}
    answer = _native.encode(array, array.shape, tuple(settings.values()), plan.formula, plan.assets.native, 1)
    assert isinstance(answer, bytes), answer
    return answer
