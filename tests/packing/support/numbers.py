"""A dataset whose samples are their numbers, and what packing made of it.

cw.pack(Numbers(10), dest, transform, progress=False)
numbers_of(dest)
"""

from pathlib import Path
from typing import Any

import cordwood as cw


class Numbers:
    """Samples ``{"number": n}``; counted is what was read in this process."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> dict[str, int]:
        return {"number": number}


def pack(source: Any, dest: Path, transform: Any = None, **options: Any) -> cw.Packed:
    """`cw.pack`, quietly, and by default in this process."""
    packed = cw.pack(source, dest, transform, **{"workers": 0, "progress": False, **options})
    assert isinstance(packed, cw.Packed)
    return packed


def numbers_of(dest: Path) -> list[int]:
    """What is stored, in its order."""
    return [sample["number"] for sample in cw.open(dest)]
