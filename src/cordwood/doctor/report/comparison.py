"""Compares two reports, before and after a change: is training faster, and by as much as was promised?

    comparison = Report.load("before.json").compare(Report.load("after.json"))
    print(comparison)
    comparison.exit_code        # 1 if training got slower beyond the noise, 3 if that cannot be told

A step's time is the median over stretches of the run of their mean steps: single hiccups do not count, and what comes
every few steps does. Where both runs had several epochs, waiting for the first batch of each is part of it. The noise
is three standard errors of the difference of these medians, and at least 3%; and nearly all stretches of one run must
be faster than nearly all of the other. A hiccup widens it as little as it moves the median.
"""

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from cordwood.common.html import Printed
from cordwood.common.numbers import figure, milliseconds, percent, with_spread
from cordwood.common.tables import fit, folded, table_line, terminal_width, wrapped
from cordwood.common.text import printable
from cordwood.doctor.evidence.evidence import NO_SAVES, PHASES
from cordwood.doctor.report.report import Report
from cordwood.doctor.report.verdict import ABOUT_DATA
from cordwood.doctor.wording import PHASE_NAMES, place_of

LEAST_NOISE = 0.03
_NOTHING_MEASURED = 3  # the exit code of bad data
_ERRORS = 3.0  # beyond what stretches of a run show: a machine is not the same in two runs
_SPREADS = 2.0  # where only the deviation of stretches is known
_LOOPS = "python-bound"  # what it promises includes lines of the loop that other rules speak of
_KEPT = 0.25  # a promise is kept that is met within this part of it
# Facts about a run that make another one hard to compare with it.
_FACTS = ("device", "processor", "cores", "threads", "system", "torch", "python", "world_size")


@dataclass(frozen=True, repr=False)
class Comparison(Printed):
    """What two reports say together. Milliseconds are per training step."""

    before: Report
    after: Report
    before_ms: float | None  # None: that run has no step that was measured
    after_ms: float | None
    noise_ms: float | None

    @property
    def got_ms(self) -> float | None:
        """What the change saves; below zero where it costs."""
        return None if self.before_ms is None or self.after_ms is None else self.before_ms - self.after_ms

    @property
    def verdict(self) -> str:
        """``faster``, ``slower``, ``same`` (as far as the noise lets see) or ``unknown``."""
        if self.got_ms is None or self.noise_ms is None:
            return "unknown"
        if abs(self.got_ms) <= self.noise_ms:
            return "same"
        return "faster" if self.got_ms > 0 else "slower"

    @property
    def exit_code(self) -> int:
        """1 on a regression beyond the noise, 3 where nothing was measured that could be compared."""
        return _NOTHING_MEASURED if self.got_ms is None else int(self.verdict == "slower")

    @property
    def gone(self) -> list[dict[str, Any]]:
        """Findings of the first report that the second has no more, though their rules have judged again."""
        return [finding for finding, why in self._missing if not why]

    @property
    def not_judged(self) -> list[tuple[dict[str, Any], str]]:
        """Findings of which the second report does not say whether they are still there, and why it does not."""
        return [(finding, why) for finding, why in self._missing if why]

    @property
    def _missing(self) -> list[tuple[dict[str, Any], str]]:
        """Findings that the second report has not; with the reason where that does not mean that they are mended."""
        silenced = _newly_silenced(self.before, self.after)
        missing = []
        for finding in _without(self.before.findings, self.after.findings):
            reasons = silenced.get(finding["rule"])
            missing.append((finding, reasons.pop() if reasons else _why_not_judged(finding["rule"], self.after)))
        return missing

    @property
    def new(self) -> list[dict[str, Any]]:
        """Findings that only the second report has."""
        return _without(self.after.findings, self.before.findings)

    @property
    def predicted_ms(self) -> float | None:
        """What the findings that are gone had promised together; None if they promised no time.

        Several cures of the same waiting promise the same milliseconds, and so do a slow loop and the lines inside it:
        the largest promise counts. Information promises nothing.
        """
        waiting: list[float] = []
        loops: dict[Any, float] = defaultdict(float)  # by the function that a finding is about
        lines: dict[Any, float] = defaultdict(float)
        for index, finding in enumerate(self.gone):
            saves = finding["saves_ms_per_step"]
            if saves is None or finding["level"] == "info":
                continue
            where = index if finding["file"] is None else (finding["file"], finding["function"])
            if finding["rule"] in ABOUT_DATA:
                waiting.append(saves)
            elif finding["rule"] == _LOOPS:
                loops[where] += saves
            else:
                lines[where] += saves
        if not (waiting or loops or lines):
            return None
        functions = loops.keys() | lines.keys()
        return max(waiting, default=0.0) + sum(max(loops.get(each, 0.0), lines.get(each, 0.0)) for each in functions)

    def __str__(self) -> str:
        return folded(line for part in (_head(self), _table(self), _findings(self), _notes(self)) for line in part)


def compare(before: Report, after: Report) -> Comparison:
    """Compare two runs."""
    first, second = before.document["steps"] or {}, after.document["steps"] or {}
    before_ms, after_ms = first.get("typical_ms"), second.get("typical_ms")
    starts = first.get("first_wait_ms_per_step"), second.get("first_wait_ms_per_step")
    noise = None
    if before_ms is not None and after_ms is not None:
        if starts[0] is not None and starts[1] is not None:
            before_ms, after_ms = before_ms + starts[0], after_ms + starts[1]
        of_first, of_second = _noise_of(first), _noise_of(second)
        if of_first is not None and of_second is not None:
            noise = max(LEAST_NOISE * before_ms, math.hypot(of_first, of_second), _overlap(first, second))
    return Comparison(before, after, before_ms, after_ms, noise)


def _overlap(first: dict[str, Any], second: dict[str, Any]) -> float:
    """How far two runs must be apart for nearly all stretches of one to be faster than nearly all of the other.

    A machine that changes its speed in the middle of a run shows it in its stretches; no error of a median does.
    """
    faster, slower = sorted((first, second), key=lambda steps: float(steps["typical_ms"]))
    if faster.get("typical_high_ms") is None or slower.get("typical_low_ms") is None:
        return 0.0
    above = faster["typical_high_ms"] - faster["typical_ms"]
    return float(above + slower["typical_ms"] - slower["typical_low_ms"])


def _noise_of(steps: dict[str, Any]) -> float | None:
    """One run's part of the noise; a report of an earlier version knows only how far its stretches differ."""
    error, deviation = steps.get("typical_error_ms"), steps["noise_ms"]
    if error is not None:
        return float(_ERRORS * error)
    return None if deviation is None else float(_SPREADS * deviation)


def _without(findings: list[dict[str, Any]], others: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Findings that the others have not: told by rule and file, since lines move when a script is edited."""
    left = [_key(other) for other in others]
    missing = []
    for finding in findings:
        if _key(finding) in left:
            left.remove(_key(finding))
        else:
            missing.append(finding)
    return missing


def _newly_silenced(before: Report, after: Report) -> dict[str, list[str]]:
    """The reasons, by rule, of findings that the second report keeps silent about beyond those of the first."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for entry in after.document["rules"]["silenced"]:
        reasons[entry["rule"]].append(f"silenced: {entry['why']}")
    for entry in before.document["rules"]["silenced"]:
        if reasons[entry["rule"]]:
            reasons[entry["rule"]].pop(0)
    return reasons


def _why_not_judged(rule: str, after: Report) -> str:
    """Why a rule cannot tell whether something is mended; empty if it can."""
    rules = after.document["rules"]
    for status in ("abstained", "failed"):
        for entry in rules[status]:
            if entry["rule"] == rule and entry["why"] != NO_SAVES:  # the cure is not to call torch.save any more
                return f"{status}: {entry['why']}" if entry["why"] else status
    judged = {entry["rule"] for entry in (*rules["passed"], *rules["silenced"], *rules["abstained"], *after.findings)}
    return "" if rule in judged else "the second report is without this rule"


def _key(finding: dict[str, Any]) -> tuple[str, str]:
    return finding["rule"], (finding["file"] or "").replace("\\", "/").rpartition("/")[2]


def _head(comparison: Comparison) -> list[str]:
    got, noise = comparison.got_ms, comparison.noise_ms
    if got is None or comparison.before_ms is None or comparison.after_ms is None:
        which = "the first" if comparison.before_ms is None else "the second"
        return [f"nothing to compare: {which} report has no training step that was measured"]
    times = f"{milliseconds(comparison.before_ms)} -> {milliseconds(comparison.after_ms)} a step"
    if noise is None:
        return [f"{times}: too few steps to tell a change from noise"]
    share = abs(got) / comparison.before_ms if comparison.before_ms else 0.0
    if comparison.verdict == "same":
        return [f"no difference beyond the noise: {times} (noise: {milliseconds(noise)})"]
    by = f"{figure(abs(got))} ± {figure(noise)} ms" if noise else milliseconds(abs(got))
    factor = f", {comparison.before_ms / comparison.after_ms:.2f} times as fast" if comparison.after_ms else ""
    return [f"{comparison.verdict}: {times}, {by} {'less' if got > 0 else 'more'} ({percent(share)}{factor})"]


def _table(comparison: Comparison) -> list[str]:
    documents = comparison.before.document, comparison.after.document
    rows = [("", "before", "after", "difference")]

    def row(name: str, values: tuple[float | None, float | None]) -> None:
        if any(values):
            known = values[0] is not None and values[1] is not None
            difference = f"{(values[1] or 0.0) - (values[0] or 0.0):+,.2f}" if known else ""
            rows.append((name, figure(values[0]), figure(values[1]), difference))

    for name, key in (("step: mean", "mean_ms"), ("median", "median_ms"), ("p95", "p95_ms"), ("spread", "spread_ms")):
        row(name, _both([document["steps"] for document in documents], key))
    for phase in PHASES:
        phases = [(document["phases"] or {}).get(phase) for document in documents]
        row(PHASE_NAMES[phase], _both(phases, "mean_ms"))
    row("first batches", _both([document["steps"] for document in documents], "first_wait_ms_per_step"))
    if len(rows) == 1:
        return []
    widths = fit(rows, terminal_width(), ())
    return ["", "milliseconds a step", *(f"  {table_line(cells, widths, range(1, 4))}" for cells in rows)]


def _both(parts: list[dict[str, Any] | None], key: str) -> tuple[float | None, float | None]:
    first, second = (None if part is None else part[key] for part in parts)
    return first, second


def _findings(comparison: Comparison) -> list[str]:
    lines = []
    told = [("gone", finding, comparison.before) for finding in comparison.gone]
    told += [(f"not judged again ({why})", finding, comparison.before) for finding, why in comparison.not_judged]
    told += [("new", finding, comparison.after) for finding in comparison.new]
    for word, finding, report in told:
        where = place_of(finding, report.document["folder"])
        saves = finding["saves_ms_per_step"]
        promise = "" if saves is None else f", saves {with_spread(saves, finding['spread_ms'])} ms/step"
        lines.append(f"{word}: {finding['level']} {finding['rule']}{f' at {where}' if where else ''}{promise}")
    lines += _promise(comparison)
    return ["", *(line for text in lines for line in wrapped(printable(text), terminal_width()))] if lines else []


def _promise(comparison: Comparison) -> list[str]:
    predicted, got, noise = comparison.predicted_ms, comparison.got_ms, comparison.noise_ms
    if not predicted or got is None:
        return []
    text = f"predicted {milliseconds(predicted)}/step, got {figure(got)}"
    off = abs(got - predicted) / predicted
    if off <= _KEPT:
        text += f": within {percent(off)}"
    elif noise is not None and abs(got - predicted) <= noise:
        text += f": {percent(off)} {'less' if got < predicted else 'more'}, but the noise is too large to tell"
    else:
        text += f": {percent(off)} {'less' if got < predicted else 'more'} than predicted"
    return [text]


def _notes(comparison: Comparison) -> list[str]:
    first, second = comparison.before.document, comparison.after.document
    notes = []
    if first["script"] != second["script"]:
        notes.append(f"the scripts differ: {first['script']} | {second['script']}")
    for fact in _FACTS:
        values = [document["environment"].get(fact) for document in (first, second)]
        if values[0] != values[1]:
            notes.append(f"the machines or versions differ: {fact}: {values[0]} | {values[1]}")
    batches = _both([first["steps"], second["steps"]], "batches_per_step")
    if batches[0] is not None and batches[1] is not None and abs(batches[0] - batches[1]) > 0.01 * batches[0]:
        notes.append(f"a step takes another number of batches: {figure(batches[0])} | {figure(batches[1])}")
    if first["cordwood"] != second["cordwood"]:
        notes.append(f"the reports are of different versions: cordwood {first['cordwood']} | {second['cordwood']}")
    return (
        ["", *(line for note in notes for line in wrapped(f"note: {printable(note)}", terminal_width()))]
        if notes
        else []
    )
