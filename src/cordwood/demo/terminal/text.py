"""The acts of the demo as text for a terminal: a heading, a table or a transcript, and what the words mean."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from cordwood.common.numbers import milliseconds
from cordwood.common.text import counted, human
from cordwood.demo.report import (
    BatchRow,
    Compared,
    DemoReport,
    Doctored,
    Packing,
    PhotographFolder,
    SampleRow,
    Training,
    TrainingRow,
    ViewRow,
    Views,
)
from cordwood.demo.terminal.columns import command_lines, folded, indented, noted, paragraph, table

HEADINGS = ("way to keep it", "bytes each", "of torch.save", "read in", "same bits")
BATCH_HEADINGS = ("way to keep it", "write one", "read a batch", "images/s", "same bits")
TRAINING_HEADINGS = ("fed by", "images/s", "waiting", "a step", "same weights")
VIEW_HEADINGS = ("way to save", "one view", "two views", "same bits", "still shared")
_COPIED = ("$ ", "+ ", "- ", "next: ")  # how lines begin that somebody copies: they are not folded


def opening(folder: Path) -> str:
    """What is to be expected."""
    told = (
        "Six acts, about a minute and a half on two cores. Every figure is measured here and now; times depend on what "
        "else the machine does."
    )
    return "\n".join([f"The main jobs of Cordwood on a small scale, in {folder}", *paragraph(told, margin="")])


def images_text(images: PhotographFolder) -> str:
    """The first act."""
    files, folders = counted(images.images, "JPEG file"), counted(len(images.photographs), "folder")
    lines = [f"{files} in {folders}, one a class, {human(images.nbytes)}:", str(images.path)]
    return "\n".join(["1. An image folder", "", *indented(lines)])


def packing_text(packing: Packing) -> str:
    """The second act."""
    lines = ["2. Packed: resized, cropped and normalised once, kept as a store", "", *command_lines(packing.command)]
    return "\n".join([*lines, "", *_told(str(packing.packed).splitlines())])


def compared_text(compared: Compared) -> str:
    """The third act."""
    shape = "x".join(map(str, compared.shape))
    return "\n".join(
        [
            "3. What people do today, and Cordwood:",
            f"   {compared.samples} float32 tensors of {shape}, read with one thread, median",
            "",
            *table(HEADINGS, [_cells(row, compared.share(row)) for row in compared.rows]),
            "",
            *[line for row in compared.rows if row.note for line in noted(row.title, row.note)],
            "",
            f"  The same in batches of {compared.batches[0].batch}, in random order, without workers; median:",
            "",
            *table(BATCH_HEADINGS, [_batch_cells(row) for row in compared.batches]),
            "",
            *noted(
                "write one",
                "for the store, the time of act 2 with all that is done once, shared out: images are prepared in it, "
                "and the store is synced; the files are written from prepared tensors, and not synced",
            ),
            *noted(
                "read a batch",
                "files are read one by one in one thread and stacked, a batch of the store by one native call",
            ),
        ]
    )


def training_text(training: Training) -> str:
    """The fourth act."""
    rows = training.rows
    return "\n".join(
        [
            f"4. A small net that sees each of them {training.times} times, in batches of {training.batch};",
            f"   {uncounted(training)}",
            "",
            *table(TRAINING_HEADINGS, [_training_cells(row) for row in rows]),
            "",
            *noted(
                "waiting",
                "the part of the time in which a step had no batch yet; where other programs keep the cores busy, some "
                "of it is waiting for a core",
            ),
            *noted(
                "a step",
                "the time that it took then; the net has one thread, loading has all cores: where it needs more than "
                "are free, it takes them from the net",
            ),
            *noted(
                "same weights",
                "batches and their order are the same in all ways, bit for bit, and so is what is learned",
            ),
            *noted("packing", training.paid_back),
            *[line for row in rows if row.note for line in noted(row.title, row.note)],
        ]
    )


def uncounted(training: Training) -> str:
    """Which steps are left out."""
    if training.warm_up == 1:
        return "the first step is not counted"
    return f"the first {training.warm_up} steps are not counted"


def views_text(views: Views) -> str:
    """The fifth act."""
    return "\n".join(
        [
            f"5. A view of {views.elements:,} of {views.behind:,} zeros, and two such views that overlap;",
            "   bytes of the files",
            "",
            *table(VIEW_HEADINGS, [_view_cells(row) for row in views.rows]),
            "",
            *noted("still shared", "what is written through one view after loading is seen through the other"),
            *noted(".pt files", "all of them were read by plain torch.load"),
        ]
    )


def doctored_text(doctored: Doctored) -> str:
    """The last act."""
    heading = ["6. A training script as people write it, and the doctor;", f"   in {doctored.folder}"]
    return "\n".join([*heading, "", *_told(transcript(doctored))])


def closing(report: DemoReport) -> str:
    """What is left behind, and what to try next."""
    store = shlex.quote(str(report.folder / Path(report.packing.packed.path).name))
    waste = shlex.quote(str(report.folder / "views" / "torch-save-two-views.pt"))
    made = [(one.path.relative_to(report.folder).as_posix(), one.what) for one in report.made]
    width = max(len(name) for name, _ in made)
    return "\n".join(
        [
            f"That took {report.seconds:.0f} seconds and left {human(report.nbytes)}, to look at or to delete,",
            f"in {report.folder}:",
            "",
            *_told([f"{name.ljust(width)}  {what}" for name, what in made]),
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


def format_report(report: DemoReport) -> str:
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


def transcript(doctored: Doctored) -> Iterator[str]:
    """What was typed, what was answered, and what was changed."""
    yield from (f"$ {doctored.before_command}", doctored.before, doctored.finding, "")
    if not doctored.has_advice:
        yield "no advice, so there was nothing to follow: is the machine busy with something else?"
        return
    if doctored.packing:
        yield f"$ {doctored.packing}"
    yield f"{doctored.where}:"
    yield from (f"- {line}" for line in doctored.removed)
    yield from (f"+ {line}" for line in doctored.lines)
    yield from ("", f"$ {doctored.after_command}", doctored.after, "")
    yield from (f"$ {doctored.compare_command}", *doctored.compared, "")
    yield "command and lines are taken from the finding as it prints them"
    yield "predicted: what it said they save"
    yield "a verdict tells the mean of all steps, compare the median of the means of stretches of the run"
    yield f"same batches before and after, bit for bit: {word(doctored.is_same)}"


def word(yes: bool) -> str:
    """An answer."""
    return "yes" if yes else "no"


def _told(lines: list[str] | Iterator[str]) -> list[str]:
    """What others have said, in lines that fit; but what is to be copied stays as it is."""
    parts = ([f"  {line}"] if line.startswith(_COPIED) else folded(line) for line in lines)
    return [line for part in parts for line in part]


def _cells(row: SampleRow, share: float) -> tuple[str, ...]:
    read = milliseconds(row.read_seconds * 1000)
    return (row.title, f"{row.bytes_a_sample:,.0f}", f"{share:.1%}", read, word(row.is_exact))


def _batch_cells(row: BatchRow) -> tuple[str, ...]:
    return (
        row.title,
        "-" if row.write_seconds is None else milliseconds(row.write_seconds * 1000),
        milliseconds(row.batch_seconds * 1000),
        f"{row.images_a_second:,.0f}",
        word(row.is_exact),
    )


def _training_cells(row: TrainingRow) -> tuple[str, ...]:
    return (
        row.title,
        f"{row.images_a_second:,.0f}",
        f"{row.waited:.1%}",
        milliseconds(row.step_seconds * 1000),
        word(row.is_same),
    )


def _view_cells(row: ViewRow) -> tuple[str, ...]:
    return (row.title, f"{row.one_view:,}", f"{row.two_views:,}", word(row.is_exact), word(row.is_shared))
