"""An inspection as a table and bars for a notebook."""

from cordwood.common.html import MAX_ROWS, bars, lists, sentence, table, title, together
from cordwood.common.text import human
from cordwood.tensors.inspecting.result import Inspection
from cordwood.tensors.inspecting.text import (
    HEADINGS,
    RIGHT,
    attention,
    cells_of,
    describe_global,
    first_tensors,
    sizes_text,
)


def format_html(inspection: Inspection) -> str:
    """A self-contained piece of HTML."""
    facts = (inspection.format, inspection.kind, human(inspection.file_size))
    parts = [title(inspection.path, ", ".join(facts))]
    if inspection.tensors:
        parts.append(_table(inspection))
    if inspection.in_memory:
        share = 100 * inspection.wasted / inspection.in_memory
        reached = ("reachable", inspection.reachable, human(inspection.reachable))
        wasted = ("wasted", inspection.wasted, f"{human(inspection.wasted)} ({share:.1f}%)")
        parts.append(bars([reached, wasted]))
        parts.append(sentence(f"{sizes_text(inspection)}; {inspection.checks}"))
    needs = [describe_global(needed) for needed in attention(inspection.globals)]
    parts += lists((("Damaged", inspection.damaged), ("Needs", needs), ("Advice", inspection.advice)))
    return together(parts)


def _table(inspection: Inspection) -> str:
    rows = inspection.tensors
    first_in = first_tensors(rows)
    head, tail = rows, rows[:0]
    if len(rows) > MAX_ROWS:
        head, tail = rows[: MAX_ROWS * 2 // 3], rows[len(rows) - MAX_ROWS // 3 :]
    cells = [cells_of(row, first_in) for row in head]
    hidden = len(rows) - len(head) - len(tail)
    if hidden:
        cells.append((f"... {hidden} more rows (all: .tensors)", *("" for _ in HEADINGS[1:])))
    cells += [cells_of(row, first_in) for row in tail]
    return table(HEADINGS, cells, RIGHT)
