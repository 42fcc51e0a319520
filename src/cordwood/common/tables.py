"""Tables and titled lists for a terminal, with columns that are narrowed in turns if they do not fit.

for line in table([headings, *rows], terminal_width(), ((0, 36), (1, 22)), right={1}):
    print(line)

Lines of text end between words, also on a narrow terminal: ``print(folded(lines))``.
"""

import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from textwrap import wrap

from cordwood.common.text import printable, shortened

_TITLE = 10  # columns that the title of a list takes
_ENDLESS = 1 << 20  # columns of a file or a pipe
_LEAST_BESIDE = 20  # columns for what is folded beside other cells
_GAP = re.compile(r" {2,}(?=\S)")  # between two cells
_COPIED = re.compile(r"(?: *cordwood |next: )|.*: cordwood ")  # commands and code, which are no use in pieces


def terminal_width(most: int = 100) -> int:
    """The columns of the terminal (or of ``COLUMNS``), but no more than `most`, which files and pipes get."""
    return min(most, shutil.get_terminal_size((most, 24)).columns)


def folded(lines: Iterable[str]) -> str:
    """The lines as one text, folded on terminals that are narrower; files and pipes get them as they are."""
    columns = shutil.get_terminal_size((_ENDLESS, 24)).columns
    return "\n".join(part for text in lines for line in text.split("\n") for part in fold(line, columns))


def fold(line: str, width: int) -> list[str]:
    """A line in pieces of whole words; what is too long continues below the beginning of its last cell."""
    if len(line) <= width or _COPIED.match(line):
        return [line]
    start = max((gap.end() for gap in _GAP.finditer(line)), default=0)
    if start > width - _LEAST_BESIDE:
        start = 0
    return wrap(
        line[start:],
        width,
        initial_indent=line[:start],
        subsequent_indent=" " * start or "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def table(
    rows: Sequence[tuple[str, ...]], width: int, give_way: Sequence[tuple[int, int]], right: Collection[int]
) -> Iterator[str]:
    """The lines of a table: headings, which are the first row, a rule, and the other rows; arguments as below."""
    widths = fit(rows, width, give_way)
    for number, row in enumerate(rows):
        yield table_line(row, widths, right)
        if not number:
            yield rule(widths)


def fit(rows: Sequence[tuple[str, ...]], width: int, give_way: Sequence[tuple[int, int]]) -> list[int]:
    """The columns' widths; `give_way` says which column is narrowed first, and how far (0: left out), then the next.

    A last column that is empty below its heading gets no room at all.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if not any(row[-1] for row in rows[1:]):
        widths[-1] = 0
    whole = list(widths)
    for column, narrowest in give_way:
        over = _total(widths) - width
        if over > 0 and widths[column] > narrowest:
            widths[column] = max(narrowest, widths[column] - over) if narrowest else 0
    for column, _ in reversed(give_way):  # what a column had that is left out
        if widths[column]:
            widths[column] += max(0, min(whole[column] - widths[column], width - _total(widths)))
    return widths


def _total(widths: Sequence[int]) -> int:
    """The columns of a line, with two between its cells."""
    return sum(widths) + 2 * (sum(map(bool, widths)) - 1)


def table_line(cells: tuple[str, ...], widths: list[int], right: Collection[int]) -> str:
    """One row; columns in `right` are aligned there, for numbers."""
    shown = []
    for column, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        if not width:
            continue
        if column == len(cells) - 1 and len(cell) > width:
            cell = cell[: width - 3] + "..."  # a note says the most important thing first
        cell = shortened(cell, width)
        shown.append(cell.rjust(width) if column in right else cell.ljust(width))
    return "  ".join(shown).rstrip()


def rule(widths: list[int]) -> str:
    """The line below the headings."""
    return "  ".join("-" * column for column in widths if column)


def section(title: str, items: list[str], width: int, most: int = 20) -> Iterator[str]:
    """A titled list; long items go on in the next line."""
    shown = items[:most]
    for number, item in enumerate(shown):
        label = title if number == 0 else ""
        for line_number, line in enumerate(wrapped(printable(item), width - _TITLE)):
            yield f"{label if line_number == 0 else '':<{_TITLE}}{line}".rstrip()
    if len(items) > len(shown):
        yield f"{'':<{_TITLE}}... {len(items) - len(shown)} more"


def wrapped(text: str, width: int) -> Iterator[str]:
    """Lines of whole words; a command to copy is not broken."""
    sentence, colon, command = text.rpartition(": cordwood ")
    if colon and len(text) > width:
        yield from wrapped(sentence + ":", width)
        yield f"  cordwood {command}"
        return
    line = ""
    for word in text.split(" "):
        if line and len(line) + 1 + len(word) > width:
            yield line
            line = "  " + word
        else:
            line = f"{line} {word}" if line else word
    yield line
