"""The charts of the demo's page, as SVG: bars, curves over time, and strips of waiting and working.

    amount_bar(0.097, OURS, "58,371 bytes")
    curves([Curve("cw.Loader", OURS, points)], seconds=4.2, top=2.4)

Shapes stretch with the page; whatever is text stands beside them as HTML, so that it stays readable on a phone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cordwood.common.html import safe
from cordwood.demo.report import Step
from cordwood.doctor import PHASE_COLOURS

# As in the doctor's reports: told apart by people who see colours differently, and by lightness.
OURS = "#009e73"
TODAY = "#8a8f98"
FEEDS = ("#d55e00", "#0072b2")  # of others that feed a net
WAITING = PHASE_COLOURS["wait"]
WORKING = PHASE_COLOURS["backward"]
_HEIGHT = 100.0
_THINNEST = 0.5  # percent of the width: an amount that is there is seen
_WINDOW = 8  # steps that a point of a curve is the mean of


@dataclass(frozen=True)
class Curve:
    """Points of seconds and loss, in a colour."""

    title: str
    colour: str
    points: Sequence[tuple[float, float]]


def svg(width: float, height: float, label: str, parts: Iterable[str], kind: str = "") -> str:
    """A picture that takes the place there is."""
    sort = f' class="{kind}"' if kind else ""
    return (
        f'<svg{sort} viewBox="0 0 {width:g} {height:g}" preserveAspectRatio="none" role="img" '
        f'aria-label="{safe(label)}">{"".join(parts)}</svg>'
    )


def rect(x: float, width: float, colour: str, told: str = "", height: float = 10) -> str:
    """A box from the top of its picture, with what it tells when pointed at."""
    title = f"<title>{safe(told)}</title>" if told else ""
    return f'<rect x="{x:.5g}" y="0" width="{width:.5g}" height="{height:g}" fill="{colour}">{title}</rect>'


def amount_bar(share: float, colour: str, told: str) -> str:
    """A bar as long as its share of the whole; more than the whole is cut, with a gap that shows it."""
    parts = [rect(0, min(100.0, max(100 * share, _THINNEST)), colour, told)]
    if share > 1.1:
        parts += [f'<path class="gap" d="M{x},10 {x + 2},0 {x + 3.2},0 {x + 1.2},10Z"/>' for x in (86, 90)]
    return svg(100, 10, told, parts, "amount")


def stacked_bar(phases: dict[str, float], whole: float, told: dict[str, str], label: str) -> str:
    """The parts of a step side by side, on a scale that other steps share."""
    parts, start = [], 0.0
    for name, milliseconds in phases.items():
        width = 100 * milliseconds / whole
        parts.append(rect(start, width, PHASE_COLOURS[name], told[name]))
        start += width
    return svg(100, 10, label, parts, "stack")


def span_bar(start: float, length: float, colour: str, told: str) -> str:
    """A bar that begins somewhere; both as parts of the whole."""
    return svg(100, 10, told, [rect(100 * start, 100 * length, colour, told)], "amount")


def smoothed(steps: Sequence[Step]) -> list[tuple[float, float]]:
    """The seconds at which each step was over, and the mean loss of the last few."""
    points, seconds, losses = [], 0.0, []
    for step in steps:
        seconds += step.waited + step.took
        losses.append(step.loss)
        recent = losses[-_WINDOW:]
        points.append((seconds, sum(recent) / len(recent)))
    return points


def curves(lines: Sequence[Curve], seconds: float, top: float) -> str:
    """All of them over the same time; a dashed line falls where one is at its end."""
    parts = []
    for line in lines:
        end = _across(line.points[-1][0], seconds)
        low = _down(line.points[-1][1], top)
        points = " ".join(f"{_across(x, seconds):.5g},{_down(y, top):.5g}" for x, y in line.points)
        title = f"<title>{safe(line.title)}</title>"
        parts.append(f'<path class="end" d="M{end:.5g},{low:.5g} V{_HEIGHT:g}" stroke="{line.colour}"/>')
        parts.append(f'<polyline class="curve" points="{points}" stroke="{line.colour}">{title}</polyline>')
    label = "Loss over time: " + ", ".join(f"{line.title} is done after {line.points[-1][0]:.1f} s" for line in lines)
    return svg(100, _HEIGHT, label, parts)


def strip(steps: Sequence[Step], seconds: float, label: str) -> str:
    """A training as it went by: where it waited, and where the net was at work."""
    waited: list[str] = []
    worked: list[str] = []
    start = 0.0
    for step in steps:
        for length, boxes in ((step.waited, waited), (step.took, worked)):
            left, right = _across(start, seconds), _across(start + length, seconds)
            boxes.append(f"M{left:.5g},0H{right:.5g}V10H{left:.5g}Z")
            start += length
    parts = [
        f'<path d="{"".join(boxes)}" fill="{colour}"/>' for boxes, colour in ((worked, WORKING), (waited, WAITING))
    ]
    return svg(100, 10, label, parts, "amount")


def _across(seconds: float, all_seconds: float) -> float:
    return 100 * seconds / all_seconds


def _down(value: float, top: float) -> float:
    return _HEIGHT * (1 - value / top)
