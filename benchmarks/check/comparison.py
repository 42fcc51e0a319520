"""Two runs of a suite compared: every ratio then and now, the noise considered.

A ratio of two contenders in one run says more than a time does: it hardly depends on how busy or how fast the machine
is. What is compared are the goals' ratios, and on the curves ours as a part of what the machine itself does. One has
got worse if it moved in the wrong direction by more than both runs' quartiles and the drift between good runs explain.
Figures without a scale (a process's memory, what may be zero) are compared by their verdicts.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.harness.goals import BY_KEY, Goal
from benchmarks.harness.outcome import Table
from benchmarks.harness.report import number, plain_rows
from benchmarks.harness.timing import Spread

DRIFT = 0.10  # of a timed ratio, from one quiet run to the next: other memory, other clocks, another day
SIZE_DRIFT = 0.005  # of a ratio of sizes: headers and choices among equals
QUICK_DRIFT = 0.7  # where one run is quick, twofold: its data are others, and caches hold more of them
ORDER = ("worse", "better", "new", "not measured", "same")  # in which changes are told
SIGMAS = 3.0  # of the two medians' standard errors, together


@dataclass(frozen=True)
class Figure:
    """One ratio of one run."""

    what: str
    spread: Spread | None
    more_is_better: bool
    verdict: str | None = None  # of a goal


@dataclass(frozen=True)
class Change:
    """A figure then and now."""

    what: str
    before: Spread | None
    after: Spread | None
    allowed: float  # how far it may go the wrong way, as a share
    word: str  # "worse", "better", "same", "not measured", "new"


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    """Every ratio of either run, then and now."""
    then = {figure.what: figure for figure in figures(before)}
    quick = bool(before["quick"] or after["quick"])
    for figure in figures(after):
        yield change(then.pop(figure.what, None), figure, quick=quick)
    for figure in then.values():
        yield change(figure, None, quick=quick)


def figures(result: Mapping[str, Any]) -> Iterator[Figure]:
    """The ratios that a result holds: its goals', and those of its curves."""
    for entry in result["goals"]:
        goal = BY_KEY.get(entry["key"])
        if goal is not None:
            spread = Spread(**entry["measured"]) if entry["measured"] else None
            yield Figure(goal.key, spread, goal.sense == "at least", verdict_of(goal, spread))
    for data in result["tables"]:
        table = Table.from_json(data)
        if table.chart is not None:
            yield from curve_figures(table)


def verdict_of(goal: Goal, spread: Spread | None) -> str | None:
    """By today's goals, whatever they were when the result was written."""
    return goal.verdict(spread.median) if spread else None


def curve_figures(table: Table) -> Iterator[Figure]:
    """Ours, at each place, as a part of the first limit."""
    assert table.chart is not None
    rows = {str(row[0]): row[1:] for row in table.rows}
    limit = next((rows[name] for name in table.chart.limits if name in rows), None)
    for name, cells in rows.items():
        if limit is None or not name.startswith("ours"):
            continue
        for (heading, _), cell, most in zip(table.columns[1:], cells, limit, strict=True):
            if isinstance(cell, Spread) and isinstance(most, Spread):
                yield Figure(f"{table.chart.name}: {name}, {heading}", quotient(cell, most), more_is_better=True)


def quotient(over: Spread, under: Spread) -> Spread:
    """Of two figures of one run; the quartiles are as wide as both together."""
    return Spread(
        over.median / under.median, over.low / under.high, over.high / under.low, min(over.count, under.count)
    )


def change(before: Figure | None, after: Figure | None, *, quick: bool) -> Change:
    """What became of one figure."""
    known = after or before
    assert known is not None
    was, now = (figure.spread if figure else None for figure in (before, after))
    if now is None or was is None:
        word = "new" if now else "not measured"
        return Change(known.what, was, now, 0.0, word)
    if min(was.median, now.median) <= 0 or not math.isfinite(was.median * now.median):
        return Change(known.what, was, now, 0.0, by_verdict(before, after))
    allowed = tolerance(was, now, quick=quick)
    gain = math.log(now.median / was.median) * (1 if known.more_is_better else -1)
    word = "worse" if gain < -allowed else "better" if gain > allowed else "same"
    if word == "worse" and counted(known.what):
        word = by_verdict(before, after)
    return Change(known.what, was, now, allowed, word)


def by_verdict(before: Figure | None, after: Figure | None) -> str:
    """For figures without a scale: worse is what was met, and is missed now."""
    assert before is not None
    assert after is not None
    if after.verdict == before.verdict:
        return "same"
    return "worse" if after.verdict == "missed" else "better" if before.verdict == "missed" else "same"


def counted(what: str) -> bool:
    """Whether this is a process's memory as a share of what it may hold: looked at once, and all below it is good."""
    return "memory" in what


def tolerance(was: Spread, now: Spread, *, quick: bool) -> float:
    """How far a ratio may move, as a difference of logarithms.

    A quartile range is 1.35 standard deviations wide, and a median of n values strays by 1.25 of them over the root of
    n. Rounds of one run are alike in what the next run may do otherwise: that is what the drift is for.
    """
    exact = was.count == now.count == 1
    drift = QUICK_DRIFT if quick else SIZE_DRIFT if exact else DRIFT
    strays = [
        1.2533 * math.log(each.high / each.low) / 1.349 / math.sqrt(each.count) if each.low > 0 else math.inf
        for each in (was, now)
    ]
    return drift + SIGMAS * math.hypot(*strays)


def told(title: str, before: Mapping[str, Any], after: Mapping[str, Any], changes: Sequence[Change]) -> str:
    """What changed, as text; what is the same is only counted."""
    lines = ["", f"{title}: {sum(each.word == 'same' for each in changes)} of {len(changes)} ratios are the same"]
    for fact in ("processor", "cores given"):
        then, now = (result["environment"].get(fact, "unknown") for result in (before, after))
        if then != now:
            lines.append(f"  other {fact}: {then} then, {now} now; ratios still compare, with care")
    rows = [
        [each.word, each.what, figure_of(each.before), figure_of(each.after), f"{math.expm1(each.allowed):.0%}"]
        for each in sorted(changes, key=lambda each: ORDER.index(each.word))
        if each.word != "same"
    ]
    return "\n".join([*lines, *(plain_rows(["", "ratio", "committed", "now", "may move by"], rows) if rows else [])])


def figure_of(spread: Spread | None) -> str:
    return number(spread.median, "ratio") if spread else "not measured"
