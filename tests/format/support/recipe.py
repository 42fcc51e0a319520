"""A recipe names every choice a writer of frames has; `craft_frame` follows it.

>>> craft_frame(image, "uint8", Recipe(predict=MED, geometry=2, coder=ANS, log=10, block=16))

So a test says what is special about its frame and nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.format.support import craft, craft_coding, craft_stages
from tests.format.support.craft import ANS, HUFFMAN, WHOLE, Array
from tests.format.support.craft_coding import ENTROPY, PACKED, ZSTD_DICTIONARY, Entropy, Table

AS_IS, NARROW, PALETTE = "as is", "narrow", "palette"
NONE, MED, DELTA = "none", "med", "delta"
STORED = -1  # beside HUFFMAN and ANS


@dataclass(frozen=True)
class Recipe:
    """The fields have the page's names. `modes` is gone through again and again for the planes of a block."""

    value: str = AS_IS
    minimum: int = 0
    bits: int = 8
    shift: int = 0
    axis: int = WHOLE
    palette_of_plan: bool = False
    predict: str = NONE
    geometry: int = 0
    color: int = 0
    lag: int = 1
    planes: int = 0
    coder: int = STORED
    tile: tuple[int, int] = (0, 15)
    block: int = 2**20
    modes: Sequence[int] = (ENTROPY,)
    tables: int = 1
    log: int = 11
    map_form: int = PACKED
    tables_of_plan: bool = False
    dictionary: bytes = b""
    pad: int = 0


@dataclass(frozen=True)
class Crafted:
    """A frame, what it holds, and the assets of the plan it names, if it does."""

    frame: bytes
    array: Array
    dtype: str
    assets: bytes | None = None

    @property
    def owned(self) -> dict[int, bytes]:
        return {} if self.assets is None else {craft.hash_of(self.assets): self.assets}


def craft_frame(array: Array, dtype: str, recipe: Recipe | None = None, seed: int = 0) -> Crafted:
    """The array as a frame. `dtype` names what NumPy lacks; the array then holds unsigned integers."""
    r = recipe or Recipe()
    elements = craft_stages.elements_of(array, dtype)
    value, codes, owned_palette = _value_stage(r, elements, array.shape, dtype)
    blocks = _planes_of_blocks(r, codes, array.shape)
    tables = _tables_for(r, blocks) if r.coder != STORED else []
    chain = craft.chain(
        value,
        {NONE: b"\0", MED: craft.med(r.geometry, r.color), DELTA: craft.delta(r.lag)}[r.predict],
        r.planes,
        b"\0" if r.coder == STORED else craft.coded(r.coder, *r.tile),
        r.block,
    )
    owned_tables = b"\0"
    if r.tables_of_plan:
        descriptions = craft_coding.describe(tables, r.coder)
        owned_tables = craft.owned_tables(r.coder, r.log if r.coder == ANS else 11, len(tables), descriptions)
    assets = None
    if r.tables_of_plan or r.palette_of_plan or r.dictionary:
        assets = craft.assets(owned_palette, owned_tables, r.dictionary)
    rng = np.random.default_rng(seed)
    frame = craft.frame(
        dtype,
        array.shape,
        chain,
        [_body(r, planes, tables, rng) for planes in blocks],
        plan_hash=None if assets is None else craft.hash_of(assets),
        pad=bytes([r.pad]) + bytes(r.pad),
    )
    return Crafted(frame, array, dtype, assets)


def _value_stage(r: Recipe, elements: Array, shape: Sequence[int], dtype: str) -> tuple[bytes, Array, bytes]:
    """The chain's first field, the codes, and the palette part of the plan's assets."""
    if r.value == NARROW:
        codes = craft_stages.narrow_codes(elements, r.minimum, r.bits, r.shift)
        return craft.narrow(r.minimum, r.bits, r.shift), codes, b"\0"
    if r.value == PALETTE:
        palettes = craft_stages.palettes_of(elements, shape, r.axis)
        codes = craft_stages.palette_codes(elements, shape, r.axis, palettes, r.bits)
        if r.palette_of_plan:
            owned = craft.owned_palette(dtype, palettes, r.bits, r.axis)
            return craft.palette_of_plan(r.bits, r.axis), codes, owned
        return craft.palette_in_frame(palettes, r.bits, r.axis), codes, b"\0"
    return b"\0", elements, b"\0"


def _planes_of_blocks(r: Recipe, codes: Array, shape: Sequence[int]) -> list[list[Array]]:
    if codes.size == 0:
        return []
    if r.predict == MED:
        return craft_stages.med_planes(codes, shape, r.geometry, r.color, r.block)
    one_bit = r.value == NARROW and r.bits == 1
    return craft_stages.flat_planes(codes, r.block, r.planes, r.lag if r.predict == DELTA else 0, one_bit)


def _tables_for(r: Recipe, blocks: list[list[Array]]) -> list[Table]:
    """Every table knows every symbol of the frame, each leans towards others: so any tile may have any table."""
    symbols = b"".join(plane.tobytes() for planes in blocks for plane in planes) or b"\0"
    present = sorted(set(symbols))
    leaning = [bytes([present[t * 7 % len(present)]]) * (t * len(symbols) // 4) for t in range(r.tables)]
    return [craft_coding.table_for(symbols + lean, r.coder, r.log) for lean in leaning]


def _body(r: Recipe, planes: list[Array], tables: list[Table], rng: np.random.Generator) -> bytes:
    if r.coder == STORED:
        return b"".join(plane.tobytes() for plane in planes)
    modes = [r.modes[i % len(r.modes)] for i in range(len(planes))]
    tile = (2 ** r.tile[0], 2 ** r.tile[1])
    coded = [plane for plane, mode in zip(planes, modes, strict=True) if mode == ENTROPY]
    tile_map = rng.integers(0, len(tables), len(craft_coding.tiles_of(coded, tile))).tolist()
    log = 11 if r.coder == HUFFMAN else r.log
    entropy = Entropy(tables, r.coder, log, tile, tile_map, r.map_form, r.tables_of_plan)
    return craft_coding.coded_block(planes, modes, entropy, r.dictionary if ZSTD_DICTIONARY in modes else b"")
