"""The figures of both READMEs, made from the result files; nobody types one.

A figure is two cells of a table in a result file, ours and a rival's, and their ratio: for speeds the median of the
ratios that were taken round by round, for sizes the quotient. What is better is in bold, whosever it is. A figure whose
file, table or row is missing is left out, and told on stderr.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.figures.selection import FIGURES, HEADINGS, READMES, WORDS, Count, Figure, Language
from benchmarks.harness.outcome import Cell, Table
from benchmarks.harness.timing import Spread

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE = "docs/benchmarks.md"
BEGIN = "<!-- figures: made by python -m benchmarks.figures -->"
END = "<!-- end of figures -->"
FAR_APART = 0.25  # quartiles, as a part of their median
_SIZES = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 0))


class MissingFigureError(Exception):
    """A file, table, row or column that a figure comes from is not there; the message says which."""


@dataclass(frozen=True)
class Row:
    """One line of the README's table, with the title of the table that it comes from."""

    what: str
    ours: str
    other: str
    compared: str
    title: str


def row_of(figure: Figure | Count, results: Mapping[str, dict[str, Any]], language: Language) -> Row:
    """The line of one figure."""
    table = table_of(figure, results)
    if isinstance(figure, Count):
        column = column_of(table, figure.column)
        good = sum(cells[column] == figure.good for cells in table.rows)
        count = WORDS[language]["count"].format(good, len(table.rows))
        return Row(figure.what[language], count, "", "", table.title)
    ours = number(cell(table, figure.ours, figure.column))
    rival = number(cell(table, rival_row(figure, table), figure.column))
    times = times_of(figure, table, results[figure.suite], ours / rival)
    ours_is_better = ours < rival if figure.kind in ("size", "share") else times.median > 1
    shown = [unbroken(written(value, figure.kind)) for value in (ours, rival)]
    if figure.kind == "share" or not is_draw(times):
        shown[not ours_is_better] = f"**{shown[not ours_is_better]}**"
    other = figure.other[language] + WORDS[language]["colon"] + shown[1]
    ratio = unbroken(compared(times, figure.kind, language))
    return Row(figure.what[language], shown[0], other, ratio, table.title)


def is_draw(times: Spread) -> bool:
    """Whether nobody is ahead: the quartiles of the rounds lie on both sides of one, or the same digits are shown."""
    return times.low <= 1 <= times.high or digits(times.median) == digits(1)


def times_of(figure: Figure, table: Table, result: dict[str, Any], quotient: float) -> Spread:
    """How many times as fast, or as large."""
    if figure.goal:
        goal = next((one for one in result["goals"] if one["key"] == figure.goal), None)
        if goal is None or goal["measured"] is None:
            raise MissingFigureError(f"{figure.suite}.json has no measurement for the goal {figure.goal!r}")
        return Spread(**goal["measured"])
    if figure.time_of:
        time = spread(cell(table, figure.ours, figure.time_of))
        return Spread(1 / time.median, 1 / time.high, 1 / time.low, time.count)
    by_rounds = f"{figure.ours}: speed, of this"
    if figure.kind == "rate" and by_rounds in (heading for heading, _ in table.columns):
        return spread(cell(table, rival_row(figure, table), by_rounds))
    return Spread.exact(quotient)


def rival_row(figure: Figure, table: Table) -> str:
    """The rival's row, or the best of its rows where it has several."""
    if not figure.rival.endswith("*"):
        return figure.rival
    rows = [str(cells[0]) for cells in table.rows if str(cells[0]).startswith(figure.rival[:-1])]
    if not rows:
        raise MissingFigureError(f"the table {table.title!r} has no row that begins with {figure.rival[:-1]!r}")
    best = max if figure.kind == "rate" else min
    return best(rows, key=lambda row: number(cell(table, row, figure.column)))


def table_of(figure: Figure | Count, results: Mapping[str, dict[str, Any]]) -> Table:
    """The table that a figure comes from."""
    if figure.suite not in results:
        raise MissingFigureError(f"benchmarks/results/{figure.suite}.json is not there")
    found = [table for table in results[figure.suite]["tables"] if figure.table in table["title"]]
    if len(found) != 1:
        raise MissingFigureError(f"{figure.suite}.json has {len(found)} tables with {figure.table!r} in their title")
    return Table.from_json(found[0])


def column_of(table: Table, column: str) -> int:
    """Where the first column of that name is."""
    headings = [heading for heading, _ in table.columns]
    if column not in headings:
        raise MissingFigureError(f"the table {table.title!r} has no column {column!r}")
    return headings.index(column)


def cell(table: Table, row: str, column: str) -> Cell:
    """What stands in a row, told by its first cell."""
    rows = [cells for cells in table.rows if cells[0] == row]
    if len(rows) != 1:
        raise MissingFigureError(f"the table {table.title!r} has {len(rows)} rows for {row!r}")
    return rows[0][column_of(table, column)]


def number(value: Cell) -> float:
    """A figure, or the median of one."""
    return spread(value).median


def spread(value: Cell) -> Spread:
    """A figure with its quartiles."""
    if isinstance(value, Spread):
        return value
    if isinstance(value, int | float):
        return Spread.exact(float(value))
    raise MissingFigureError(f"{value!r} stands where a number is expected")


def written(value: float, kind: str) -> str:
    """A number with its unit, in three digits or so."""
    match kind:
        case "size":
            unit, least = next(pair for pair in _SIZES if value >= pair[1])
            return f"{digits(value / least)} {unit}"
        case "seconds":
            return f"{value:.2f} s"
        case "share":
            return f"{value:.2%}" if value < 0.01 else f"{value:.1%}"
        case _:
            return f"{value:,.0f}"


def unbroken(text: str) -> str:
    """The same for a cell that is to stay on one line."""
    return text.replace(" ", "&nbsp;")


def digits(value: float) -> str:
    """Three of them."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def compared(times: Spread, kind: str, language: Language) -> str:
    """The ratio in words that cannot be misread, with its quartiles if they are far apart or leave open who is better;
    that of two shares of time would say nothing."""
    if kind == "share":
        return ""
    if kind == "size" and times.median < 1:
        return WORDS[language]["smaller"].format(digits(1 / times.median))
    words = WORDS[language]["larger" if kind == "size" else "speed"].format(digits(times.median))
    if times.high - times.low > FAR_APART * times.median or times.low < 1 < times.high:
        words += WORDS[language]["quartiles"].format(digits(times.low), digits(times.high))
    return words


def table_lines(rows: Sequence[Row], language: Language) -> Iterator[str]:
    """The table in Markdown. What stands above already is not said again."""
    yield "| " + " | ".join(HEADINGS[language]) + " |"
    yield "| --- | --- | --- | --- |"
    before = ""
    for row in rows:
        link = f"[{row.what}]({PAGE}#{anchor(row.title)})" if row.what != before else ""
        yield "| " + " | ".join([link, row.ours, row.other, row.compared]) + " |"
        before = row.what


def anchor(title: str) -> str:
    """The name that a heading gets on GitHub."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def machine(results: Mapping[str, dict[str, Any]], language: Language) -> str:
    """One sentence on what they were measured with; every value that the result files have, if they differ."""

    comma = WORDS[language]["comma"]

    def all_of(key: str) -> str:
        return comma.join(dict.fromkeys(str(result["environment"][key]) for result in results.values()))

    where = comma.join([*map(all_of, ("processor", "system", "python")), f"torch {all_of('torch')}"])
    return WORDS[language]["machine"].format(cores=all_of("cores given"), where=where)


def section(results: Mapping[str, dict[str, Any]], language: Language) -> tuple[str, list[str]]:
    """What belongs between the two comments, and what had to be left out, with the reason."""
    rows: list[Row] = []
    used: dict[str, dict[str, Any]] = {}
    missing: list[str] = []
    for figure in FIGURES:
        try:
            rows.append(row_of(figure, results, language))
            used[figure.suite] = results[figure.suite]
        except MissingFigureError as reason:
            missing.append(f"left out: {figure.what['en']}: {reason}")
    text = "\n".join([*table_lines(rows, language), "", machine(used, language)])
    return text, missing


def with_section(page: str, text: str) -> str:
    """The page with another text between the two comments."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN!r} with {END!r} behind it")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def load_results(folder: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """The result files of a folder, by their suites."""
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))}


def main(argv: Sequence[str] | None = None) -> int:
    """0: the pages say what the result files do; 1: with --check, one does not."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.figures", description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is out of date")
    options = parser.parse_args(argv)
    results = load_results()
    stale = []
    for language, name in READMES.items():
        text, missing = section(results, language)
        if language == "en":
            print(*missing, sep="\n", end="\n" if missing else "", file=sys.stderr)
        page = (ROOT / name).read_text(encoding="utf-8")
        new = with_section(page, text)
        if new != page:
            stale.append(name)
            if not options.check:
                (ROOT / name).write_text(new, encoding="utf-8")
    if options.check and stale:
        print(f"out of date: {', '.join(stale)}; run: python -m benchmarks.figures", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
