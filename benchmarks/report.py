"""Result files as text: Markdown for `docs/benchmarks.md`, plain columns for the terminal. Nothing here measures.

python -m benchmarks.report                 # write docs/benchmarks.md again from the files in benchmarks/results
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.goals import BY_KEY, Goal
from benchmarks.harness import Spread
from benchmarks.outcome import Cell, Kind, Table

TITLES = {
    "codecs": "Codecs",
    "tensors": "Tensor files",
    "store": "Stores",
    "feed": "The Loader",
    "pack": "Packing",
    "doctor": "The doctor",
}  # in the order of the page

IN_TURNS = """\
* **Ratios, taken in turns.** Contenders run A B C A B C ...; a ratio is taken inside each round, and the median over
  the rounds is what counts. Figures in brackets are the lower and upper quartile. A turn repeats its pass over the data
  until it is long against the clock."""

VERDICTS = """\
* **Verdicts** are by the median: *met aim*, *met must*, or *missed*."""

METHODS = {
    "codecs": f"""\
{IN_TURNS}
* **Equality first.** Before anything is timed, every decoder's result is compared with the source bit for bit.
* **Page faults.** Photographs are decoded into memory that was written before, wherever the contender's API lets it be
  given; the reading of .pt files and ZipNN allocate for themselves. Against ZipNN both sides allocate; our figure for
  memory used before stands beside it.
* **Caches.** A pass goes over all photographs, each into an output of its own, never over one again and again: in a
  full run 39 MB of floats are written between two visits to the same memory.
* **Turbo.** One thread may find its core clocked higher than two do. So the table of two threads shows what two
  independent threads of plain arithmetic gain in the same rounds: that is the machine's own ceiling.
* **Threads.** All decoding is with one thread unless a row says two; OpenCV and torch are told the same number.
* **Rivals at their best.** WebP and PNG are read by the faster of OpenCV and Pillow, and what follows is the fastest
  bit-exact conversion found on this machine. Everything is in memory: no contender touches a disk.
{VERDICTS}""",
    "tensors": f"""\
{IN_TURNS}
* **Equality first.** Every file of every contender is loaded and compared with what was saved, bit for bit, before
  anything is timed; a `.pt` of ours by plain torch.load.
* **The disk.** All contenders write to one disk. Before every pass that writes, and off the clock, what the pass before
  it wrote is removed (unless the row says that it is written over) and the system is told to write everything back, so
  that nobody pays for what another left in the cache. Saving does not sync inside the time; a trim does.
* **Warm and cold.** Files are read from the page cache unless a row says cold. Then they are synced and dropped from
  the cache before every pass; their names stay in the kernel's memory. How much was read from the disk is counted.
* **Letting go.** What was loaded is given back after the clock has stopped.
* **Looking at every byte** is one pass of NumPy's exclusive or over each tensor, the same for every contender.
* **Memory** is that of a process that does nothing else: the object is made, a small one is saved in the same way, the
  peak is reset, and what the process then holds at most beyond what it held before is what counts.
* **Threads.** Everybody uses as many as by default.
{VERDICTS}""",
    "store": f"""\
{IN_TURNS}
* **Equality first.** Before anything is timed, a whole pass of every reader is compared with the source: bit for bit,
  but for FFCV, which normalises with another rounding (at most a millionth is let pass). Every sample must come.
* **A turn** is a pass over all samples in random order, batch after batch, from the page cache; batches are let go one
  after the other, as in a training loop. For FFCV, which has much to do at the beginning of one, a pass is longer.
* **Rivals at their best.** All ways of a rival's row are timed, and in each round the fastest counts: with and without
  worker processes, and FFCV with its own normalisation, which writes into memory used again and again.
* **Two cores.** Two threads or two worker processes for everybody. Workers are started once and kept.
* **Packing** is from samples in memory to an empty folder. Before every pass, off the clock, the disk is told to write
  everything back.
* **Memory** is that of a process that does nothing else, as it tells itself.
{VERDICTS}""",
    "feed": f"""\
{IN_TURNS}
* **Equality first.** Before anything is timed, an epoch of every loader is compared with the source: bit for bit, but
  for FFCV, which normalises with another rounding (at most a millionth is let pass). Every sample must come.
* **A turn** is an epoch in random order, batch after batch; batches are let go one after the other, as in a training
  loop. Where photographs come from the page cache, an epoch of ours and of FFCV's is 4,096 samples long, so that what
  is done to begin one is little against it.
* **Rivals at their best.** All ways of a rival's row are timed, and in each round the fastest counts: with and without
  worker processes, more and fewer batches ahead.
* **CPU time** is that of the whole process with all its threads, and of its worker processes, divided by the samples.
  The figure for one core is its inverse: what a loader could give if it alone had one core.
* **Two cores.** Two worker processes or threads for the rivals; ours chooses for itself. Workers are started once and
  kept.
* **Memory, and the first batch**, are of a process that does nothing else, as it tells itself.
{VERDICTS}""",
    "pack": f"""\
{IN_TURNS}
* **Equality first.** Everybody's samples are compared with what the transform gives, bit for bit, before anything is
  timed: of the long runs every fiftieth, of the decoders and the story's files more. Every sample must be there.
* **A turn** of packing is from the call to its end, into an empty folder. Before it, off the clock, what the one before
  wrote is removed, and the disk is told to write everything back.
* **Two cores.** Two worker processes, each with one thread of torch and OpenCV, for everybody.
* **Memory** is that of the process and of all its workers, looked at from outside fifty times a second.
{VERDICTS}""",
    "doctor": f"""\
{IN_TURNS}
* **Cost.** One network is trained in one process, an epoch with the doctor and one without, in turns, and who begins
  changes from round to round. Attaching and detaching are off the clock.
* **Planted faults** are scripts as people write them, with one fault each, or two. A round runs the script under the
  doctor, then the script with the fault mended, also under the doctor, each in a process of its own.
* **Healthy scripts** are run once each: a finding above information level is a false one.
{VERDICTS}""",
}


def to_markdown(results: Mapping[str, dict[str, Any]]) -> str:
    """The whole page: a chapter for each suite's result."""
    lines = ["# Benchmarks", "", "*Written by the benchmarks from their result files; not edited by hand.*", ""]
    for name, title in TITLES.items():
        if name in results:
            lines += [f"## {title}", "", *chapter(results[name], METHODS[name])]
    return "\n".join(lines).rstrip() + "\n"


def chapter(result: dict[str, Any], method: str) -> list[str]:
    """What one suite found, as lines."""
    lines = ["Made by:", "", "```sh", result["command"], "```", ""]
    if result["quick"]:
        lines += ["**A quick run: few samples and few rounds. Good for a look, not for a claim.**", ""]
    lines += ["### Goals", "", *markdown_rows(*goal_rows(result)), ""]
    reasons = reason_lines(result)
    lines += [*(f"* {line}" for line in reasons), ""] if reasons else []
    for table in map(Table.from_json, result["tables"]):
        lines += [f"### {table.title}", ""]
        if table.rows:
            headings, rows = table_rows(table)
            lines += [*markdown_rows(headings, rows), ""]
        lines += [*(f"* {note}" for note in table.notes), ""] if table.notes else []
    lines += ["### How it was measured", "", method, ""]
    length = f"Rounds: {result['rounds']}. Duration: {result['minutes']:.1f} minutes."
    lines += ["### Machine and versions", "", length, ""]
    lines += markdown_rows(["what", "value"], [[name, value] for name, value in result["environment"].items()])
    return [*lines, ""]


def to_terminal(result: dict[str, Any]) -> str:
    """The same tables in plain columns."""
    lines: list[str] = []
    for table in map(Table.from_json, result["tables"]):
        lines += ["", table.title]
        if table.rows:
            lines += plain_rows(*table_rows(table))
        lines += [f"  - {note}" for note in table.notes]
    lines += ["", "Goals", *plain_rows(*goal_rows(result))]
    lines += [f"  - {line}" for line in reason_lines(result)]
    return "\n".join(lines)


def goal_rows(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The goals with what was measured: headings and rows of text."""
    rows = []
    for entry in result["goals"]:
        goal = BY_KEY[entry["key"]]
        spread = Spread(**entry["measured"]) if entry["measured"] else None
        rows.append([goal.text, bar(goal, goal.must), bar(goal, goal.aim), written(spread, "ratio"), entry["verdict"]])
    return ["what", "must", "aim", "measured", "verdict"], rows


def reason_lines(result: dict[str, Any]) -> list[str]:
    """Why goals were not measured, each reason once."""
    keys: dict[str, list[str]] = {}
    for entry in result["goals"]:
        if entry["reason"]:
            keys.setdefault(entry["reason"], []).append(entry["key"])
    return [f"Not measured ({', '.join(names)}): {reason}" for reason, names in keys.items()]


def bar(goal: Goal, value: float | None) -> str:
    """A must or an aim, such as `>= 2x`."""
    if value is None:
        return ""
    return f"{'>=' if goal.sense == 'at least' else '<='} {value:g}x"


def table_rows(table: Table) -> tuple[list[str], list[list[str]]]:
    """A table of figures as headings and rows of text."""
    kinds = [kind for _, kind in table.columns]
    return [heading for heading, _ in table.columns], [
        [written(cell, kind) for cell, kind in zip(row, kinds, strict=True)] for row in table.rows
    ]


def written(cell: Cell, kind: Kind) -> str:
    """One cell as text; a spread shows its quartiles when it has any width."""
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, Spread):
        if cell.count == 1:
            return number(cell.median, kind)
        return f"{number(cell.median, kind)} [{number(cell.low, kind)}, {number(cell.high, kind)}]"
    return number(cell, kind)


def number(value: float, kind: Kind) -> str:
    """A number as its column wants it written."""
    match kind:
        case "bytes":
            return f"{value:,.0f}"
        case "seconds":
            return f"{value:.3f}"
        case "ms":  # held in seconds
            return f"{value * 1e3:.3f}"
        case "digits-ms":  # the same, for what may be a thousandth of it
            return f"{value * 1e3:.3g}"
        case "percent":  # held as a share
            return f"{value:.2%}"
        case "rate":  # held in bytes a second
            return f"{value / 1e6:,.0f}"
        case "ratio":
            return f"{value:.3f}" if abs(value) < 2 else f"{value:.2f}"
        case "text":
            return f"{value}"


def markdown_rows(headings: list[str], rows: list[list[str]]) -> list[str]:
    """Lines of a Markdown table."""
    return [
        "| " + " | ".join(headings) + " |",
        "|" + " --- |" * len(headings),
        *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows),
    ]


def plain_rows(headings: list[str], rows: list[list[str]]) -> list[str]:
    """Lines of columns padded to one width, under a rule."""
    rows = [[cell.replace("`", "") for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]
    ruled = [headings, ["-" * width for width in widths], *rows]
    padded = ([cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in ruled)
    return ["  " + "  ".join(cells).rstrip() for cells in padded]


def write_page(results: Path, page: Path) -> None:
    """Write the page that belongs to a folder of result files, each named after its suite."""
    page.write_text(to_markdown({file.stem: json.loads(file.read_text()) for file in sorted(results.glob("*.json"))}))


if __name__ == "__main__":
    root = Path(__file__).resolve().parent.parent
    write_page(root / "benchmarks" / "results", root / "docs" / "benchmarks.md")
