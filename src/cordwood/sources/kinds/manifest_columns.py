"""The types of a manifest's columns: whole numbers, numbers, text or anything, decided over all rows.

    columns = ColumnTypes(written=True)   # CSV: everything is written as text
    for line, row in enumerate(rows, 2): columns.see(row, line)
    columns.finish("list.csv")
    columns.values({"age": "42"})         # {"age": 42, "note": ""}, if all ages are whole numbers

So every row has all columns, in values of the same types, whichever row comes first. Where a row has no value (an empty
cell, a key that is missing or null), a number is NaN, a text is empty, and anything else is None. Labels are columns,
too; those that are text become classes, numbered in their order.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cordwood.common.text import brief, counted
from cordwood.errors import FormatError

LABEL: Final = "label"
_MOST_CLASSES = 1 << 16
_MOST_KEYS = 1 << 12  # of a JSONL file: each sample has all of them
_MOST_TOLD = 8  # columns in notes
_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")  # what is written back the same
_DIGITS = 19  # of the largest number of 64 bits
# Not 007, nor a whole number that does not fit: those are codes, of which a number would lose digits.
_NUMBER = re.compile(
    r"[+-]?((0|[1-9][0-9]{0,17})|(0|[1-9][0-9]*)?\.[0-9]+|(0|[1-9][0-9]*)\.)([eE][+-]?[0-9]+)?|[+-]?(nan|NaN|inf|Inf)"
)
_INT, _FLOAT, _STR, _ANY = "int", "float", "str", "any"
_BLANK = " \t"  # beside a value in CSV; a line end is a part of it
_EXACT = 1 << 53  # whole numbers up to this are the same as float64
_SURELY_TEXT = 100  # texts, more than numbers, after which a column is not looked at any more
_MOSTLY = 10  # of so many values one may be no number, and the column was probably meant to be numbers
_DEEPEST = 64  # objects in objects that are compared


class _Column:
    """What is known of one column."""

    __slots__ = ("count", "kind", "long", "odd", "others", "wide")

    def __init__(self) -> None:
        self.kind: Any = None  # a word, or the structure of a JSON value
        self.count = 0  # values
        self.others = 0  # of them, written ones that are no numbers
        self.long = 0  # of these, whole numbers that do not fit 64 bits
        self.odd: tuple[str, int] | None = None  # the first of these, and its line
        self.wide = False  # some whole number is none of float64


class ColumnTypes:
    """Sees every row, then turns values into what their column is."""

    def __init__(self, *, written: bool) -> None:
        self._written = written
        self._rows = 0
        self._columns: dict[str, _Column] = {}
        self._labelled: bool | None = None
        self._labels: set[str] = set()
        self._numbers: dict[str, int] = {}

    def is_empty(self, label: Any) -> bool:
        """Whether a label says nothing: its row has no class."""
        return label is None or (isinstance(label, str) and not (label.strip(_BLANK) if self._written else label))

    def see(self, values: Mapping[str, Any], line: int) -> None:
        """Take the values of a row, which begins in that line, into account."""
        self._rows += 1
        for name, value in values.items():
            column = self._columns.get(name)
            if column is None:
                column = self._columns[name] = self._new()
            if self._written:
                _see_written(column, value, line)
            elif value is not None:
                column.count += 1
                column.wide |= type(value) is int and not -_EXACT <= value <= _EXACT
                column.kind = _ANY if column.kind == _ANY else _wider(column.kind, _structure(value))
        if self._labelled is None:
            self._labelled = LABEL in values
        if self._labelled != (LABEL in values):
            raise FormatError("some rows have a label and some have none")
        if self._labelled:
            self._see_label(values[LABEL])

    def _new(self) -> _Column:
        if len(self._columns) >= _MOST_KEYS and not self._written:
            raise FormatError(
                f"more than {_MOST_KEYS:,} different keys, and each sample would have all of them: put what differs "
                "from row to row into one object below one key"
            )
        return _Column()

    def _see_label(self, label: Any) -> None:
        if self._written:
            label = label.strip(_BLANK)
        if isinstance(label, str) and not label.isascii() and any("\ud800" <= letter <= "\udfff" for letter in label):
            raise FormatError(f"the label {label!r:.100} is not UTF-8: save the manifest as UTF-8")
        if isinstance(label, str) and len(self._labels) <= _MOST_CLASSES:
            self._labels.add(label)  # in CSV that they are all numbers is known at the end only
        if not self._written and self._labels and self._columns[LABEL].kind != _STR:
            raise FormatError(f"the label is {label!r:.100}, and some labels are text and some are not")

    def finish(self, where: str) -> list[str]:
        """The classes, when every row was seen; none if labels are numbers."""
        for column in self._columns.values():
            column.kind = self._final(column)
        if LABEL not in self._columns or self._columns[LABEL].kind != _STR:
            return []
        if len(self._labels) > _MOST_CLASSES:
            raise FormatError(
                f"{where}: more than {_MOST_CLASSES:,} different labels that are text are no classes; give the column "
                "another name, such as caption, and it is kept as text"
            )
        self._numbers = {name: number for number, name in enumerate(sorted(self._labels))}
        return list(self._numbers)

    def _final(self, column: _Column) -> Any:
        """The kind of a column that has no value in some rows, and may have to hold both sorts of numbers."""
        if column.kind is None:
            return _STR if self._written else _ANY
        if column.kind in (_INT, _FLOAT):
            kind = _FLOAT if self._missing(column) else column.kind
            # As a float64 it would lose digits.
            return kind if kind == _INT or not column.wide else _STR if self._written else _ANY
        return column.kind if column.kind == _STR or not self._missing(column) else _ANY

    def _missing(self, column: _Column) -> int:
        return self._rows - column.count

    @property
    def varying(self) -> list[str]:
        """Columns whose values have several types or structures, or which are None in some rows."""
        return [name for name, column in self._columns.items() if column.kind == _ANY]

    @property
    def types(self) -> dict[str, str]:
        """Of each column the type of its values in words; empty for JSON values that have a structure."""
        told = {
            name: column.kind if column.kind in (_INT, _FLOAT, _STR, "bool", _ANY) else ""
            for name, column in self._columns.items()
        }
        return told | ({LABEL: _INT} if self._numbers else {})

    def values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """A row's values as their columns are, with something for each column."""
        return {name: self._value(name, column.kind, given.get(name)) for name, column in self._columns.items()}

    def _value(self, name: str, kind: Any, value: Any) -> Any:
        if name == LABEL and self._numbers:
            return self._numbers[value.strip(_BLANK) if self._written else value]
        if kind == _STR:
            return "" if value is None else value
        if kind == _FLOAT:
            return math.nan if value is None or (self._written and not value.strip(_BLANK)) else float(value)
        return int(value) if kind == _INT else value

    def notes(self) -> Sequence[str]:
        """What stands where rows have no value, for people; of text in CSV it is what was written."""
        told = []
        for name, column in self._columns.items():
            missing = self._missing(column)
            if self._written and column.kind == _FLOAT and missing:
                told.append(f"column {brief(name)}: {counted(missing, 'empty cell')} of {self._rows:,} became NaN")
            elif self._written and column.kind == _STR and column.wide:
                beside = counted(missing, "empty cell") if missing else "decimals"
                told.append(
                    f"column {brief(name)} has {beside}, so it would be float64, which loses digits of its whole "
                    "numbers: it is kept as text"
                )
            elif not self._written and missing:
                what = {_FLOAT: "NaN", _STR: "an empty text"}.get(column.kind, "None")
                told.append(
                    f"key {brief(name)}: {counted(missing, 'row')} of {self._rows:,} without a value got {what}"
                )
        odd = [
            f"column {brief(name)} is text because of {brief(column.odd[0])} in line {column.odd[1]:,}"
            + (", which does not fit 64 bits" if column.long == column.others else "")
            for name, column in self._columns.items()
            if column.odd is not None and (column.others * _MOSTLY <= column.count or column.long == column.others)
        ]
        return [*_shortened(odd, "like that"), *_shortened(told, "with missing values")]


def _shortened(told: list[str], what: str) -> list[str]:
    more = [f"and {len(told) - _MOST_TOLD:,} more columns {what}"] if len(told) > _MOST_TOLD else []
    return [*told[:_MOST_TOLD], *more]


def _see_written(column: _Column, value: str, line: int) -> None:
    text = value.strip(_BLANK)
    if not text or (column.others > _SURELY_TEXT and column.others * 2 > column.count):
        return
    column.count += 1
    whole = _WHOLE.fullmatch(text) is not None
    if whole and _fits(text):
        column.kind = column.kind or _INT
        column.wide |= column.kind != _STR and len(text) > 15 and abs(int(text)) > _EXACT
    elif _NUMBER.fullmatch(text):
        column.kind = _STR if column.kind == _STR else _FLOAT
    else:
        column.kind, column.wide = _STR, False
        column.others += 1
        column.long += whole
        column.odd = column.odd or (text, line)


def _fits(text: str) -> bool:
    """Whether a written whole number is one of int64."""
    return len(text) < _DIGITS or (len(text) <= _DIGITS + 1 and -(1 << 63) <= int(text) < 1 << 63)


def _structure(value: Any, depth: int = 0) -> Any:
    """The type of a JSON value; of an object, the types of what it holds."""
    if type(value) is int:
        return _INT if -(1 << 63) <= value < 1 << 63 else "long"
    if type(value) is dict and depth < _DEEPEST:
        return {key: _structure(item, depth + 1) for key, item in value.items()}
    return type(value).__name__


def _wider(kind: Any, other: Any) -> Any:
    """What holds both; whole numbers among numbers are numbers."""
    if kind is None or kind == other:
        return other
    return _FLOAT if isinstance(kind, str) and isinstance(other, str) and {kind, other} == {_INT, _FLOAT} else _ANY
