"""zstd: repeats, zeros, masks, text.

    every plane of every block is one Zstandard frame, with the plan's dictionary if it owns one

A plane that does not get smaller is left raw.
"""

from dataclasses import dataclass
from typing import ClassVar

from cordwood.codecs.stages.base import Stage


@dataclass(frozen=True)
class Zstd(Stage):
    """``level`` is zstd's own, 1 to 22."""

    name: ClassVar[str] = "zstd"
    place: ClassVar[int] = 3
    level: int = 3

    def __post_init__(self) -> None:
        self._check("level", range(1, 23))

    def settings(self) -> dict[str, int]:
        return {"coder": 1, "mode": 3, "level": self.level}
