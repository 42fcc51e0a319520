"""What the demo found, and the same as aligned tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

VIEW_HEADINGS = ("way to save", "one view", "two views", "same bits", "still shared")
HEADINGS = ("way to keep it", "bytes a sample", "of torch.save", "read back", "same bits")


@dataclass(frozen=True)
class ViewRow:
    """One way to save views: bytes of the file with one, and with two that overlap, and what comes back."""

    title: str
    one_view: int
    two_views: int
    exact: bool
    shared: bool


@dataclass(frozen=True)
class Row:
    """One way to keep the samples: its mean size, its median time to read one back, and whether nothing changed."""

    title: str
    bytes_a_sample: float
    read_seconds: float
    exact: bool
    note: str = ""


@dataclass(frozen=True)
class Report:
    """All rows, the title of the one that the others are compared with, and where the files are."""

    views: list[ViewRow]
    rows: list[Row]
    baseline: str
    samples: int
    shape: tuple[int, ...]
    folders: list[Path]


def format_report(report: Report) -> str:
    """The report as text for a terminal."""
    baseline = next(row.bytes_a_sample for row in report.rows if row.title == report.baseline)
    shape = "x".join(map(str, report.shape))
    notes = [f"  {row.title}: {row.note}" for row in report.rows if row.note]
    return "\n".join(
        [
            "1. A view of 1,000 of 1,000,000 zeros, and two such views that overlap by half; bytes of the files:",
            "",
            *_table(VIEW_HEADINGS, [_view_cells(row) for row in report.views]),
            "",
            "  still shared: a number written through one view after loading is seen through the other",
            "",
            f"2. {report.samples} images, prepared as float32 tensors of {shape}; read back with one thread, median:",
            "",
            *_table(HEADINGS, [_cells(row, baseline) for row in report.rows]),
            "",
            *notes,
            "",
            "Files made, to look at or to delete:",
            *[f"  {folder}" for folder in report.folders],
        ]
    )


def _view_cells(row: ViewRow) -> tuple[str, ...]:
    return (row.title, f"{row.one_view:,}", f"{row.two_views:,}", _word(row.exact), _word(row.shared))


def _cells(row: Row, baseline: float) -> tuple[str, ...]:
    return (
        row.title,
        f"{row.bytes_a_sample:,.0f}",
        f"{row.bytes_a_sample / baseline:.1%}",
        f"{row.read_seconds * 1000:.2f} ms",
        _word(row.exact),
    )


def _word(yes: bool) -> str:
    return "yes" if yes else "no"


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Headings, a rule, and the rows: the first column to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    lines = [
        "  ".join([first.ljust(widths[0]), *[cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]])
        for first, *rest in [headings, *rows]
    ]
    return [lines[0], "-" * len(lines[0]), *lines[1:]]
