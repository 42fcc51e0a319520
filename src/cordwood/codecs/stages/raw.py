"""raw: the bytes as they are.

    every block is a piece of the array's bytes (or of its codes), one after the other, aligned to 64 from 64 KiB on

Such a frame can be mapped and gathered from, and still has its checksums.
"""

from dataclasses import dataclass
from typing import ClassVar

from cordwood.codecs.stages.base import Stage


@dataclass(frozen=True)
class Raw(Stage):
    """Stored bytes."""

    name: ClassVar[str] = "raw"
    place: ClassVar[int] = 3

    def settings(self) -> dict[str, int]:
        return {"coder": 0}
