"""A store's inspection for a notebook: the tables, and pictures of image-like fields.

Names and texts come from the store, so everything is escaped; pictures are made here, pixel by pixel.
"""

from collections.abc import Collection, Iterable
from html import escape

from cordwood.store.inspection import StoreInspection
from cordwood.store.inspection_text import (
    HEADINGS,
    RIGHT,
    VALUE_HEADINGS,
    VALUES_RIGHT,
    basis,
    cells_of,
    class_lines,
    headline,
    plan_lines,
    rounding_lines,
    value_cells,
)
from cordwood.tensors.sizes import human, printable

_MOST_ROWS = 200
_CELL = "padding:1px 8px;text-align:"


def format_html(inspection: StoreInspection) -> str:
    """A self-contained piece of HTML: no script, no style sheet, nothing fetched."""
    shown = inspection.fields[:_MOST_ROWS]
    parts = [f"<p><b>{_safe(inspection.path)}</b>: {_safe(headline(inspection))}</p>"]
    if shown:
        parts.append(_table(HEADINGS, (cells_of(row, inspection.samples) for row in shown), RIGHT))
        if len(shown) < len(inspection.fields):
            parts.append(f"<p>... {len(inspection.fields) - len(shown)} more fields (all: .fields)</p>")
    values = [value_cells(row) for row in shown if row.values is not None]
    if values:
        parts.append(_table(VALUE_HEADINGS, values, VALUES_RIGHT))
    parts += [_pictures(row.name, row.pictures) for row in shown if row.pictures]
    parts.append(f"<p>{_safe(_sentence(inspection))}</p>")
    lists = (
        ("Plans", plan_lines(inspection)),
        ("Rounded", rounding_lines(inspection)),
        ("Classes", class_lines(inspection, False)),
        ("Schema", [inspection.schema]),
        ("Damaged", inspection.damaged),
    )
    for title, items in lists:
        if items:
            listed = "".join(f"<li>{_safe(item)}</li>" for item in items[:_MOST_ROWS])
            parts.append(f"<p><b>{title}</b></p><ul>{listed}</ul>")
    return f"<div>{''.join(parts)}</div>"


def _safe(text: str) -> str:
    return escape(printable(text))


def _sentence(inspection: StoreInspection) -> str:
    before, after = inspection.before, inspection.after
    times = f", {before / after:.2f}x smaller" if after and before >= after else ""
    return "; ".join((f"{human(before)} before, {human(after)} after{times}", *basis(inspection)))


def _table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]], right: Collection[int]) -> str:
    cells = [headings, *rows]
    if not any(row[-1] for row in cells[1:]):
        cells = [row[:-1] for row in cells]  # notes, and there are none
    lines = [_row(row, "th" if number == 0 else "td", right) for number, row in enumerate(cells)]
    return f'<table style="margin:0 0 1em 0">{"".join(lines)}</table>'


def _row(cells: tuple[str, ...], tag: str, right: Collection[int]) -> str:
    aligned = (
        f'<{tag} style="{_CELL}{"right" if column in right else "left"}">{_safe(cell)}</{tag}>'
        for column, cell in enumerate(cells)
    )
    return f"<tr>{''.join(aligned)}</tr>"


def _pictures(name: str, pictures: list[str]) -> str:
    images = "".join(
        f'<img src="{escape(url)}" alt="{_safe(name)}" style="margin:0 4px 4px 0;display:inline-block">'
        for url in pictures
    )
    return f"<p>{_safe(name)}</p><div>{images}</div>"
