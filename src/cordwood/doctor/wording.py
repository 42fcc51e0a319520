"""Formats the words and figures that the terminal report, the HTML page and a comparison share."""

from pathlib import PurePath
from typing import Any

from cordwood.common.numbers import milliseconds, percent, seconds, with_spread

PHASE_NAMES = {
    "wait": "waiting for data",
    "transfer": "copy to device",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "optimizer",
    "other": "everything else",
}

NOTHING = "nothing worth changing"  # the verdict on a healthy script


def share_of_step(ms: float, step_ms: float) -> str:
    """What part of a step it takes: of a mean step no more than all, though the steps that were watched were slower."""
    return percent(min(1.0, ms / step_ms)) if step_ms else "?"


def gain(finding: dict[str, Any]) -> str:
    """``saves 41 ± 3 ms/step (62%), verified by replay``; empty where the gain is not time."""
    saves = finding["saves_ms_per_step"]
    if saves is None:
        return ""
    most = "up to " if finding["proof"] == "measured" else ""  # how much of it goes depends on the change
    text = f"saves {most}{with_spread(saves, finding['spread_ms'])} ms/step"
    if finding["share"] is not None:
        text += f" ({percent(finding['share'])})"
    return text + verification(finding["proof"])


def verification(verified: str) -> str:
    """What proof there is, as the end of a sentence."""
    if not verified:
        return ", an estimate"
    return ", measured" if verified == "measured" else f", verified by {verified}"


def shown_path(file: str, folder: str) -> str:
    """A file as seen from the folder in which the script was run, or from where packages are installed."""
    for packages in ("/site-packages/", "/dist-packages/"):
        if packages in file:
            return file.rpartition(packages)[2]
    path = PurePath(file)
    return str(path.relative_to(folder)) if folder and path.is_relative_to(folder) else file


def place_of(finding: dict[str, Any], folder: str) -> str:
    """``train.py:31``; empty for a finding that is about no line."""
    return "" if finding["file"] is None else f"{shown_path(finding['file'], folder)}:{finding['line']}"


def cost_lines(cost: dict[str, Any]) -> list[str]:
    """What the doctor itself cost, as sentences."""
    lines = []
    timers, share = cost.get("timers_ms_per_step"), cost.get("share_of_steps")
    if timers:
        lines.append(
            f"timing the phases takes {milliseconds(timers)} of a step"
            + (f" ({percent(share)})" if share is not None else "")
        )
    deep, deep_seconds = cost.get("deep_steps"), cost.get("deep_seconds")
    if deep:
        lines.append(f"{deep} steps were watched more closely, which took {seconds(deep_seconds)} more")
    afterwards = "judging" if cost.get("seconds_a_rule") == 0 else "replays and trials"
    for key, what in (("start_seconds", "starting took"), ("analysis_seconds", f"{afterwards} afterwards took")):
        if cost.get(key):
            lines.append(f"{what} {seconds(cost[key])}")
    return lines


def steps_line(steps: dict[str, Any]) -> str:
    """How many steps there were, and how many of them are in the figures."""
    left_out = ", ".join(f"{many} {why}" for why, many in steps["left_out"].items())
    line = f"{steps['measured']:,} of {steps['count']:,} steps measured"
    return line + (f" (left out: {left_out})" if left_out else "")


def validation_line(validation: dict[str, Any] | None) -> str:
    """What was told apart from training."""
    if validation is None:
        return ""
    batches = validation["batches"]
    took = seconds((validation["milliseconds"] or 0.0) / 1000)
    return f"{batches:,} batches, {took} in all, told apart from training"
