"""HTML for notebooks: tables, lists and bars without scripts, style sheets or anything fetched.

    parts = [title("x.pt", "pt, 1.2 MB"), table(("name", "size"), [("weight", "1.2 MB")], right={1})]
    return together(parts)

Names come from files, so every text is escaped here. Colours are in the middle between black and white: a notebook may
be light or dark, and does not tell.
"""

from collections.abc import Collection, Iterable, Sequence
from html import escape

from cordwood.common.text import printable

MAX_ROWS = 200
_CELL = "padding:1px 8px;vertical-align:middle;text-align:"
_NUMBER = "right;white-space:nowrap"  # a size stays beside its unit
_BAR = "background:#3a86c8;height:0.9em;border-radius:2px"
_LONGEST_BAR = 16  # em
_LETTER_BELOW_LETTER = "font-family:ui-monospace,monospace;white-space:pre-wrap"  # whatever a notebook does with <pre>


def safe(text: str) -> str:
    """Text as it is, whatever is in it."""
    return escape(printable(text))


def title(name: str, facts: str) -> str:
    """The first line."""
    return f"<p><b>{safe(name)}</b>: {safe(facts)}</p>"


def sentence(text: str) -> str:
    """A line."""
    return f"<p>{safe(text)}</p>"


def plain(text: str) -> str:
    """What ``print`` shows, letter below letter."""
    return f'<pre style="{_LETTER_BELOW_LETTER}">{escape(chr(10).join(map(printable, text.split(chr(10)))))}</pre>'


class Printed:
    """A result that a prompt and a notebook show as ``print`` does. A dataclass of this kind has ``repr=False``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return plain(str(self))


def table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]], right: Collection[int] = ()) -> str:
    """A table; columns in `right` are aligned there, for numbers. A last column that is empty is left out."""
    cells = [headings, *rows]
    if not any(row[-1] for row in cells[1:]):
        cells = [row[:-1] for row in cells]
    lines = [_row(row, "th" if number == 0 else "td", right) for number, row in enumerate(cells)]
    return f'<table style="margin:0 0 1em 0">{"".join(lines)}</table>'


def _row(cells: tuple[str, ...], tag: str, right: Collection[int]) -> str:
    aligned = (
        f'<{tag} style="{_CELL}{_NUMBER if column in right else "left"}">{safe(cell)}</{tag}>'
        for column, cell in enumerate(cells)
    )
    return f"<tr>{''.join(aligned)}</tr>"


def bars(rows: Sequence[tuple[str, float, str]]) -> str:
    """Amounts as lengths, one below the other: (name, amount, what it says)."""
    longest = max((amount for _, amount, _ in rows), default=0) or 1
    lines = (
        f'<tr><td style="{_CELL}left">{safe(name)}</td>'
        f'<td style="{_CELL}left"><div style="{_BAR};width:{_LONGEST_BAR * amount / longest:.3f}em"></div></td>'
        f'<td style="{_CELL}left;white-space:nowrap">{safe(said)}</td></tr>'
        for name, amount, said in rows
    )
    return f'<table style="margin:0 0 1em 0">{"".join(lines)}</table>'


def lists(titled: Iterable[tuple[str, Sequence[str]]]) -> Iterable[str]:
    """Titled lists, those that have items."""
    for name, items in titled:
        if items:
            listed = "".join(f"<li>{safe(item)}</li>" for item in items[:MAX_ROWS])
            more = f"<li>... {len(items) - MAX_ROWS} more</li>" if len(items) > MAX_ROWS else ""
            yield f"<p><b>{safe(name)}</b></p><ul>{listed}{more}</ul>"


def together(parts: Iterable[str]) -> str:
    """All of it."""
    return f"<div>{''.join(parts)}</div>"
