"""A store's inspection for a notebook: tables, bars, and pictures of image-like fields.

Names and texts come from the store, so everything is escaped; pictures are made here, pixel by pixel.
"""

from html import escape

from cordwood.common.html import MAX_ROWS, bars, lists, safe, sentence, table, title, together
from cordwood.common.text import human, shortened
from cordwood.store.inspecting.result import FieldRow, StoreInspection
from cordwood.store.inspecting.text import (
    HEADINGS,
    RIGHT,
    VALUE_HEADINGS,
    VALUES_RIGHT,
    basis,
    cells_of,
    checked_lines,
    chosen,
    class_lines,
    headline,
    plan_lines,
    rounding_lines,
    value_cells,
)
from cordwood.store.reading.read_plan import ReadPlan

_PICTURE = "margin:0 8px 4px 0;display:inline-block;vertical-align:top"
_CAPTION = "font-size:80%;max-width:12em;overflow-wrap:anywhere"
_LONGEST_CAPTION = 24


def format_dataset_html(plan: ReadPlan, store: StoreInspection) -> str:
    """A dataset: what was chosen of its store, and the store."""
    whole = format_html(store)
    if len(plan) == len(plan.reader) and plan.field_names == plan.reader.schema.names:
        return whole
    fields = ", ".join(plan.field_names[:MAX_ROWS])
    return together([title("Dataset", f"{chosen(plan)}; {fields}"), whole])


def format_html(inspection: StoreInspection) -> str:
    """A self-contained piece of HTML."""
    shown = inspection.fields[:MAX_ROWS]
    parts = [title(inspection.path, headline(inspection))]
    if shown:
        parts.append(table(HEADINGS, (cells_of(row, inspection.samples) for row in shown), RIGHT))
        if len(shown) < len(inspection.fields):
            parts.append(sentence(f"... {len(inspection.fields) - len(shown)} more fields (all: .fields)"))
    values = [value_cells(row) for row in shown if row.values is not None]
    if values:
        parts.append(table(VALUE_HEADINGS, values, VALUES_RIGHT))
    parts += [_pictures(row) for row in shown if row.pictures]
    if shown:
        before, after = inspection.before, inspection.after
        times = f", {before / after:.2f}x smaller" if after and before >= after else ""
        parts.append(bars([("before", before, human(before)), ("after", after, f"{human(after)}{times}")]))
    parts += [sentence(each) for each in basis(inspection)]
    parts += lists(
        (
            ("Checked", checked_lines(inspection)),
            ("Plans", plan_lines(inspection)),
            ("Rounded", rounding_lines(inspection)),
            ("Classes", class_lines(inspection, False)),
            ("Schema", [inspection.schema]),
            ("Damaged", inspection.damaged),
            ("Note", inspection.notes),
        )
    )
    return together(parts)


def _pictures(row: FieldRow) -> str:
    shown = "".join(
        f'<div style="{_PICTURE}"><img src="{escape(url)}" alt="{safe(row.name)}">{_caption(caption)}</div>'
        for url, caption in zip(row.pictures, row.captions, strict=True)
    )
    return f'<p>{safe(row.name)}</p><div style="margin:0 0 1em 0">{shown}</div>'


def _caption(caption: str) -> str:
    return f'<div style="{_CAPTION}">{safe(shortened(caption, _LONGEST_CAPTION))}</div>' if caption else ""
