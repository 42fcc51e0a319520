"""The acts of the demo as text for a terminal: a heading, a table or a transcript, and what the words mean."""

import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

from cordwood.demo.report import (
    BatchRow,
    Compared,
    Doctored,
    ImageFolder,
    Packing,
    Report,
    Row,
    Training,
    TrainingRow,
    ViewRow,
    Views,
)
from cordwood.tensors.sizes import counted, human

HEADINGS = ("way to keep it", "bytes a sample", "of torch.save", "", "read back", "same bits")
BATCH_HEADINGS = ("way to keep it", "write one", "read a batch", "images a second", "same bits")
TRAINING_HEADINGS = ("fed by", "images a second", "waiting", "a step takes", "last loss", "same weights")
VIEW_HEADINGS = ("way to save", "one view", "two views", "same bits", "still shared")
_CELLS = 10  # of a bar, for as many bytes as the baseline takes


def opening(folder: Path) -> str:
    """What is to be expected."""
    return (
        f"The main jobs of Cordwood on a small scale, in {folder}:\n"
        "six acts, about a minute and a half on two cores. Every figure is measured here and now;\n"
        "times depend on what else the machine does."
    )


def images_text(images: ImageFolder) -> str:
    """The first act."""
    files, folders = counted(images.images, "JPEG file"), counted(len(images.photographs), "folder")
    return f"1. An image folder\n\n  {files} in {folders}, one a class, {human(images.nbytes)}: {images.path}"


def packing_text(packing: Packing) -> str:
    """The second act."""
    command = packing.command.replace(" --transform", " \\\n      --transform")
    lines = ["2. Packed: resized, cropped and normalised once, kept as a store", "", f"  $ {command}", ""]
    return "\n".join([*lines, *_indented(str(packing.packed).splitlines())])


def compared_text(compared: Compared) -> str:
    """The third act."""
    shape = "x".join(map(str, compared.shape))
    return "\n".join(
        [
            f"3. What people do today, and Cordwood: {compared.samples} float32 tensors of {shape};",
            "   read with one thread, median",
            "",
            *_table(HEADINGS, [_cells(row, compared.share(row)) for row in compared.rows], left=(0, 3)),
            "",
            *[f"  {row.title}: {row.note}" for row in compared.rows if row.note],
            "",
            f"  The same in batches of {compared.batches[0].batch}, in random order, without workers; median:",
            "",
            *_table(BATCH_HEADINGS, [_batch_cells(row) for row in compared.batches]),
            "",
            "  files are read one by one in one thread and stacked, a batch of the store by one native call;",
            "  cw.pack starts workers, prepares the images and syncs the store in the time that is told,",
            "  the files are written from prepared tensors and not synced",
        ]
    )


def training_text(training: Training) -> str:
    """The fourth act."""
    return "\n".join(
        [
            f"4. A small net that sees each of them {training.times} times, in batches of {training.batch};",
            "   the first step is not counted",
            "",
            *_table(TRAINING_HEADINGS, [_training_cells(row) for row in training.rows]),
            "",
            "  waiting: the part of the time in which a step had no batch; the net has one thread, loading",
            "  has all cores: where it needs more than are free, it takes them from the net, and a step takes",
            "  longer; same weights: batches and their order are the same in all ways, bit for bit, and so is",
            "  what is learned",
            *[f"  {row.title}: {row.note}" for row in training.rows if row.note],
        ]
    )


def views_text(views: Views) -> str:
    """The fifth act."""
    return "\n".join(
        [
            f"5. A view of {views.elements:,} of {views.behind:,} zeros, and two such views that overlap;",
            "   bytes of the files",
            "",
            *_table(VIEW_HEADINGS, [_view_cells(row) for row in views.rows]),
            "",
            "  still shared: a number written through one view after loading is seen through the other",
        ]
    )


def doctored_text(doctored: Doctored) -> str:
    """The last act."""
    heading = f"6. A training script as people write it, and the doctor; in {doctored.folder}"
    return "\n".join([heading, "", *_indented(transcript(doctored))])


def closing(report: Report) -> str:
    """What is left behind, and what to try next."""
    store = shlex.quote(str(report.folder / Path(report.packing.packed.path).name))
    waste = shlex.quote(str(report.folder / "views" / "torch-save-two-views.pt"))
    width = max(len(str(made.path)) for made in report.made)
    return "\n".join(
        [
            f"That took {report.seconds:.0f} seconds and left {human(report.nbytes)}. "
            "Files made, to look at or to delete:",
            "",
            *[f"  {str(made.path).ljust(width)}  {made.what}" for made in report.made],
            "",
            "Try next:",
            "",
            f"  cordwood inspect {store}",
            f"  cordwood verify {store}",
            f"  cordwood inspect {waste}",
            f"  cordwood trim {waste} --dry-run",
            "",
            f"All of this with pictures, in a browser: {report.folder / 'index.html'}",
            f"To delete all of it: rm -r {shlex.quote(str(report.folder))}",
        ]
    )


def format_report(report: Report) -> str:
    """All acts together, as they are told one by one while the demo runs."""
    acts = (
        opening(report.folder),
        images_text(report.images),
        packing_text(report.packing),
        compared_text(report.compared),
        training_text(report.training),
        views_text(report.views),
        doctored_text(report.doctored),
        closing(report),
    )
    return "\n\n".join(acts)


def transcript(doctored: Doctored) -> list[str]:
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
        "command and lines are taken from the finding as it prints them; predicted: what it said they save;",
        "a verdict tells the mean of all steps, compare the median of the means of stretches of the run",
        f"same batches before and after, bit for bit: {word(doctored.same)}",
    ]


def word(yes: bool) -> str:
    """An answer."""
    return "yes" if yes else "no"


def _cells(row: Row, share: float) -> tuple[str, ...]:
    bar = "#" * _CELLS + ">" if share > 1.1 else "#" * max(1, round(_CELLS * share))
    return (
        row.title,
        f"{row.bytes_a_sample:,.0f}",
        f"{share:.1%}",
        bar,
        f"{row.read_seconds * 1000:.2f} ms",
        word(row.exact),
    )


def _batch_cells(row: BatchRow) -> tuple[str, ...]:
    return (
        row.title,
        "-" if row.write_seconds is None else f"{row.write_seconds * 1000:.2f} ms",
        f"{row.batch_seconds * 1000:.1f} ms",
        f"{row.images_a_second:,.0f}",
        word(row.exact),
    )


def _training_cells(row: TrainingRow) -> tuple[str, ...]:
    return (
        row.title,
        f"{row.images_a_second:,.0f}",
        f"{row.waited:.1%}",
        f"{row.step_seconds * 1000:.1f} ms",
        f"{row.loss:.6f}",
        word(row.same),
    )


def _view_cells(row: ViewRow) -> tuple[str, ...]:
    return (row.title, f"{row.one_view:,}", f"{row.two_views:,}", word(row.exact), word(row.shared))


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]], left: Collection[int] = (0,)) -> list[str]:
    """Headings, a rule, and the rows: names and bars to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in [headings, *rows]
    ]
    return _indented([lines[0], "-" * len(lines[0]), *lines[1:]])


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}".rstrip() for line in lines]
