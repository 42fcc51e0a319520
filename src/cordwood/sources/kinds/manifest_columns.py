"""The types of a manifest's columns: whole numbers, numbers or text, decided over all rows.

    columns = ColumnTypes(written=True)   # CSV: everything is written as text
    for row in rows: columns.see(row)
    columns.value("age", "42")            # 42, if all ages are whole numbers

Labels are columns, too; those that are text become classes, numbered in their order.
"""

import re
from typing import Any, Final

from cordwood.errors import FormatError

LABEL: Final = "label"
_MOST_CLASSES = 1 << 16
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})")  # what fits 64 bits, and is written back the same
# Not 007, nor a whole number that does not fit: those are codes, of which a number would lose digits.
_NUMBER = re.compile(
    r"[+-]?((0|[1-9][0-9]{0,17})|(0|[1-9][0-9]*)?\.[0-9]+|(0|[1-9][0-9]*)\.)([eE][+-]?[0-9]+)?|[+-]?(nan|NaN|inf|Inf)"
)
_INT, _FLOAT, _STR, _OTHER = "int", "float", "str", "other"


class ColumnTypes:
    """Sees every row, then turns values into what their column is."""

    def __init__(self, *, written: bool) -> None:
        self._written = written
        self._kinds: dict[str, str] = {}
        self._labelled: bool | None = None
        self._labels: set[str] = set()
        self._numbers: dict[str, int] = {}

    def see(self, values: dict[str, Any]) -> None:
        """Take a row's values into account."""
        for name, value in values.items():
            kind = self._kinds.get(name)
            if not self._written:
                self._kinds[name] = _wider(kind, _json_kind(value))
            elif kind is not _STR:
                self._kinds[name] = _written_kind(value, kind)
        if self._labelled is None:
            self._labelled = LABEL in values
        if self._labelled != (LABEL in values):
            raise FormatError("some rows have a label and some have none")
        if self._labelled:
            self._see_label(values[LABEL])

    def _see_label(self, label: Any) -> None:
        if label is None or label == "":
            raise FormatError("the label is empty")
        if isinstance(label, str) and not label.isascii() and any("\ud800" <= letter <= "\udfff" for letter in label):
            raise FormatError(f"the label {label!r:.100} is not UTF-8: save the manifest as UTF-8")
        if isinstance(label, str) and len(self._labels) <= _MOST_CLASSES:
            self._labels.add(label)  # in CSV that they are all numbers is known at the end only
        if not self._written and self._labels and self._kinds[LABEL] != _STR:
            raise FormatError(f"the label is {label!r:.100}, and some labels are text and some are not")

    def finish(self, where: str) -> list[str]:
        """The classes, when every row was seen; none if labels are numbers."""
        if self._kinds.get(LABEL) != _STR:
            return []
        if len(self._labels) > _MOST_CLASSES:
            raise FormatError(
                f"{where}: more than {_MOST_CLASSES:,} different labels that are text are no classes; give the column "
                "another name, such as caption, and it is kept as text"
            )
        self._numbers = {name: number for number, name in enumerate(sorted(self._labels))}
        return list(self._numbers)

    def value(self, name: str, value: Any) -> Any:
        """A value as its column is."""
        kind = self._kinds[name]
        if name == LABEL and self._numbers:
            return self._numbers[value]
        if kind == _INT:
            return int(value)
        return float(value) if kind == _FLOAT else value


def _written_kind(value: str, kind: str | None) -> str:
    if kind in (None, _INT) and _WHOLE.fullmatch(value):
        return _INT
    return _FLOAT if _NUMBER.fullmatch(value) else _STR


def _json_kind(value: Any) -> str:
    if type(value) is int and -(1 << 63) <= value < 1 << 63:
        return _INT
    return _FLOAT if type(value) is float else _STR if type(value) is str else _OTHER


def _wider(kind: str | None, other: str) -> str:
    """What holds both; whole numbers among numbers are numbers."""
    if kind is None or kind == other:
        return other
    return _FLOAT if {kind, other} == {_INT, _FLOAT} else _OTHER
