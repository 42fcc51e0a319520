"""What a part of the benchmark hands back: tables of figures to show, and measurements to judge. Both survive JSON.

A cell of a table is text, a number, a `Spread` or nothing; its column says how numbers are written. A table whose rows
are curves has a `Chart`, which says how it is drawn.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from benchmarks.harness.packages import PackageCache
from benchmarks.harness.timing import Spread

Kind = Literal["text", "bytes", "seconds", "ms", "digits-ms", "ratio", "percent", "rate", "count"]
Cell = str | int | float | Spread | None


@dataclass(frozen=True)
class Settings:
    """How long and how much to measure."""

    quick: bool
    cache: PackageCache
    rounds: int
    least_seconds: float
    photographs: int
    weights_limit: int | None
    state_bytes: int  # of the state_dict that is saved and loaded
    slices: int
    reads: int
    memory_bytes: int  # of the storage whose saving is watched; files to trim have twice as many
    against: str | None = None  # a git revision to take turns with

    @classmethod
    def choose(cls, cache: Path, *, quick: bool, against: str | None = None) -> Self:
        """A full run, or a quick one that shows that everything works."""
        if quick:
            return cls(True, PackageCache(cache), 5, 0.02, 26, 1 << 21, 32_000_000, 16, 50, 16_000_000, against)
        return cls(False, PackageCache(cache), 15, 0.1, 65, None, 500_000_000, 256, 1000, 200_000_000, against)


@dataclass(frozen=True)
class Chart:
    """A table as a picture: each row is a curve, each column after the first a place on the axis."""

    name: str
    across: str  # what grows from column to column
    up: str  # what the cells are
    places: list[float]  # of the columns after the first
    limits: list[str]  # rows that tell what the machine can do: drawn dashed

    @property
    def file(self) -> str:
        """The picture's name."""
        return f"bench-{self.name}.svg"


@dataclass
class Table:
    """`columns` are (heading, kind of number) pairs; every row has one cell a column."""

    title: str
    columns: list[tuple[str, Kind]]
    rows: list[list[Cell]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    chart: Chart | None = None

    def add(self, *cells: Cell) -> None:
        """Append one row."""
        if len(cells) != len(self.columns):
            raise ValueError(f"{len(cells)} cells for the {len(self.columns)} columns of '{self.title}'")
        self.rows.append(list(cells))

    def to_json(self) -> dict[str, Any]:
        """Plain lists and dictionaries; a spread becomes a dictionary of its fields."""
        data = {
            "title": self.title,
            "columns": [list(column) for column in self.columns],
            "rows": [[vars(cell) if isinstance(cell, Spread) else cell for cell in row] for row in self.rows],
            "notes": self.notes,
        }
        return data | {"chart": vars(self.chart)} if self.chart else data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """A table as `to_json` wrote it."""
        rows = [[Spread(**cell) if isinstance(cell, dict) else cell for cell in row] for row in data["rows"]]
        columns = [(heading, kind) for heading, kind in data["columns"]]
        chart = Chart(**data["chart"]) if "chart" in data else None
        return cls(data["title"], columns, rows, list(data["notes"]), chart)


@dataclass
class Outcome:
    """Tables, measurements by the key of their goal, and for goals that could not be measured the reason."""

    tables: list[Table] = field(default_factory=list)
    measured: dict[str, Spread] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def absorb(self, other: "Outcome") -> None:
        """Take over everything another part found."""
        self.tables += other.tables
        self.measured.update(other.measured)
        self.reasons.update(other.reasons)

    @classmethod
    def unavailable(cls, title: str, keys: Iterable[str], reason: str) -> Self:
        """A part that could not run: its place in the report says why."""
        return cls([Table(title, [], notes=[f"Not measured: {reason}"])], {}, dict.fromkeys(keys, reason))
