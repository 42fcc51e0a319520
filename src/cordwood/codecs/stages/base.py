"""The base class of the stages of a plan.

A stage is a frozen dataclass: its fields are its parameters, ``str()`` is its place in the readable chain,
``settings()`` are the numbers that the native encoder is told. Layout stages turn an array into planes of bytes; the
last stage turns planes into bytes.
"""

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from cordwood.errors import UsageError

# The native encoder's numbers, in its order, with the values that mean "as is, stored".
DEFAULTS: dict[str, int] = {
    "dtype": 0,
    "value": 0,
    "pack_bits": 1,
    "align_top": 0,
    "palette_bits": 8,
    "palette_axis": 255,
    "palette_source": 0,
    "predict": 0,
    "geometry": 0,
    "color": 0,
    "lag": 1,
    "planes": 0,
    "coder": 0,
    "mode": 0,
    "entropy": 0,
    "tile_h": 0,
    "tile_w": 12,
    "max_tables": 1,
    "level": 0,
    "saving": 0,
    "block": 0,
}


@dataclass(frozen=True)
class Stage:
    """One step of a chain."""

    name: ClassVar[str]
    place: ClassVar[int]  # stages stand in this order

    def __str__(self) -> str:
        return self.name

    def settings(self) -> dict[str, int]:
        """What the native encoder is told."""
        raise TypeError(f"{type(self).__name__} is not a stage that encodes")

    def parameters(self) -> dict[str, Any]:
        """The fields, for JSON."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _check(self, name: str, allowed: tuple[Any, ...] | range) -> None:
        value = getattr(self, name)
        if type(value) is not type(allowed[0]) or value not in allowed:
            shown = f"{allowed[0]} to {allowed[-1]}" if isinstance(allowed, range) else ", ".join(map(repr, allowed))
            raise UsageError(f"{self.name}: {name} is {value!r}, but can be {shown}")
