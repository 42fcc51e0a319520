"""The figures that pages of the docs quote, made from the result files; nobody types one.

docs/design.md shows what decisions were measured to be worth, docs/pack.md the story of the disk that filled up. Each
table stands between two comments. `readmes.py` does the same for the READMEs.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.figures.readmes import (
    ROOT,
    MissingFigureError,
    anchor,
    column_of,
    digits,
    load_results,
    number,
    with_section,
)
from benchmarks.harness.outcome import Table

Results = Mapping[str, dict[str, Any]]
_SIZES = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


@dataclass(frozen=True)
class Cell:
    """A row of a table, told by how it begins, and a column; result files are in bytes and seconds."""

    row: tuple[str, ...]
    column: str
    unit: str  # what the page writes it in; `bytes` in whatever is readable, `share` in percent


@dataclass(frozen=True)
class Decision:
    """What was decided, what was measured, and the figure with and without it."""

    decided: str
    measured: str
    suite: str
    table: str
    with_it: Cell
    without: Cell | None = None
    other: str = ""  # what the figure without it is of


_WEIGHTS = ("all-MiniLM-L6-v2", "float32", "2")
DECISIONS = (
    Decision(
        "codecs that know what images look like",
        "a normalised float32 photograph",
        "codecs",
        "Photographs, one frame each",
        Cell(("balanced",), "bytes a photograph", "bytes"),
        Cell(("zstd on float32",), "bytes a photograph", "bytes"),
        "zstd",
    ),
    Decision(
        "an entropy coder of our own",
        "real float32 weights in a file",
        "tensors",
        "of real float32 weights in one file",
        Cell(("cw.save to .cord, balanced",), "bytes", "bytes"),
        Cell(("zstd, level 3, each tensor alone",), "bytes", "bytes"),
        "zstd",
    ),
    Decision(
        "only what can be reached is written",
        "256 slices of a batch, a file each",
        "tensors",
        "256 slices",
        Cell(("cw.save to .pt",), "bytes, all files", "bytes"),
        Cell(("torch.save of slices, as they are",), "bytes, all files", "bytes"),
        "`torch.save`",
    ),
    Decision(
        "memory that was used before",
        "decoding weights on two threads",
        "codecs",
        "Weights: decoding",
        Cell(_WEIGHTS, "small, memory used before", "MB/s"),
        Cell(_WEIGHTS, "small, new memory", "MB/s"),
        "new memory",
    ),
    Decision(
        "a native call a batch, on threads",
        "3 KiB images, shuffled",
        "feed",
        "3 KiB images, shuffled",
        Cell(("ours, fast",), "samples a second", "samples/s"),
        Cell(("one .pt a sample, DataLoader with 2 workers",), "samples a second", "samples/s"),
        "a `.pt` file a sample, worker processes",
    ),
    Decision(
        "preprocessing is done once",
        "a small convnet: time that steps wait for data",
        "feed",
        "Training a small convnet",
        Cell(("ours, balanced, float32 stored, threads=1",), "of the time, steps wait", "share"),
        Cell(("JPEG files, Pillow, DataLoader with 2 workers",), "of the time, steps wait", "share"),
        "JPEG files, worker processes",
    ),
    Decision(
        "nothing is parsed when a store is opened",
        "opening 100,000,000 samples",
        "store",
        "Opening 100,000,000",
        Cell(("cw.open",), "ms", "ms"),
    ),
    Decision(
        "a journal of what is packed",
        "a job that was killed at 900,000 samples, until it goes on",
        "pack",
        "Killed after",
        Cell(("from the call of cw.pack to the first new bytes in the store",), "seconds", "s"),
    ),
)
# Row of the table -> what the page calls it.
STORY = {
    "the JPEG files, prepared again": "the JPEG files, prepared again every time",
    "torch.save(batch[b])": "`torch.save(batch[b])`",
    "torch.save(batch[b].clone())": "`torch.save(batch[b].clone())`",
    "the clones, zipped": "the clones, zipped",
    "cw.pack, balanced": '`cw.pack`, `goal="balanced"`',
    "cw.pack, small": '`cw.pack`, `goal="small"`',
    "cw.pack, fast": '`cw.pack`, `goal="fast"`',
    "cw.pack, keep_encoded": "`cw.pack`, `Field(keep_encoded=True)`",
}


def table_in(results: Results, suite: str, words: str) -> Table:
    """The one table of a result file that has these words in its title."""
    if suite not in results:
        raise MissingFigureError(f"benchmarks/results/{suite}.json is not there")
    found = [table for table in results[suite]["tables"] if words in table["title"]]
    if len(found) != 1:
        raise MissingFigureError(f"{suite}.json has {len(found)} tables with {words!r} in their title")
    return Table.from_json(found[0])


def value(table: Table, row: tuple[str, ...], column: str) -> float:
    """The number in a row that begins with these cells."""
    rows = [cells for cells in table.rows if tuple(map(str, cells[: len(row)])) == row]
    if len(rows) != 1:
        raise MissingFigureError(f"the table {table.title!r} has {len(rows)} rows for {row}")
    return number(rows[0][column_of(table, column)])


def written(figure: float, unit: str) -> str:
    """A number in three digits or so, with its unit."""
    match unit:
        case "bytes":
            name, least = next(pair for pair in _SIZES if figure >= pair[1])
            return f"{digits(figure / least)} {name}"
        case "share":
            return f"{figure:.1%}"
        case "ms":
            return f"{digits(1e3 * figure)} ms"
        case "MB/s":
            return f"{digits(figure / 1e6)} MB/s"
    return f"{digits(figure)} {unit}"


def decisions(results: Results) -> Iterator[str]:
    """The table of docs/design.md."""
    yield "| what was decided | what was measured | with it | the other way |"
    yield "| --- | --- | --- | --- |"
    for one in DECISIONS:
        table = table_in(results, one.suite, one.table)
        with_it = written(value(table, one.with_it.row, one.with_it.column), one.with_it.unit)
        other = ""
        if one.without is not None:
            without = value(table, one.without.row, one.without.column)
            other = f"{written(without, one.without.unit)} ({one.other})"
        link = f"[{one.measured}](benchmarks.md#{anchor(table.title)})"
        yield f"| {one.decided} | {link} | {with_it} | {other} |"


def story(results: Results) -> Iterator[str]:
    """The table of docs/pack.md, and what it comes to."""
    table = table_in(results, "pack", "photographs of one class")
    yield "| way to keep them | the class | of the JPEG files | a thousand classes | read one image |"
    yield "| --- | --- | --- | --- | --- |"
    for row, name in STORY.items():
        size = value(table, (row,), "bytes")
        ratio = value(table, (row,), "of the JPEG files")
        try:
            reading = written(value(table, (row,), "read one, ms"), "ms")
        except MissingFigureError:
            reading = ""  # files with a whole batch in them are not written in full
        cells = [written(size, "bytes"), digits(ratio), written(1000 * size, "bytes"), reading]
        yield f"| {name} | {' | '.join(cells)} |"
    ours = "cw.pack, balanced"
    sizes = [written(value(table, (row,), "bytes"), "bytes") for row in ("torch.save(batch[b])", ours)]
    reads = [
        written(value(table, (row,), "read one, ms"), "ms")
        for row in (ours, "torch.save(batch[b].clone())", "the clones, zipped")
    ]
    times = digits(value(table, (ours,), "of the JPEG files"))
    yield ""
    yield (
        f"So the class that took {sizes[0]} takes {sizes[1]}, {times} times the JPEG files, with preprocessing done; "
        f"and an image is read in {reads[0]}, against {reads[1]} from the plain `.pt` files and {reads[2]} from the "
        f"zipped ones."
    )


PAGES: dict[str, Callable[[Results], Iterator[str]]] = {"docs/design.md": decisions, "docs/pack.md": story}


def main(argv: Sequence[str] | None = None) -> int:
    """0: the pages say what the result files do; 1: with --check, one does not."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.figures", description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is out of date")
    check = parser.parse_args(argv).check
    results = load_results()
    stale = []
    for name, lines in PAGES.items():
        page = (ROOT / name).read_text(encoding="utf-8")
        new = with_section(page, "\n".join(lines(results)))
        if new != page:
            stale.append(name)
            if not check:
                (ROOT / name).write_text(new, encoding="utf-8")
    if check and stale:
        print(f"out of date: {', '.join(stale)}; run: python -m benchmarks.figures", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
