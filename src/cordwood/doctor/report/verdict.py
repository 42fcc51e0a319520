"""The verdict of a report in one line: what is worth changing, or why that is not known.

    verdict_on(findings, anatomy, missing, rules)       # "62% of each step is waiting for data: 41 ms of 66 ms"

Good health is only told where rules could judge, and where most of a step is known to be work that is wanted.
"""

from pathlib import Path
from typing import Any

from cordwood.common.numbers import milliseconds
from cordwood.common.text import counted
from cordwood.doctor.evidence.evidence import FAILED, LEAST_WAITING, NO_TIME
from cordwood.doctor.evidence.findings import CURES_OF_WAITING, MEDIUM_SHARE, STARVED
from cordwood.doctor.wording import NOTHING

ABOUT_DATA = CURES_OF_WAITING | {STARVED}
_STARVED, _MOST_OF_IT = 0.1, 0.5  # of a step
_STEPS_FOR_LOADING = 20  # as `data-starved` has it
_INTERRUPTED = "interrupted"  # how the reason begins of those that a Ctrl-C cut off
_MANY = 1 / 3  # of the rules that apply: with no time for replays it is about half of them
_FAR_FROM_MEDIAN = 2.0  # times
_ENOUGH_STEPS = 8  # as `Evidence.need_steps` has it


def uneven_steps(steps: dict[str, Any] | None) -> list[str]:
    """A word where a few steps make the mean: work of every so many steps, or a busy machine."""
    if steps is None or not steps["median_ms"] or steps["mean_ms"] < _FAR_FROM_MEDIAN * steps["median_ms"]:
        return []
    return [
        f"a few steps are far longer than the others: the mean is {milliseconds(steps['mean_ms'])}, the median "
        f"{milliseconds(steps['median_ms'])}, and shares are of the mean; if nothing in the script does so, the "
        "machine was busy with something else: run it again"
    ]


def _waiting_unexplained(
    steps: dict[str, Any], phases: dict[str, Any] | None, rules: dict[str, list[dict[str, str]]]
) -> str:
    """What to say where much is waited for data, and no rule says why; empty where that is little."""
    wait = phases["wait"] if phases else {"share": None}
    tried = not any(entry["rule"] in CURES_OF_WAITING and NO_TIME in entry["why"] for entry in rules["abstained"])
    few = steps["measured"] < _STEPS_FOR_LOADING
    if (wait["share"] or 0.0) < (_STARVED if few else _MOST_OF_IT):
        return ""
    waited, whole = milliseconds(wait["mean_ms"]), milliseconds(steps["mean_ms"])
    why = "no change was proved to help" if tried else f"no change was tried: {NO_TIME} was given for that"
    if few:
        why = (
            f"{steps['measured']} steps are too few to say why, {_STEPS_FOR_LOADING} are needed: run more epochs, or "
            f"smaller batches"
        )
    return f"{wait['share']:.0%} of each step is waiting for data, {waited} of {whole}, and {why}"


def _beside_unexplained(steps: dict[str, Any], phases: dict[str, Any] | None, findings: list[dict[str, Any]]) -> str:
    """The same where most of a step is neither data nor model: no rule proves changes of such work."""
    other = phases["other"] if phases else {"share": None}
    if (other["share"] or 0.0) < _MOST_OF_IT:
        return ""
    spent, whole = milliseconds(other["mean_ms"]), milliseconds(steps["mean_ms"])
    told = next((found for found in findings if found["rule"] == "python-bound" and found["file"]), None)
    where = f", most of it at {Path(told['file']).name}:{told['line']}" if told else ""
    return f"{other['share']:.0%} of each step is neither data nor model, {spent} of {whole}{where}: look there first"


def _nothing(findings: list[dict[str, Any]], rules: dict[str, list[dict[str, str]]]) -> str:
    """The verdict if nothing is worth changing: that so many rules were not able to judge is no good health."""
    reasons = [entry["why"] for entry in rules["abstained"]]
    could_not = sum(NO_TIME in why or why.startswith(_INTERRUPTED) for why in reasons) + len(rules["failed"])
    # A rule that abstains for want of a device or of validation does not apply, and is not counted.
    could = could_not + len({entry["rule"] for entry in (*rules["passed"], *rules["silenced"], *findings)})
    return f"nothing found, but {could_not} of {could} rules could not judge" if could_not > _MANY * could else NOTHING


def verdict_on(
    findings: list[dict[str, Any]],
    parts: dict[str, Any],
    missing: dict[str, str],
    rules: dict[str, list[dict[str, str]]],
) -> str:
    """What a report opens with. Findings are in their order, `parts` are those of `anatomy`."""
    steps, phases = parts["steps"], parts["phases"]
    worth = [finding for finding in findings if finding["level"] != "info"]
    if not worth:
        failed = next((why for why in missing.values() if why.startswith(FAILED)), None)
        if failed is not None:
            return f"{failed}: what it could not see is not told"
        if steps is None:
            return "no training step was seen, so nothing can be said: a step is what ends with `optimizer.step()`"
        if steps["measured"] < _ENOUGH_STEPS:
            return (
                f"too few training steps to say anything: {steps['measured']} of {steps['count']} could be measured, "
                f"{_ENOUGH_STEPS} are needed; run more epochs, or smaller batches"
            )
        return (
            _waiting_unexplained(steps, phases, rules)
            or _beside_unexplained(steps, phases, findings)
            or _nothing(findings, rules)
        )
    first = worth[0]
    more = f"; {counted(len(worth) - 1, 'more finding')}" if len(worth) > 1 else ""
    wait = phases["wait"] if phases else None
    if first["rule"] in ABOUT_DATA and wait and (wait["share"] or 0.0) >= LEAST_WAITING:
        waited, whole = milliseconds(wait["mean_ms"]), milliseconds(steps["mean_ms"])
        return f"{wait['share']:.0%} of each step is waiting for data: {waited} of {whole}{more}"
    if (first["share"] or 0.0) >= MEDIUM_SHARE:
        saved, whole = milliseconds(first["saves_ms_per_step"]), milliseconds(steps["mean_ms"])
        return f"{first['share']:.0%} of each step can be saved: {saved} of {whole}, {first['title']}{more}"
    return f"{first['title']}{more}"
