"""Result files as text: Markdown and charts for `docs/benchmarks.md`, plain columns for the terminal.

python -m benchmarks.harness.report         # write the page and its pictures again from the files in benchmarks/results
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness.charts import drawn
from benchmarks.harness.goals import BY_KEY, Goal
from benchmarks.harness.methods import METHODS, TITLES
from benchmarks.harness.outcome import Cell, Kind, Table
from benchmarks.harness.timing import Spread

QUICK = (
    "A quick run: smaller data, few samples and few rounds. Good for a look, not for a claim: verdicts of a whole run "
    "may be others."
)
INTRODUCTION = (
    "*Written by the benchmarks from their result files; not edited by hand.*",
    "",
    "`make bench only=codecs` measures a chapter again, with the rivals in an environment of their own; without `only` "
    "it is all of them. Figures are medians, with the quartiles in brackets where they differ; a column such as "
    "*of PNG* or *speed, of this* is a ratio, taken in turns with the other one. Goals stand first, met or missed: a "
    "*must* is what the project set itself before it measured, an *aim* what it hoped for. Each chapter ends with the "
    "machine, the versions and the method.",
)
PICTURES = "pictures"  # the folder beside the page
ABSENT = "not installed"


def to_markdown(results: Mapping[str, dict[str, Any]]) -> str:
    """The whole page: a chapter for each suite's result."""
    lines = ["# Benchmarks", "", *INTRODUCTION, ""]
    lines += [f"* [{title}](#{anchor(title)})" for name, title in TITLES.items() if name in results] + [""]
    for name, title in TITLES.items():
        if name in results:
            lines += [f"## {title}", "", *chapter(results[name], METHODS[name])]
    return "\n".join(lines).rstrip() + "\n"


def anchor(title: str) -> str:
    """What a link to a heading ends with."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def chapter(result: dict[str, Any], method: str) -> list[str]:
    """What one suite found, as lines."""
    lines = ["Made by:", "", "```sh", result["command"], "```", ""]
    if result["quick"]:
        lines += [f"**{QUICK}**", ""]
    if result["goals"]:
        lines += ["### Goals", "", *markdown_rows(*goal_rows(result)), ""]
    reasons = reason_lines(result)
    lines += [*(f"* {line}" for line in reasons), ""] if reasons else []
    for table in map(Table.from_json, result["tables"]):
        lines += [f"### {table.title}", ""]
        if table.chart:
            lines += [f"![{table.title}: the table below as curves]({PICTURES}/{table.chart.file})", ""]
        if table.rows:
            headings, rows = table_rows(table)
            lines += [*markdown_rows(headings, rows), ""]
        lines += [*(f"* {note}" for note in table.notes), ""] if table.notes else []
    lines += ["### How it was measured", "", method, ""]
    rounds = f"Rounds: {result['rounds']} at most, fewer where a turn is long."
    lines += ["### Machine and versions", "", f"{rounds} Duration: {result['minutes']:.1f} minutes.", ""]
    return [*lines, *markdown_rows(["what", "value"], environment_rows(result["environment"])), ""]


def environment_rows(facts: Mapping[str, str]) -> list[list[str]]:
    """The machine and the versions, without packages that were not there, which older result files name, too.

    A row that needs one of them is not measured and says so: who is not there is told where that matters.
    """
    return [[name, value] for name, value in facts.items() if value != ABSENT]


def to_terminal(result: dict[str, Any]) -> str:
    """The same tables in plain columns."""
    lines: list[str] = []
    for table in map(Table.from_json, result["tables"]):
        lines += ["", table.title]
        if table.rows:
            lines += plain_rows(*table_rows(table))
        lines += [f"  - {note}" for note in table.notes]
    if result["goals"]:
        lines += ["", "Goals", *plain_rows(*goal_rows(result))]
    lines += [f"  - {line}" for line in reason_lines(result)]
    if result["quick"]:
        lines += ["", QUICK]
    return "\n".join(lines)


def goal_rows(result: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The goals with what was measured: headings and rows of text."""
    rows = []
    for entry in result["goals"]:
        goal = BY_KEY[entry["key"]]
        spread = Spread(**entry["measured"]) if entry["measured"] else None
        rows.append(
            [goal.text, bar(goal, goal.must), bar(goal, goal.aim), written(spread, goal.unit), entry["verdict"]]
        )
    return ["what", "must", "aim", "measured", "verdict"], rows


def reason_lines(result: dict[str, Any]) -> list[str]:
    """Why goals were not measured, each reason once."""
    keys: dict[str, list[str]] = {}
    for entry in result["goals"]:
        if entry["reason"]:
            keys.setdefault(entry["reason"], []).append(entry["key"])
    return [f"Not measured ({', '.join(names)}): {reason}" for reason, names in keys.items()]


def bar(goal: Goal, value: float | None) -> str:
    """A must or an aim, such as `>= 2x`; of things that are counted `0`, or `<= 2`."""
    if value is None:
        return ""
    if goal.unit == "count" and not value:
        return "0"
    return f"{'>=' if goal.sense == 'at least' else '<='} {value:g}{'x' if goal.unit == 'ratio' else ''}"


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
        case "count":
            return f"{value:,.0f}"
        case "text":
            return f"{value}"


def markdown_rows(headings: list[str], rows: list[list[str]]) -> list[str]:
    """Lines of a Markdown table."""
    return [
        "| " + " | ".join(headings) + " |",
        "|" + " --- |" * len(headings),
        *("| " + " | ".join(map(_cell, row)) + " |" for row in rows),
    ]


def _cell(text: str) -> str:
    """A cell. Inside code GitHub wants a bar escaped, and others show the escape: so such code is HTML."""
    in_code = re.sub(r"`([^`]*\|[^`]*)`", lambda code: f"<code>{code[1]}</code>", text)
    return in_code.replace("|", "&#124;")


def plain_rows(headings: list[str], rows: list[list[str]]) -> list[str]:
    """Lines of columns padded to one width, under a rule."""
    rows = [[cell.replace("`", "") for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]
    ruled = [headings, ["-" * width for width in widths], *rows]
    padded = ([cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in ruled)
    return ["  " + "  ".join(cells).rstrip() for cells in padded]


def write_page(results: Path, page: Path) -> None:
    """Write the page and the pictures that belong to a folder of result files, each named after its suite."""
    found = {file.stem: json.loads(file.read_text()) for file in sorted(results.glob("*.json"))}
    page.write_text(to_markdown(found))
    write_charts(found, page.parent / PICTURES)


def write_charts(results: Mapping[str, dict[str, Any]], folder: Path) -> None:
    """A picture for every table that is one."""
    for result in results.values():
        for table in map(Table.from_json, result["tables"]):
            if table.chart:
                folder.mkdir(parents=True, exist_ok=True)
                (folder / table.chart.file).write_text(drawn(table))


if __name__ == "__main__":
    root = Path(__file__).resolve().parent.parent.parent
    write_page(root / "benchmarks" / "results", root / "docs" / "benchmarks.md")
