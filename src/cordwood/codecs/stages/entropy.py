"""entropy: frequent bytes get short codes, with up to 16 tables a block, each tile of a plane taking the one that
suits it.

    tables | which tile has which table | streams of bits, interleaved symbol by symbol

Two coders. huffman reads eight streams at once and is the faster; ans reads four, spends fractions of a bit on a
symbol and is the smaller. A plane of one value is a constant, and one that would not get smaller by ``saving`` is
left raw; with ``or_zstd`` a plane that zstd packs better goes there.
"""

from dataclasses import dataclass
from typing import ClassVar

from cordwood.codecs.stages.base import Stage
from cordwood.errors import UsageError

CODERS = {"huffman": 0, "ans": 1}


@dataclass(frozen=True)
class Entropy(Stage):
    """``tile`` is the side of a square tile in images, a power of two; lines have tiles of 4096 bytes."""

    name: ClassVar[str] = "entropy"
    place: ClassVar[int] = 3
    coder: str = "huffman"
    tile: int = 16
    max_tables: int = 8
    saving: float = 0.02
    or_zstd: bool = False

    def __post_init__(self) -> None:
        self._check("coder", tuple(CODERS))
        self._check("tile", (4, 8, 16, 32, 64))
        self._check("max_tables", range(1, 17))
        self._check("or_zstd", (True, False))
        if not isinstance(self.saving, float) or not 0 <= self.saving < 1:
            raise UsageError(f"entropy: saving is {self.saving!r}, but is a part of a plane: 0.0 to 1.0")

    def settings(self) -> dict[str, int]:
        side = self.tile.bit_length() - 1
        shape = {"tile_h": side, "tile_w": side, "max_tables": self.max_tables, "saving": int(self.saving * 256)}
        return {"coder": 1, "mode": 6 if self.or_zstd else 2, "entropy": CODERS[self.coder], "level": 12, **shape}
