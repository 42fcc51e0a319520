"""What is inside a frame: the header that the plain reader sees, and the planes of every block before the chain is
undone.

>>> header, blocks = look_inside(codecs.encode(array, plan))
"""

from typing import Any

from cordwood import codecs
from cordwood.native import _native
from tests.codecs.support.definitions import Array
from tests.format.support.readers import owned_by, reader


def look_inside(frame: bytes, plan: codecs.Plan | None = None) -> tuple[Any, list[list[Array]]]:
    """The header, and for every block its planes as matrices."""
    header, body = reader.read_header(frame, owned_by(plan))
    blocks = []
    for start, (size, _) in zip(header.block_starts, header.table, strict=True):
        blocks.append(reader.read_planes(header, body.take(size), shapes_of(header, start)))
    return header, blocks


def shapes_of(header: Any, start: int) -> list[tuple[int, int]]:
    """Rows and columns of every plane of the block that begins at `start`."""
    code = max(header.bits, 8) // 8
    if header.predict in (1, 3):
        rows, width, channels, _ = header.image
        rows = min(header.block, rows - start)
        groups = [(channels * ((rows + 15) // 16), (width + 30) // 16)] * 2 if header.predict == 3 else []
        return [(rows, width)] * (channels * code) + groups
    count = min(header.block, header.elements - start)
    if header.bits == 1:
        return [(1, (count + 7) // 8)]
    return [(1, count * code)] if header.planes == 0 else [(1, count)] * code


def modes_of(frame: bytes, plan: codecs.Plan | None = None) -> list[list[int]]:
    """For every block the modes of its planes; none where the bytes are stored."""
    header, body = reader.read_header(frame, owned_by(plan))
    found = []
    for start, (size, _) in zip(header.block_starts, header.table, strict=True):
        block = body.take(size)
        found.append(list(block[: len(shapes_of(header, start))]) if header.coder else [])
    return found


def encode_in_blocks(array: Array, plan: codecs.Plan, block: int) -> bytes:
    """A frame with blocks of this many elements or rows, as only large arrays have them otherwise."""
    (chain,) = plan.chains
    settings = chain.settings(plan.dtype, array.ndim) | {"block": block}
    owned = chain.assets.hash, chain.assets.encoded
    encoder: Any = _native.encoder(None, ((tuple(settings.values()), chain.formula, *owned, False, 0, 0),), 1)
    answer = _native.encode(array, array.shape, encoder, 1)
    assert isinstance(answer, bytes), answer
    return answer
