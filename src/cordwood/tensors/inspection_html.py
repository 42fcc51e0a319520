"""An inspection as a table for a notebook. Names come from the file, so everything is escaped."""

from html import escape

from cordwood.tensors.inspection import Inspection
from cordwood.tensors.inspection_text import HEADINGS, attention, cells_of, describe_global, first_tensors
from cordwood.tensors.sizes import human, printable

_MOST_ROWS = 200
_NUMBERS = frozenset((3, 4, 5))


def format_html(inspection: Inspection) -> str:
    """A self-contained piece of HTML: no script, no style sheet, nothing fetched."""
    facts = (inspection.format, inspection.kind, human(inspection.file_size))
    parts = [f"<p><b>{_safe(inspection.path)}</b>: {_safe(', '.join(facts))}</p>"]
    if inspection.tensors:
        parts.append(_table(inspection))
    if inspection.stored:
        share = 100 * inspection.wasted / inspection.stored
        parts.append(
            f"<p>{human(inspection.stored)} stored, {human(inspection.reachable)} reachable, "
            f"{human(inspection.wasted)} wasted ({share:.1f}%); {_safe(inspection.checks)}</p>"
        )
    needs = [describe_global(needed) for needed in attention(inspection.globals)]
    for title, items in (("Damaged", inspection.damaged), ("Needs", needs), ("Advice", inspection.advice)):
        if items:
            listed = "".join(f"<li>{_safe(item)}</li>" for item in items[:_MOST_ROWS])
            parts.append(f"<p><b>{title}</b></p><ul>{listed}</ul>")
    return f"<div>{''.join(parts)}</div>"


def _safe(text: str) -> str:
    return escape(printable(text))


def _table(inspection: Inspection) -> str:
    rows = inspection.tensors
    first_in = first_tensors(rows)
    lines = [_row(HEADINGS, "th")]
    head, tail = rows, rows[:0]
    if len(rows) > _MOST_ROWS:
        head, tail = rows[: _MOST_ROWS * 2 // 3], rows[len(rows) - _MOST_ROWS // 3 :]
    lines += [_row(cells_of(row, first_in), "td") for row in head]
    hidden = len(rows) - len(head) - len(tail)
    if hidden:
        lines.append(f'<tr><td colspan="{len(HEADINGS)}">... {hidden} more rows (all: .tensors)</td></tr>')
    lines += [_row(cells_of(row, first_in), "td") for row in tail]
    return f"<table>{''.join(lines)}</table>"


def _row(cells: tuple[str, ...], tag: str) -> str:
    aligned = (
        f'<{tag} style="text-align:{"right" if column in _NUMBERS else "left"}">{_safe(cell)}</{tag}>'
        for column, cell in enumerate(cells)
    )
    return f"<tr>{''.join(aligned)}</tr>"
