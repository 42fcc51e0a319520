"""What the demo found, and the same as an aligned table."""

from dataclasses import dataclass
from pathlib import Path

HEADINGS = ("way to keep it", "bytes a sample", "of torch.save", "read back", "same bits")


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

    rows: list[Row]
    baseline: str
    samples: int
    shape: tuple[int, ...]
    folders: list[Path]


def format_report(report: Report) -> str:
    """The report as text for a terminal."""
    baseline = next(row.bytes_a_sample for row in report.rows if row.title == report.baseline)
    table = [HEADINGS, *[_cells(row, baseline) for row in report.rows]]
    widths = [max(len(line[column]) for line in table) for column in range(len(HEADINGS))]
    lines = [_align(line, widths) for line in table]
    lines.insert(1, "-" * len(lines[0]))
    shape = "x".join(map(str, report.shape))
    notes = [f"  {row.title}: {row.note}" for row in report.rows if row.note]
    return "\n".join(
        [
            f"{report.samples} images, prepared as float32 tensors of {shape}; read back with one thread, median:",
            "",
            *lines,
            "",
            *notes,
            "",
            "Files made, to look at or to delete:",
            *[f"  {folder}" for folder in report.folders],
        ]
    )


def _cells(row: Row, baseline: float) -> tuple[str, ...]:
    return (
        row.title,
        f"{row.bytes_a_sample:,.0f}",
        f"{row.bytes_a_sample / baseline:.1%}",
        f"{row.read_seconds * 1000:.2f} ms",
        "yes" if row.exact else "no",
    )


def _align(cells: tuple[str, ...], widths: list[int]) -> str:
    """The first column to the left, figures to the right."""
    first, *figures = cells
    return "  ".join(
        [first.ljust(widths[0]), *[cell.rjust(width) for cell, width in zip(figures, widths[1:], strict=True)]]
    )
