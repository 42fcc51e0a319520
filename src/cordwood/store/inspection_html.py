"""A store's inspection for a notebook: the tables, bars, and pictures of image-like fields.

Names and texts come from the store, so everything is escaped; pictures are made here, pixel by pixel.
"""

from html import escape
from typing import TYPE_CHECKING

from cordwood.store.inspection import StoreInspection
from cordwood.store.inspection_text import (
    HEADINGS,
    RIGHT,
    VALUE_HEADINGS,
    VALUES_RIGHT,
    basis,
    cells_of,
    chosen,
    class_lines,
    headline,
    plan_lines,
    rounding_lines,
    value_cells,
)
from cordwood.tensors.notebook import MOST_ROWS, bars, lists, safe, sentence, table, title, together
from cordwood.tensors.sizes import human

if TYPE_CHECKING:
    from cordwood.store.dataset import Dataset


def format_dataset_html(dataset: "Dataset") -> str:
    """A dataset: what was chosen of its store, and the store."""
    whole = format_html(dataset.inspect())
    if len(dataset) == len(dataset.reader) and dataset.names == dataset.schema.names:
        return whole
    fields = ", ".join(dataset.names[:MOST_ROWS])
    return together([title("Dataset", f"{chosen(dataset)}; {fields}"), whole])


def format_html(inspection: StoreInspection) -> str:
    """A self-contained piece of HTML."""
    shown = inspection.fields[:MOST_ROWS]
    parts = [title(inspection.path, headline(inspection))]
    if shown:
        parts.append(table(HEADINGS, (cells_of(row, inspection.samples) for row in shown), RIGHT))
        if len(shown) < len(inspection.fields):
            parts.append(sentence(f"... {len(inspection.fields) - len(shown)} more fields (all: .fields)"))
    values = [value_cells(row) for row in shown if row.values is not None]
    if values:
        parts.append(table(VALUE_HEADINGS, values, VALUES_RIGHT))
    parts += [_pictures(row.name, row.pictures) for row in shown if row.pictures]
    if shown:
        before, after = inspection.before, inspection.after
        times = f", {before / after:.2f}x smaller" if after and before >= after else ""
        parts.append(bars([("before", before, human(before)), ("after", after, f"{human(after)}{times}")]))
    parts += [sentence(each) for each in basis(inspection)]
    parts += lists(
        (
            ("Plans", plan_lines(inspection)),
            ("Rounded", rounding_lines(inspection)),
            ("Classes", class_lines(inspection, False)),
            ("Schema", [inspection.schema]),
            ("Damaged", inspection.damaged),
        )
    )
    return together(parts)


def _pictures(name: str, pictures: list[str]) -> str:
    images = "".join(
        f'<img src="{escape(url)}" alt="{safe(name)}" style="margin:0 4px 4px 0;display:inline-block">'
        for url in pictures
    )
    return f'<p>{safe(name)}</p><div style="margin:0 0 1em 0">{images}</div>'
