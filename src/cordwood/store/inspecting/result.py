"""The result of inspecting a store: fields for programs, a table for people, pictures for a notebook.

::

    inspection = cw.open("train.cordwood").inspect()
    inspection.samples, inspection.before, inspection.after     # bytes
    {row.name: row.ratio for row in inspection.fields}
    print(inspection)
"""

from dataclasses import dataclass, field
from typing import Any

from cordwood.common.arguments import checks_keywords
from cordwood.common.html import Printed
from cordwood.common.tables import terminal_width
from cordwood.store.inspecting.value_statistics import Values

_MOST_CLASSES = 100_000  # in a dict for JSON


@dataclass(slots=True)
class FieldRow:
    """One field.

    `before` counts the bytes of the values as they were given, `after` those of the frames, or of the column. `present`
    samples have a value, `none` have None, and in `absent` ones the key is missing. `smallest` and `largest` are the
    least and the greatest size of each dimension, if all arrays have one number of dimensions, which otherwise lies in
    `ranks`. `worst_error` is the largest absolute error that storing as `stored_as` has made. `values` are those of
    `values_of` samples; `checked` samples were read.
    """

    name: str
    kind: str
    dtype: str
    column: bool
    stored_as: str | None
    goal: str
    plan: str
    before: int = 0
    after: int = 0
    present: int = 0
    none: int = 0
    absent: int = 0
    ranks: tuple[int, int] | None = None
    smallest: tuple[int, ...] | None = None
    largest: tuple[int, ...] | None = None
    worst_error: float | None = None
    values: Values | None = None
    values_of: int = 0
    checked: int = 0
    classes: list[tuple[str, int]] | None = None
    pictures: list[str] = field(default_factory=list, repr=False)
    captions: list[str] = field(default_factory=list, repr=False)  # the classes of these pictures' samples

    @property
    def ratio(self) -> float | None:
        """How many times smaller the field has become."""
        return self.before / self.after if self.after else None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "kind": self.kind,
            "dtype": self.dtype,
            "column": self.column,
            "stored_as": self.stored_as,
            "goal": self.goal,
            "plan": self.plan,
            "before": self.before,
            "after": self.after,
            "ratio": self.ratio,
            "present": self.present,
            "none": self.none,
            "absent": self.absent,
            "ranks": None if self.ranks is None else list(self.ranks),
            "smallest": None if self.smallest is None else list(self.smallest),
            "largest": None if self.largest is None else list(self.largest),
            "worst_error": self.worst_error,
            "values": None if self.values is None else self.values.to_dict(),
            "values_of": self.values_of,
            "checked": self.checked,
            "classes": None
            if self.classes is None
            else [{"name": name, "count": count} for name, count in self.classes[:_MOST_CLASSES]],
        }


@dataclass(slots=True, repr=False)
class StoreInspection(Printed):
    """What is in a store. Made by `inspect`; prints as a table, shows itself with pictures in a notebook.

    ::

        inspection = cw.inspect("train.cordwood")
        print(inspection)
        for row in inspection.fields:
            print(row.name, row.plan, row.before, row.after)

    `size` counts the bytes of all files of the store. Sizes, counts and shapes of fields come from the footers of the
    shards. At most 1,000 shards are read; `asked` is their number, and sizes and counts are scaled up where there are
    more. Of every field, `checked` samples were read and compared with their checksums; `verify` reads all of
    them. `damaged` says what could not be read, `notes` what else there is to know, a line each.
    """

    path: str
    samples: int
    shards: int
    size: int
    goal: str
    shard_bytes: int
    schema: str
    fields: list[FieldRow] = field(default_factory=list)
    asked: int = 0
    damaged: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def checked(self) -> int:
        """Samples that were read, of every field at least as many."""
        return min((row.checked for row in self.fields), default=self.samples)

    @property
    def before(self) -> int:
        """Bytes of all values as they were given."""
        return sum(row.before for row in self.fields)

    @property
    def after(self) -> int:
        """Bytes that they take in the store, without its indexes."""
        return sum(row.after for row in self.fields)

    def __str__(self) -> str:
        return self.table()

    @checks_keywords("StoreInspection.table")
    def table(self, *, max_rows: int | None = 60, width: int | None = None) -> str:
        """The table that `print` shows; `max_rows=None` shows every field and every class. It fits the
        terminal, or `width`."""
        from cordwood.store.inspecting.text import format_store

        return format_store(self, max_rows, width or terminal_width())

    def _repr_html_(self) -> str:
        from cordwood.store.inspecting.html import format_html

        return format_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the pictures, for JSON."""
        return {
            "path": self.path,
            "format": "store",
            "samples": self.samples,
            "shards": self.shards,
            "size": self.size,
            "before": self.before,
            "after": self.after,
            "goal": self.goal,
            "shard_bytes": self.shard_bytes,
            "schema": self.schema,
            "fields": [row.to_dict() for row in self.fields],
            "asked": self.asked,
            "checked": {"index": True, "footers": self.asked, "samples": self.checked},
            "damaged": self.damaged,
            "notes": self.notes,
        }
