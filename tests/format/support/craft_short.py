"""Short frames and templates put together by hand, field by field, from the format's page alone.

>>> short_frame(block=b"abc"), ShortPlan("uint8", [3], [Chain(template())])
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.format.support import craft, craft_coding, craft_stages
from tests.format.support.craft import Array, varint, zigzag
from tests.format.support.craft_coding import ENTROPY, Entropy

BITS = (0, 1, 8, 16, 32, 64)
NARROW = b"\1"  # in a template: no fields follow
AS_IS = b"\6"  # the range of a frame that leaves narrow out


@dataclass(frozen=True)
class Chain:
    """A chain of a plan; it owns nothing unless assets are given."""

    template: bytes | None
    assets: bytes = b""


@dataclass(frozen=True)
class ShortPlan:
    """A plan, with None for dimensions that vary."""

    dtype: str
    shape: list[int | None] | None
    chains: Sequence[Chain]

    def read_by(self, reader: Any) -> Any:
        """The plan as the plain reader has it."""
        return reader.read_short_plan(self.dtype, self.shape, [(chain.assets, chain.template) for chain in self.chains])


def one_chain(
    dtype: str, shape: list[int | None] | None, template: bytes | None = None, assets: bytes = b""
) -> ShortPlan:
    """The plan of one chain, which stores elements unless a template is given."""
    return ShortPlan(dtype, shape, [Chain(craft.chain(block=b"") if template is None else template, assets)])


def template(value: bytes = b"\0", predict: bytes = b"\0", planes: int = 0, coder: bytes = b"\0") -> bytes:
    """A chain without its last field."""
    return craft.chain(value, predict, planes, coder, b"")


def range_of(bits: int, minimum: int = 0, shift: int = 0) -> bytes:
    """The range, and the minimum."""
    return bytes([BITS.index(bits) | shift << 3]) + varint(zigzag(minimum))


def short_frame(chain: int = 0, dims: Sequence[int] = (), narrow: bytes = b"", block: bytes = b"") -> bytes:
    """A frame of these fields; `dims` are those that vary."""
    return bytes([chain]) + b"".join(map(varint, dims)) + narrow + block


def flat_block(codes: Array, modes: Sequence[int], planes: int = 0, lag: int = 0, **options: Any) -> bytes:
    """The block of all codes with predict 0, or 2 if there is a lag."""
    return block_of(craft_stages.flat_planes(codes, max(codes.size, 1), planes, lag)[0], modes, **options)


def image_block(
    codes: Array, modes: Sequence[int], geometry: int = 0, color: int = 0, shape: Sequence[int] = (), **options: Any
) -> bytes:
    """The block of all codes with predict 1."""
    made = craft_stages.med_planes(codes.reshape(-1), shape or codes.shape, geometry, color, 2**30)
    return block_of(made[0], modes, **options)


def block_of(
    planes: Sequence[Array], modes: Sequence[int], entropy: Entropy | None = None, dictionary: bytes = b""
) -> bytes:
    """A coded block; with mode 2 and without `entropy` the planes have one table."""
    coded = b"".join(plane.tobytes() for plane, mode in zip(planes, modes, strict=True) if mode == ENTROPY)
    if coded:
        known = entropy or Entropy([])
        entropy = replace(known, tables=known.tables or [craft_coding.table_for(coded, known.coder, known.log)])
    return craft_coding.coded_block(planes, modes, entropy, dictionary, is_short=True)
