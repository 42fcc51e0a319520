"""The report: one JSON document that holds everything, and the texts and pages made of it.

    report = build_report(evidence, outcomes, cost, "train.py --epochs 1", path="train.py")
    print(report)                   # for a terminal
    report.save("report.html")      # or .json, .txt
    report.exit_code                # 1 if something is worth changing

    Report.load("before.json").document["steps"]["median_ms"]

Whatever shows a report is a pure function of the document, so a saved one can be shown and compared later.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cordwood import __version__
from cordwood.common.tables import terminal_width
from cordwood.common.text import counted
from cordwood.doctor.code.ignores import Ignores, mistakes_in
from cordwood.doctor.evidence.findings import LEVELS, MEDIUM_SHARE, Finding, level_of_share
from cordwood.doctor.report.anatomy import anatomy, number
from cordwood.doctor.report.layers import functions_of, layers_of, stage_notes
from cordwood.doctor.report.report_file import SCHEMA_VERSION, STATUSES, read
from cordwood.doctor.report.verdict import uneven_steps, verdict_on
from cordwood.doctor.wording import NOTHING
from cordwood.errors import StorageError, UsageError

if TYPE_CHECKING:
    from cordwood.doctor.evidence.evidence import Evidence
    from cordwood.doctor.report.comparison import Comparison
    from cordwood.doctor.rules.judging import Outcome

_SUFFIXES = (".html", ".json", ".txt")


class Report:
    """What the doctor found. ``document`` is the whole of it, ready for JSON."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Report":
        """A report that was saved as JSON. Raises `FormatError` for anything else, field by field."""
        return cls(read(Path(path)))

    @property
    def findings(self) -> list[dict[str, Any]]:
        """The most worthwhile first."""
        found: list[dict[str, Any]] = self.document["findings"]
        return found

    @property
    def verdict(self) -> str:
        """In one line."""
        return str(self.document["verdict"])

    @property
    def exit_code(self) -> int:
        """1 if something is worth changing, 0 if all there is to say is for information."""
        return int(any(finding["level"] != "info" for finding in self.findings))

    def __str__(self) -> str:
        from cordwood.doctor.report.terminal import format_text

        return format_text(self.document, terminal_width())

    def __repr__(self) -> str:
        return f"<Report: {self.verdict}>"

    def tell_end(self, how: str, *, all_seen: bool = True) -> None:
        """Add that what was watched ended before it was done: ``tell_end("the script ended with exit code 1")``.

        Without `all_seen` it may have done more steps than were watched.
        """
        steps = self.document["steps"]
        if all_seen:
            how += f" after {counted(steps['count'], 'step')}" if steps else " before its first training step"
        self.document["notes"].insert(0, f"{how}: what would have come later was not seen")
        if not self.exit_code:
            rest = "nothing found until then" if self.verdict == NOTHING else self.verdict
            self.document["verdict"] = f"{how}; {rest}"

    def _repr_html_(self) -> str:
        from html import escape

        from cordwood.doctor.report.html import format_html

        # A page of its own inside the notebook's, so that neither's style reaches the other.
        page = escape(format_html(self.document))
        return f'<iframe srcdoc="{page}" style="width:100%;height:80vh;border:0" title="Report of the doctor"></iframe>'

    def compare(self, after: "Report") -> "Comparison":
        """This run beside a later one: ``print(before.compare(after))``."""
        from cordwood.doctor.report.comparison import compare

        return compare(self, after)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file; the suffix says how: ``.html``, ``.json`` or ``.txt``."""
        file = Path(path)
        suffix = file.suffix.lower()
        if suffix not in _SUFFIXES:
            raise UsageError(f"{file}: the name of a report ends in one of {', '.join(_SUFFIXES)}, not in {suffix!r}")
        self.save_as(suffix, file)

    def save_as(self, suffix: str, file: Path) -> None:
        """The same under any name."""
        if suffix == ".html":
            from cordwood.doctor.report.html import format_html

            text = format_html(self.document)
        elif suffix == ".json":
            text = json.dumps(self.document, indent=1, allow_nan=False) + "\n"
        else:
            from cordwood.doctor.report.terminal import format_text

            text = f"{format_text(self.document)}\n"
        try:
            file.write_text(text, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise StorageError(f"the report could not be written to {file}: {error}") from error


def build_report(
    evidence: "Evidence",
    outcomes: Sequence["Outcome"],
    cost: dict[str, Any],
    script: str,
    *,
    path: str | os.PathLike[str] | None = None,
) -> Report:
    """The report of a run. `script` is how the run is called in it; `path` is the script's file, for its ignores."""
    known = {outcome.rule.id for outcome in outcomes}
    ignores = Ignores.near(path, known)
    parts = anatomy(evidence.steps, evidence.micro_batches)
    mean = (parts["steps"] or {}).get("mean_ms")
    findings: list[dict[str, Any]] = []
    rules: dict[str, list[dict[str, str]]] = {status: [] for status in STATUSES}
    for outcome in outcomes:
        told = 0
        for finding in outcome.findings:
            silenced = ignores.why_silenced(finding)
            if silenced is None:
                findings.append(_finding(finding, outcome.rule.title, mean))
                told += 1
            else:
                rules["silenced"].append(_rule(outcome, silenced))
        if not outcome.findings and not told and outcome.status in rules:
            rules[outcome.status].append(_rule(outcome, outcome.why))
    findings.sort(key=_order)
    places = [finding.place for outcome in outcomes for finding in outcome.findings if finding.place is not None]
    mistakes = mistakes_in([place.file for place in places], known)
    document = {
        "schema_version": SCHEMA_VERSION,
        "cordwood": __version__,
        "script": script,
        "folder": _current_folder(),
        "verdict": verdict_on(findings, parts, evidence.missing, rules),
        "findings": findings,
        **parts,
        "rules": rules,
        "cost_of_doctor": {str(key): _plain(value) for key, value in cost.items()},
        "environment": {str(key): _plain(value) for key, value in evidence.environment.items()},
        "layers": layers_of(evidence),
        "functions": functions_of(evidence),
        "validation": _validation(evidence),
        "missing": {str(signal): str(why) for signal, why in evidence.missing.items()},
        "notes": [
            str(note)
            for note in (
                *uneven_steps(parts["steps"]),
                *evidence.notes,
                *stage_notes(evidence),
                *ignores.notes,
                *mistakes,
            )
        ],
    }
    return Report(document)


def _finding(finding: Finding, title: str, mean: float | None) -> dict[str, Any]:
    saves = number(finding.saves_ms)
    share = None if saves is None or not mean else min(1.0, saves / mean)
    level = finding.level or ("info" if share is None else level_of_share(share))
    place = finding.place
    return {
        "rule": finding.rule,
        "title": title,
        "level": level,
        "file": None if place is None else place.file,
        "line": None if place is None else place.line,
        "function": "" if place is None else place.function,
        "source": "" if place is None else place.source,
        "saves_ms_per_step": saves,
        "spread_ms": number(finding.spread_ms),
        "share": number(share),
        "verified": bool(finding.verified),
        "proof": finding.verified,
        "message": finding.message,
        "fix": finding.fix,
        "details": [
            {"title": each.title, "heads": list(each.heads), "rows": [list(row) for row in each.rows]}
            for each in finding.details
        ],
    }


def _order(finding: dict[str, Any]) -> tuple[bool, bool, float, int, float]:
    """What is worth changing before what is worth knowing; then by the time it saves; then by how loud it is.

    Time too short to change a script for does not count before that: wrong results come first.
    """
    saves, share = finding["saves_ms_per_step"] or 0.0, finding["share"]
    little = not saves or (share is not None and share < MEDIUM_SHARE)
    loud = LEVELS.index(finding["level"])
    return finding["level"] == "info", little, 0.0 if little else -saves, loud, -saves


def _rule(outcome: "Outcome", why: str) -> dict[str, str]:
    return {"rule": outcome.rule.id, "title": outcome.rule.title, "why": why}


def _validation(evidence: "Evidence") -> dict[str, Any] | None:
    if not evidence.validation:
        return None
    return {
        "batches": sum(seen.batches for seen in evidence.validation),
        "milliseconds": number(sum(seen.milliseconds for seen in evidence.validation)),
        "places": [str(seen.place) for seen in evidence.validation if seen.place is not None],
    }


def _current_folder() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # the script has removed it
        return ""


def _plain(value: Any) -> Any:
    """Figures and texts for JSON; anything unusual as its text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return number(value)
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return str(value)
