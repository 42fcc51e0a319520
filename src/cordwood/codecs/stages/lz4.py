"""lz4: repeats, when reading must cost next to nothing.

    every plane of every block is one LZ4 block

A plane that does not get smaller is left raw.
"""

from dataclasses import dataclass
from typing import ClassVar

from cordwood.codecs.stages.base import Stage


@dataclass(frozen=True)
class Lz4(Stage):
    """``level`` 1 is the fast kind, 3 to 12 search longer; reading is the same."""

    name: ClassVar[str] = "lz4"
    place: ClassVar[int] = 3
    level: int = 1

    def __post_init__(self) -> None:
        self._check("level", range(1, 13))

    def settings(self) -> dict[str, int]:
        return {"coder": 1, "mode": 4, "level": self.level}
