"""What the demo found, and the same as aligned tables."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

VIEW_HEADINGS = ("way to save", "one view", "two views", "same bits", "still shared")
HEADINGS = ("way to keep it", "bytes a sample", "of torch.save", "read back", "same bits")
BATCH_HEADINGS = ("way to keep it", "write one", "read a batch", "images a second", "same bits")
TRAINING_HEADINGS = ("fed by", "images a second", "waiting", "a step takes", "last loss", "same weights")


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
class BatchRow:
    """One way to keep them as a data set: seconds to write one sample, if it was written, and to read a batch."""

    title: str
    write_seconds: float | None
    batch_seconds: float
    batch: int
    exact: bool


@dataclass(frozen=True)
class TrainingRow:
    """One way to feed a net: images a second, the share of the time that steps waited, the seconds a step then took,
    the loss of the last batch, and whether the weights are those of the first way."""

    title: str
    images_a_second: float
    waited: float
    step_seconds: float
    loss: float
    same: bool
    note: str = ""


@dataclass(frozen=True)
class Training:
    """A net, trained in every one of these ways."""

    rows: list[TrainingRow]
    times: int  # that it sees every image
    batch: int


@dataclass(frozen=True)
class Doctored:
    """What the doctor said of a script in this folder, what was done about it as told, and what came of that."""

    folder: Path
    before_command: str
    before: str  # its verdict
    finding: str  # or why there is none: then nothing was done
    packing: str = ""  # the command that the finding prints
    where: str = ""  # the lines go, as the finding says it
    removed: Sequence[str] = ()
    lines: Sequence[str] = ()
    after_command: str = ""
    after: str = ""
    compare_command: str = ""
    compared: Sequence[str] = ()
    same: bool = False  # batches, before and after

    @property
    def closed(self) -> bool:
        """Whether there was advice to follow."""
        return bool(self.lines)


@dataclass(frozen=True)
class Report:
    """All rows, the title of the one that the others are compared with, and where the files and the store are."""

    views: list[ViewRow]
    rows: list[Row]
    batches: list[BatchRow]
    training: Training
    doctored: Doctored
    baseline: str
    samples: int
    shape: tuple[int, ...]
    folders: list[Path]
    store: Path
    packing: str  # the command that makes the store


def format_report(report: Report) -> str:
    """The report as text for a terminal."""
    baseline = next(row.bytes_a_sample for row in report.rows if row.title == report.baseline)
    shape = "x".join(map(str, report.shape))
    training = report.training
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
            f"3. The same images in batches of {report.batches[0].batch}, in random order, without workers; median:",
            "",
            *_table(BATCH_HEADINGS, [_batch_cells(row) for row in report.batches]),
            "",
            "  files are read one by one in one thread and stacked, a batch of the store by one native call;",
            "  cw.pack starts workers, prepares the images and syncs the store in the time that is told, the files are",
            "  written from prepared tensors and not synced",
            "",
            f"4. A small net that sees each of them {training.times} times, in batches of {training.batch}; "
            "the first step is not counted:",
            "",
            *_table(TRAINING_HEADINGS, [_training_cells(row) for row in training.rows]),
            "",
            "  waiting: the part of the time in which a step had no batch; the net has one thread, loading has all",
            "  cores: where it needs more than are free, it takes them from the net, and a step takes longer",
            "  same weights: batches and their order are the same in all ways, bit for bit, and so is what is learned",
            *[f"  {row.title}: {row.note}" for row in training.rows if row.note],
            "",
            f"5. A training script as people write it, and the doctor; in {report.doctored.folder}:",
            "",
            *[f"  {line}" if line else "" for line in _transcript(report.doctored)],
            "",
            "Files made, to look at or to delete:",
            *[f"  {folder}" for folder in report.folders],
            "",
            "The command that makes the store; run again, it sees that nothing is left to do:",
            f"  {report.packing}",
            "",
            "What is in the store, and whether it is whole:",
            f"  cordwood inspect {shlex.quote(str(report.store))}",
            f"  cordwood verify {shlex.quote(str(report.store))}",
        ]
    )


def _transcript(doctored: Doctored) -> list[str]:
    """What was typed, what was answered, and what was changed."""
    asked = [f"$ {doctored.before_command}", doctored.before, doctored.finding]
    if not doctored.closed:
        return [*asked, "", "no advice, so there was nothing to follow: is the machine busy with something else?"]
    return [
        *asked,
        "",
        *([f"$ {doctored.packing}"] if doctored.packing else []),
        f"{doctored.where}:",
        *[f"- {line}" for line in doctored.removed],
        *[f"+ {line}" for line in doctored.lines],
        "",
        f"$ {doctored.after_command}",
        doctored.after,
        "",
        f"$ {doctored.compare_command}",
        *doctored.compared,
        "",
        "command and lines are taken from the finding as it prints them; predicted: what it said that they save",
        f"same batches before and after, bit for bit: {_word(doctored.same)}",
    ]


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


def _batch_cells(row: BatchRow) -> tuple[str, ...]:
    return (
        row.title,
        "-" if row.write_seconds is None else f"{row.write_seconds * 1000:.2f} ms",
        f"{row.batch_seconds * 1000:.1f} ms",
        f"{row.batch / row.batch_seconds:,.0f}",
        _word(row.exact),
    )


def _training_cells(row: TrainingRow) -> tuple[str, ...]:
    return (
        row.title,
        f"{row.images_a_second:,.0f}",
        f"{row.waited:.1%}",
        f"{row.step_seconds * 1000:.1f} ms",
        f"{row.loss:.6f}",
        _word(row.same),
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
