"""Describes what is wrong with a store, piece by piece.

    damages = Damages()
    damages.add(Damage("shard-00000003.cws", "the row has another checksum", first=901, last=901))

What goes wrong with one sample after the other in the same way, as when a plan is lost, is one entry.
"""

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Damage:
    """A damaged piece of a store.

    `file` is its name inside the store. The samples from `first` to `last` cannot be read because of it, none if these
    are None; if `field` is given, only that field of them cannot. `reason` is a number as in FormatError.
    """

    file: str
    what: str
    first: int | None = None
    last: int | None = None
    field: str | None = None
    reason: int = 0

    @property
    def samples(self) -> int:
        """How many samples it concerns."""
        return 0 if self.first is None or self.last is None else self.last - self.first + 1

    def __str__(self) -> str:
        places = [self.file]
        if self.samples == 1:
            places.append(f"sample {self.first}")
        elif self.samples:
            places.append(f"samples {self.first} to {self.last}")
        if self.field is not None:
            places.append(f"field {self.field!r}")
        return f"{', '.join(places)}: {self.what}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "file": self.file,
            "first": self.first,
            "last": self.last,
            "field": self.field,
            "reason": self.reason,
            "what": self.what,
        }


class Damages:
    """A list of damages that grows; those of neighbouring samples that are alike are put together."""

    def __init__(self) -> None:
        self.found: list[Damage] = []
        self._latest: dict[tuple[str, str | None, int | str], int] = {}

    def add(self, damage: Damage) -> None:
        """Take one more in; samples come in rising order."""
        key = (damage.file, damage.field, damage.reason or damage.what)
        place = self._latest.get(key)
        if place is not None and damage.first is not None:
            before = self.found[place]
            if before.last is not None and before.last + 1 == damage.first:
                self.found[place] = replace(before, last=damage.last)
                return
        self._latest[key] = len(self.found)
        self.found.append(damage)


def ranges(numbers: list[int]) -> list[tuple[int, int]]:
    """Rising numbers as runs, both ends included: ``[1, 2, 3, 7]`` are ``[(1, 3), (7, 7)]``."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] + 1 == number:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
