"""The report as one HTML file that opens offline: charts, findings with their evidence, and the result of every rule.

    Path("report.html").write_text(format_html(report.document), encoding="utf-8")

Source lines, messages and names come from outside, so all of them are escaped; and a page that is told to load nothing
and to run nothing could not do harm if one were not.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from cordwood.common.html import safe
from cordwood.common.numbers import figure, milliseconds, percent
from cordwood.doctor.evidence.evidence import PHASES
from cordwood.doctor.report.charts import (
    class_behind,
    columns,
    histogram,
    legend,
    stacked_bar,
    swatch,
    timeline,
    waterfall,
)
from cordwood.doctor.report.style import REPORT_STYLE
from cordwood.doctor.wording import (
    NOTHING,
    PHASE_NAMES,
    cost_lines,
    gain,
    place_of,
    shown_path,
    steps_line,
    validation_line,
)

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_CODE = re.compile(r"`([^`\n]+)`")
_NUMBER = re.compile(r"[-+<]?[\d.,]+\s*(?:%|[a-zA-Z]{1,2}(?:/\w+)?)?")
_MOST_FIRST = 2  # epochs: fewer give no picture
_STATUSES = {
    "failed": "failed: a fault of the doctor's own",
    "abstained": "abstained: could not know",
    "silenced": "silenced by you",
    "passed": "passed: nothing to change",
}


def format_html(document: dict[str, Any]) -> str:
    """The whole page."""
    sections = (_anatomy, _findings, _timeline, _waits, _layers, _functions, _rules, _about)
    body = "".join(part for section in sections for part in section(document))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{safe(document['verdict'])}: {safe(document['script'])}</title>\n"
        f"<style>{REPORT_STYLE}</style>\n</head>\n<body>\n{_header(document)}<main>\n{body}</main>\n{_footer(document)}</body>\n</html>\n"
    )


def _header(document: dict[str, Any]) -> str:
    levels = {finding["level"] for finding in document["findings"]}
    calm = "good" if document["verdict"] == NOTHING else "medium"
    tone = next((level for level in ("high", "medium") if level in levels), calm)
    return (
        f'<header>\n<p class="quiet">Cordwood doctor: <span class="path">{safe(document["script"])}</span></p>\n'
        f'<h1 class="verdict-{tone}">{_inline(_capital(document["verdict"]))}</h1>\n</header>\n'
    )


def _anatomy(document: dict[str, Any]) -> Iterator[str]:
    steps, phases = document["steps"], document["phases"]
    yield "<section>\n<h2>Where a step's time goes</h2>\n"
    if steps is None:
        yield "<p>No training step was seen.</p>\n"
    elif phases is None:
        yield f"<p>{safe(steps_line(steps))}</p>\n"
    else:
        yield f"<p>A step takes <b>{milliseconds(steps['mean_ms'])}</b> on average; {safe(steps_line(steps))}.</p>\n"
        yield stacked_bar(phases)
        rows = [
            [
                f'<span class="phase">{swatch(name)}{PHASE_NAMES[name]}</span>',
                figure(phases[name]["mean_ms"]),
                percent(phases[name]["share"]),
                *(figure(phases[name][key]) for key in ("p50_ms", "p95_ms", "spread_ms")),
            ]
            for name in PHASES
            if phases[name]["mean_ms"] or phases[name]["p95_ms"]
        ]
        mean, *others = [figure(steps[key]) for key in ("mean_ms", "median_ms", "p95_ms", "spread_ms")]
        rows.append(["<b>the whole step</b>", mean, "100%", *others])
        yield _table("Phases of a step", ("phase", "mean ms", "share", "p50", "p95", "spread"), rows, range(1, 6))
    validation = validation_line(document["validation"])
    if validation:
        yield f"<p>Validation: {safe(validation)}.</p>\n"
    yield "</section>\n"


def _findings(document: dict[str, Any]) -> Iterator[str]:
    yield "<section>\n<h2>Findings</h2>\n"
    if not document["findings"]:
        yield f"<p>{safe(_capital(document['verdict']))}.</p>\n"
    for finding in document["findings"]:
        yield from _finding(finding, document["folder"])
    yield "</section>\n"


def _finding(finding: dict[str, Any], folder: str) -> Iterator[str]:
    level = finding["level"]
    yield f'<article class="finding {level}">\n<h3><span class="badge {level}">{level}</span>'
    yield f"{_inline(_capital(finding['title']))} <code>{safe(finding['rule'])}</code></h3>\n"
    saves = gain(finding)
    if saves:
        yield f'<p class="gain">{safe(_capital(saves))}</p>\n'
    place = place_of(finding, folder)
    if place:
        inside = finding["function"]
        within = f" in {safe(inside)}" if inside and inside != "<module>" else ""
        yield f'<p class="path">{safe(place)}{within}</p>\n'
        if finding["source"]:
            yield _pre(finding["source"], "source line")
    for paragraph in finding["message"].splitlines():
        if paragraph.strip():
            yield f"<p>{_inline(paragraph)}</p>\n"
    if finding["fix"]:
        yield f"<h3>What to do</h3>\n{_pre(finding['fix'], 'what to do')}"
    for detail in finding["details"]:
        rows = [[safe(cell) for cell in row] for row in detail["rows"]]
        yield f"<h3>{_inline(_capital(detail['title']))}</h3>\n"
        yield _table(detail["title"], detail["heads"], rows, _numeric(detail["rows"], len(detail["heads"])))
    yield "</article>\n"


def _timeline(document: dict[str, Any]) -> Iterator[str]:
    series, typical = document["series"], document["typical_step"]
    if series is not None:
        shown = [phase for phase in PHASES if any(series["phases"][phase])]
        yield f"<section>\n<h2>Steps, one after the other</h2>\n{timeline(series)}\n{legend(shown)}</section>\n"
    if typical is not None:
        picture = waterfall(typical, document["layers"])
        yield f"<section>\n<h2>A typical step</h2>\n{picture}\n"
        yield '<p class="quiet">Phases in the order in which they usually come'
        yield ", with the layers that take most of each" if 'class="inner"' in picture else ""
        yield ".</p>\n</section>\n"


def _waits(document: dict[str, Any]) -> Iterator[str]:
    waits = document["waits"]
    if waits is None or not waits["slowest_ms"]:  # nothing was waited for: there is no loader
        return
    yield '<section>\n<h2>Waiting for data</h2>\n<div class="two">\n<div>\n<h3>How long a step waits</h3>\n'
    yield histogram(waits["edges_ms"], waits["counts"], "Histogram of the time a step waits for data")
    yield f'<p class="quiet">The longest wait took {milliseconds(waits["slowest_ms"])}.</p>\n</div>\n'
    if len(waits["first_ms"]) >= _MOST_FIRST:
        yield "<div>\n<h3>The first batch of each epoch</h3>\n"
        yield columns(waits["first_ms"], "Waiting for the first batch of each epoch", "epoch")
        yield "</div>\n"
    yield "</div>\n</section>\n"


def _layers(document: dict[str, Any]) -> Iterator[str]:
    layers = document["layers"]
    if not layers:
        return
    heads = ("layer", "operations", "forward ms", "backward ms", "all ms", "share")
    rows = [
        [
            f"<code>{safe(layer['module'])}</code>{safe(class_behind(layer))}",
            f"{layer['ops']:,}",
            *(figure(layer[key]) for key in ("forward_ms", "backward_ms", "ms")),
            percent(layer["share"]),
        ]
        for layer in layers
    ]
    yield f"<section>\n<h2>Layers by time</h2>\n{_table('Layers by time', heads, rows, range(1, 6))}"
    yield '<p class="quiet">Of the operations of one training step that was watched.</p>\n</section>\n'


def _functions(document: dict[str, Any]) -> Iterator[str]:
    for key, title, unit in (
        ("training", "Functions with most own time, training", "ms a step"),
        ("loading", "Functions with most own time, loading data", "ms a batch"),
    ):
        found = document["functions"][key]
        if found:
            rows = [
                [
                    f"<code>{safe(each['name'])}</code>",
                    figure(each["own_ms"]),
                    f'<span class="path">{safe(_where(each, document["folder"]))}</span>',
                ]
                for each in found
            ]
            yield f"<section>\n<h2>{title}</h2>\n{_table(title, ('function', unit, 'where'), rows, (1,))}</section>\n"


def _where(function: dict[str, Any], folder: str) -> str:
    file = shown_path(function["file"], folder)
    return f"{file}:{function['line']}" if function["line"] else file


def _rules(document: dict[str, Any]) -> Iterator[str]:
    yield "<section>\n<h2>What every rule said</h2>\n"
    spoke = dict.fromkeys(finding["rule"] for finding in document["findings"])
    if spoke:
        yield f"<p>Spoke, above: {', '.join(f'<code>{safe(rule)}</code>' for rule in spoke)}</p>\n"
    for status, title in _STATUSES.items():
        told = document["rules"][status]
        if not told:
            continue
        yield f'<h3><span class="badge {status}">{len(told)}</span>{title}</h3>\n'
        rows = [[f"<code>{safe(each['rule'])}</code>", _inline(each["why"] or each["title"])] for each in told]
        yield _table(title, ("rule", "why" if status != "passed" else "about"), rows, ())
    yield "</section>\n"


def _about(document: dict[str, Any]) -> Iterator[str]:
    yield "<section>\n<h2>About this report</h2>\n"
    for note in document["notes"]:
        yield f"<p>Note: {_inline(note)}</p>\n"
    for signal, why in document["missing"].items():
        yield f"<p>Not seen: {safe(signal)}: {_inline(why)}</p>\n"
    cost = cost_lines(document["cost_of_doctor"])
    if cost:
        yield f"<p>The doctor's own cost: {safe('; '.join(cost))}.</p>\n"
    facts = [[safe(name.replace("_", " ")), safe(_fact(value))] for name, value in document["environment"].items()]
    if facts:
        yield _table("Environment", ("environment", ""), facts, ())
    yield "</section>\n"


def _fact(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _footer(document: dict[str, Any]) -> str:
    return (
        f"<footer>Made by cordwood {safe(document['cordwood'])}. All times are of the run that was watched; "
        f'it ran in <span class="path">{safe(document["folder"])}</span>.</footer>\n'
    )


def _table(label: str, heads: Sequence[str], rows: Iterable[Sequence[str]], numeric: Iterable[int]) -> str:
    """A table of cells that are HTML already; the heads are not."""
    right = set(numeric)
    kinds = [' class="number"' if column in right else "" for column in range(len(heads))]
    head = "".join(f'<th scope="col"{kind}>{safe(text)}</th>' for text, kind in zip(heads, kinds, strict=True))
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{kind or (' class=name' if not column else '')}>{cell}</td>"
            for column, (cell, kind) in enumerate(zip(row, kinds, strict=True))
        )
        + "</tr>\n"
        for row in rows
    )
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{safe(label)}">'
        f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>\n"
    )


def _numeric(rows: Sequence[Sequence[str]], count: int) -> list[int]:
    return [
        column for column in range(1, count) if all(not row[column] or _NUMBER.fullmatch(row[column]) for row in rows)
    ]


def _pre(text: str, label: str) -> str:
    lines = "\n".join(safe(line) for line in text.expandtabs(4).splitlines())
    return f'<pre tabindex="0" aria-label="{safe(label)}"><code>{lines}</code></pre>\n'


def _inline(text: str) -> str:
    """A sentence, with `code` in it."""
    return _CODE.sub(r"<code>\1</code>", safe(text))


def _capital(text: str) -> str:
    """Its first letter as at the beginning of a sentence; code stays as it is."""
    return text[:1].upper() + text[1:]
