"""Tables and titled lists for a terminal, with columns that are narrowed in turns if they do not fit.

for line in table([headings, *rows], 100, ((0, 36), (1, 22)), right={1}):
    print(line)
"""

from collections.abc import Collection, Iterator, Sequence

from cordwood.common.text import printable, shortened

_TITLE = 10  # columns that the title of a list takes


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
    """The columns' widths; `give_way` says which column is narrowed first, and how far, then the next.

    A last column that is empty below its heading gets no room at all.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if not any(row[-1] for row in rows[1:]):
        widths[-1] = 0
    for column, narrowest in give_way:
        over = sum(widths) + 2 * (sum(map(bool, widths)) - 1) - width
        if over > 0 and widths[column] > narrowest:
            widths[column] = max(narrowest, widths[column] - over)
    return widths


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
