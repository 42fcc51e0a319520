"""The report for a terminal: the verdict, the phases of a step as a bar, what to change and why, what is missing.

    print(format_text(report.document, width=80, colours=True))

Texts in it come from the user's files, or from a report that somebody sent: nothing in them reaches the terminal that
it would obey.
"""

import re
import textwrap
from collections.abc import Iterator
from functools import partial
from typing import Any

from cordwood.common.numbers import figure, milliseconds, percent
from cordwood.common.tables import fit, table_line
from cordwood.common.text import counted, printable, shortened
from cordwood.doctor.wording import PHASE_NAMES, cost_lines, gain, place_of, steps_line, validation_line

WIDEST = 100
_NARROWEST = 40
_NARROWEST_COLUMN = 8
_MOST_ROWS = 5  # of a table of evidence; all of them are in the other formats
_MOST_WHY = 160  # characters of why a rule abstained
_GLYPHS = dict(zip(PHASE_NAMES, "█▓▒░▚·", strict=True))
_LETTERS = dict(zip(PHASE_NAMES, "wcfbo.", strict=True))
_COLOURS = {"wait": 31, "transfer": 35, "forward": 34, "backward": 36, "optimizer": 32, "other": 90}
_LEVEL_COLOURS = {"high": "1;31", "medium": "1;33", "info": "1;36"}
_PLAIN = str.maketrans({"±": "+-", "…": "...", "–": "-", "→": "->", "×": "x", "≥": ">=", "≤": "<="})  # noqa: RUF001
_words = partial(textwrap.wrap, break_long_words=False, break_on_hyphens=False)
_NUMBER = re.compile(r"[-+]?[\d.,]+\s*(?:%|[a-zA-Z]{1,2}(?:/\w+)?)?")


def format_text(document: dict[str, Any], width: int = WIDEST, colours: bool = False, unicode: bool = True) -> str:
    """The whole report. Without `unicode` it is ASCII as far as the user's own texts are."""
    text = "\n".join(_Writer(document, max(_NARROWEST, min(width, WIDEST)), colours, unicode).lines())
    return text if unicode else text.translate(_PLAIN)


class _Writer:
    def __init__(self, document: dict[str, Any], width: int, colours: bool, unicode: bool) -> None:
        self.document = document
        self.width = width
        self.colours = colours
        self.glyphs = _GLYPHS if unicode else _LETTERS

    def lines(self) -> Iterator[str]:
        document = self.document
        worst = min((finding["level"] for finding in document["findings"]), key=list(_LEVEL_COLOURS).index, default="")
        verdict = f"doctor: {printable(document['verdict'])}"
        for line in _words(verdict, self.width, subsequent_indent="  "):
            yield self._coloured(line, {"high": "1;31", "medium": "1;33"}.get(worst, "1;32"))
        yield from self._anatomy()
        for number, finding in enumerate(document["findings"], 1):
            yield ""
            yield from self._finding(number, finding)
        yield ""
        yield from self._end()

    def _anatomy(self) -> Iterator[str]:
        steps, phases = self.document["steps"], self.document["phases"]
        if steps is None:
            return
        yield ""
        if phases is None:
            yield from self._wrapped(f"Steps: {steps_line(steps)}")
            return
        whole = f"A step takes {milliseconds(steps['mean_ms'])}: p50 {figure(steps['median_ms'])}"
        whole += f", p95 {figure(steps['p95_ms'])}, spread {figure(steps['spread_ms'])}; {steps_line(steps)}"
        yield from self._wrapped(whole)
        shown = {name: phase for name, phase in phases.items() if phase["p95_ms"] or phase["mean_ms"]}
        yield self._bar(shown)
        rows: list[tuple[str, ...]] = [("", "ms", "share", "p50", "p95", "spread")]
        rows += [
            (
                PHASE_NAMES[name],
                figure(phase["mean_ms"]),
                percent(phase["share"]),
                *(figure(phase[key]) for key in ("p50_ms", "p95_ms", "spread_ms")),
            )
            for name, phase in shown.items()
        ]
        widths = fit(rows, self.width - 4, ((0, 12), (5, 0), (3, 0), (4, 0)))
        right = range(1, 6)
        yield "    " + table_line(rows[0], widths, right)
        for name, row in zip(shown, rows[1:], strict=True):
            yield f"  {self._coloured(self.glyphs[name], str(_COLOURS[name]))} {table_line(row, widths, right)}"

    def _bar(self, phases: dict[str, Any]) -> str:
        """Cells go to the phases by their shares; what is left by rounding goes to those that lost most."""
        cells = self.width - 4
        exact = {name: (phase["share"] or 0.0) * cells for name, phase in phases.items()}
        given = {name: int(value) for name, value in exact.items()}
        over = max(0, min(cells, round(sum(exact.values()))) - sum(given.values()))
        for name in sorted(exact, key=lambda name: given[name] - exact[name])[:over]:
            given[name] += 1
        return "  " + "".join(
            self._coloured(self.glyphs[name] * many, str(_COLOURS[name])) for name, many in given.items() if many
        )

    def _finding(self, number: int, finding: dict[str, Any]) -> Iterator[str]:
        level, rule = finding["level"], printable(finding["rule"])
        head = f"{number}. {level} {rule}"
        saves = gain(finding)
        coloured = f"{number}. {self._coloured(f'{level} {rule}', _LEVEL_COLOURS[level])}"
        if len(head) + 2 + len(saves) <= self.width:
            yield coloured + (f"  {self._coloured(saves, '1')}" if saves else "")
        else:
            yield coloured
            yield f"   {self._coloured(saves, '1')}"
        place = printable(place_of(finding, self.document["folder"]))
        if place:
            inside = printable(finding["function"])
            where = place + (f" in {inside}" if inside and inside != "<module>" else "")
            yield f"   {self._coloured(shortened(where, self.width - 3), '4')}"
            if finding["source"]:
                yield "       " + shortened(printable(finding["source"]), self.width - 7)
        for paragraph in finding["message"].splitlines():
            yield from self._wrapped(paragraph, "   ")
        if finding["fix"]:
            yield "   What to do:"
            yield from self._code(finding["fix"])
        for detail in finding["details"]:
            yield from self._detail(detail)

    def _code(self, text: str) -> Iterator[str]:
        """As it stands, to be copied; only comments are broken."""
        for line in map(printable, text.expandtabs(4).splitlines()):
            if line.startswith("# ") and len(line) > self.width - 7:
                yield from _words(line, self.width, initial_indent=" " * 7, subsequent_indent=" " * 7 + "# ")
            else:
                yield f"       {self._coloured(line, '36')}" if line else ""

    def _detail(self, detail: dict[str, Any]) -> Iterator[str]:
        rows = [tuple(printable(cell) for cell in row) for row in (detail["heads"], *detail["rows"][:_MOST_ROWS])]
        title = detail["title"]
        yield from self._wrapped(f"{title[:1].upper()}{title[1:]}:", "   ")
        widths = _fitting(rows, self.width - 5)
        right = [
            column
            for column in range(1, len(rows[0]))
            if all(not row[column] or _NUMBER.fullmatch(row[column]) for row in rows[1:])
        ]
        for row in rows:
            yield f"     {table_line(row, widths, right)}"
        if len(detail["rows"]) > _MOST_ROWS:
            yield f"     ... {len(detail['rows']) - _MOST_ROWS} more in the other formats of the report"

    def _end(self) -> Iterator[str]:
        document = self.document
        validation = validation_line(document["validation"])
        if validation:
            yield from self._titled("Validation", validation)
        rules = document["rules"]
        found = len({finding["rule"] for finding in document["findings"]})
        counts = [f"{counted(found, 'rule')} spoke" if found else "none spoke"]
        counts += [f"{len(told)} {status}" for status, told in rules.items() if told]
        yield from self._titled("Rules", ", ".join(counts))
        for status in ("failed", "silenced", "abstained"):
            for why, names in _grouped(rules[status]).items():
                yield from self._titled("", f"{status}: {', '.join(names)}: {why}")
        for note in document["notes"]:
            yield from self._titled("Note", note)
        cost = "; ".join(cost_lines(document["cost_of_doctor"]))
        if cost:
            yield from self._titled("Own cost", cost)

    def _titled(self, title: str, text: str) -> Iterator[str]:
        yield from _words(printable(text), self.width, initial_indent=f"{title:<12}", subsequent_indent=" " * 14)

    def _wrapped(self, text: str, indent: str = "") -> Iterator[str]:
        yield from _words(printable(text), self.width, initial_indent=indent, subsequent_indent=indent)

    def _coloured(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colours and text else text


def _fitting(rows: list[tuple[str, ...]], width: int) -> list[int]:
    """Columns' widths: where there is no room for all, the widest give way together."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    while sum(widths) + 2 * (len(widths) - 1) > width and max(widths) > _NARROWEST_COLUMN:
        widths[widths.index(max(widths))] -= 1
    for column in range(len(widths) - 1, 0, -1):
        if sum(widths) + 2 * column > width:  # and where that is not enough, the last ones are left out
            widths[column] = 0
    return widths


def _grouped(rules: list[dict[str, str]]) -> dict[str, list[str]]:
    """Rules that say the same reason are told together."""
    groups: dict[str, list[str]] = {}
    for entry in rules:
        groups.setdefault(shortened(entry["why"] or "no reason given", _MOST_WHY), []).append(entry["rule"])
    return groups
