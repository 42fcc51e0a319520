"""The charts of the HTML report, as SVG without scripts; pointing at them shows their figures.

    timeline(document["series"])
    waterfall(document["typical_step"], document["layers"])

Shapes stretch with the page; whatever is text stands beside them as HTML, so that it stays readable on a phone.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from cordwood.common.html import safe
from cordwood.common.numbers import figure, milliseconds, percent
from cordwood.common.text import shortened
from cordwood.doctor.evidence.evidence import PHASES
from cordwood.doctor.report.style import PHASE_COLOURS
from cordwood.doctor.wording import PHASE_NAMES

_HEIGHT = 100.0
_MOST_COLUMNS = 200  # that can be pointed at
_LONGEST_NAME = 30  # of a layer in the waterfall
_MOST_INNER = 3  # layers shown within a phase of the waterfall
_FAR = 1.6  # times the 95th percentile: what reaches higher is cut off, so that the rest can be seen


def stacked_bar(phases: dict[str, Any]) -> str:
    """The parts of a step side by side."""
    parts, start = [], 0.0
    for name in PHASES:
        width = 100 * (phases[name]["share"] or 0.0)
        told = f"{PHASE_NAMES[name]}: {milliseconds(phases[name]['mean_ms'])}, {percent(phases[name]['share'])}"
        parts.append(_rect(start, 0, width, 10, PHASE_COLOURS[name], told))
        start += width
    label = ", ".join(
        f"{PHASE_NAMES[name]} {percent(phases[name]['share'])}" for name in PHASES if phases[name]["share"]
    )
    return f'<div class="bar">{_svg(100, 10, label, parts)}</div>'


def legend(phases: Sequence[str]) -> str:
    """Which colour is which phase."""
    items = (f"<li>{swatch(name)}{PHASE_NAMES[name]}</li>" for name in phases)
    return f'<ul class="legend">{"".join(items)}</ul>'


def swatch(phase: str) -> str:
    """A phase's colour beside its name."""
    return f'<span class="swatch" style="background:{PHASE_COLOURS[phase]}"></span>'


def timeline(series: dict[str, Any]) -> str:
    """All steps, one after the other, with their phases on top of each other."""
    columns = {name: [value or 0.0 for value in series["phases"][name]] for name in PHASES}
    totals = [float(sum(values)) for values in zip(*columns.values(), strict=True)]
    points, top = len(totals), _top(totals)
    parts = []
    below = [0.0] * points
    for name in PHASES:
        above = [low + value for low, value in zip(below, columns[name], strict=True)]
        if any(columns[name]):
            parts.append(f'<path d="{_area(below, above, top)}" fill="{PHASE_COLOURS[name]}"/>')
        below = above
    parts += _pointing(series, columns, totals)
    beyond = sum(total > top for total in totals)
    numbers = series["numbers"]
    label = f"Timeline of steps {numbers[0]} to {numbers[-1]}, from 0 to {milliseconds(top)} each"
    notes = []
    if beyond:
        many = "One point reaches" if beyond == 1 else f"{beyond} points reach"
        notes.append(f"{many} higher than the picture, up to {milliseconds(max(totals))}.")
    if series["steps_a_point"] > 1:
        slowest = max((value or 0.0 for value in series["slowest_ms"]), default=0.0)
        notes.append(f"A point is the mean of up to {series['steps_a_point']} steps.")
        notes.append(f"The slowest step took {milliseconds(slowest)}.")
    axis = (f"step {numbers[0]}", f"step {numbers[-1]}")
    text = f'<p class="quiet">{" ".join(notes)}</p>' if notes else ""
    return _chart(_svg(points, _HEIGHT, label, parts), top, axis) + text


def _top(values: Sequence[float]) -> float:
    ordered = sorted(values)
    usual = ordered[int(0.95 * (len(ordered) - 1))]
    return max(min(ordered[-1], _FAR * usual), 1e-6) if usual else max(ordered[-1], 1e-6)


def _area(below: list[float], above: list[float], top: float) -> str:
    """Steps as bars without gaps: up along the tops, and back along the bottoms."""
    there = " ".join(f"{x},{_y(value, top)} {x + 1},{_y(value, top)}" for x, value in enumerate(above))
    back = " ".join(f"{x + 1},{_y(value, top)} {x},{_y(value, top)}" for x, value in reversed(list(enumerate(below))))
    return f"M{there} {back}Z"


def _y(value: float, top: float) -> str:
    return f"{_HEIGHT * (1 - min(value, top) / top):.4g}"


def _pointing(series: dict[str, Any], columns: dict[str, list[float]], totals: list[float]) -> Iterator[str]:
    """Columns that are not seen, and tell their figures when pointed at."""
    points = len(totals)
    wide = -(-points // _MOST_COLUMNS)
    for start in range(0, points, wide):
        stop = min(points, start + wide)
        mean = sum(totals[start:stop]) / (stop - start)
        parts = ", ".join(
            f"{PHASE_NAMES[name]} {figure(sum(values[start:stop]) / (stop - start))}"
            for name, values in columns.items()
            if any(values[start:stop])
        )
        first, last = series["numbers"][start], series["numbers"][stop - 1]
        which = f"step {first}" if first == last else f"steps {first} to {last}"
        told = f"{which}: {milliseconds(mean)} ({parts})"
        yield _rect(start, 0, stop - start, _HEIGHT, "transparent", told)


def waterfall(typical: dict[str, Any], layers: Sequence[dict[str, Any]]) -> str:
    """A step that is neither fast nor slow: its phases one after the other, and the heaviest layers within them."""
    whole = sum(value or 0.0 for value in typical.values()) or 1.0
    rows, start = [], 0.0
    for name in PHASES:
        length = typical[name] or 0.0
        if not length:
            continue
        rows.append(_waterfall_row(PHASE_NAMES[name], "", start / whole, length / whole, length, PHASE_COLOURS[name]))
        inner_start, key = start, f"{name}_ms"
        # Layers were timed in a step of their own, which may have been slower: here they are parts of this one.
        shrunk = min(1.0, length / (sum(layer.get(key) or 0.0 for layer in layers) or length))
        heaviest = sorted((layer for layer in layers if layer.get(key)), key=lambda layer: -layer[key])[:_MOST_INNER]
        for layer in heaviest if len(layers) > 1 else ():
            part = layer[key] * shrunk
            if part >= 0.02 * whole:
                called = layer["module"] + class_behind(layer)
                colour = PHASE_COLOURS[name]
                rows.append(_waterfall_row(called, "inner", inner_start / whole, part / whole, part, colour))
            inner_start += part
        start += length
    return f'<div class="waterfall">{"".join(rows)}</div>'


def class_behind(layer: dict[str, Any]) -> str:
    """What stands behind the path of a layer, since that is often but a number: " Linear"."""
    kind = layer.get("class") or ""  # reports of earlier versions are without it
    return f" {kind}" if kind and kind != layer["module"].rpartition(".")[2].partition("#")[0] else ""


def _waterfall_row(name: str, kind: str, start: float, share: float, ms: float, colour: str) -> str:
    told = f"{name}: {milliseconds(ms)}"
    opacity = 0.6 if kind else 1.0
    bar = _svg(100, 10, told, [_rect(100 * start, 0, max(100 * share, 0.4), 10, colour, told, opacity)])
    return (
        f'<div class="{kind}">{safe(shortened(name, _LONGEST_NAME))}</div>{bar}<div class="ms">{milliseconds(ms)}</div>'
    )


def histogram(edges: Sequence[float | None], counts: Sequence[int], label: str) -> str:
    """How often a time was taken."""
    top = max(counts, default=0) or 1
    parts = []
    for index, count in enumerate(counts):
        height = _HEIGHT * count / top
        last = index == len(counts) - 1
        until = "more" if last else milliseconds(edges[index + 1])
        told = f"{figure(edges[index])} to {until}: {count} steps"
        parts.append(_rect(index + 0.05, _HEIGHT - height, 0.9, height, PHASE_COLOURS["wait"], told))
    svg = _svg(max(len(counts), 1), _HEIGHT, label, parts)
    return _chart(svg, float(top), (milliseconds(edges[0]), f"{milliseconds(edges[-1])} and more"), "steps", low=True)


def columns(values: Sequence[float | None], label: str, name: str) -> str:
    """One bar a value."""
    top = max((value or 0.0 for value in values), default=0.0) or 1.0
    parts = []
    for index, value in enumerate(values):
        height = _HEIGHT * (value or 0.0) / top
        told = f"{name} {index + 1}: {milliseconds(value)}"
        parts.append(_rect(index + 0.05, _HEIGHT - height, 0.9, height, PHASE_COLOURS["wait"], told))
    svg = _svg(max(len(values), 1), _HEIGHT, label, parts)
    return _chart(svg, top, (f"{name} 1", f"{name} {len(values)}"), low=True)


def _chart(svg: str, top: float, axis: tuple[str, str], unit: str = "ms", low: bool = False) -> str:
    scale = (
        f'<div class="scale"><span>{figure(top) if unit == "ms" else f"{top:,.0f}"} {unit}</span><span>0</span></div>'
    )
    ends = "".join(f"<span>{safe(text)}</span>" for text in axis)
    return f'<div class="chart{" low" if low else ""}">{scale}{svg}<div class="axis">{ends}</div></div>'


def _svg(width: float, height: float, label: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" preserveAspectRatio="none" role="img" aria-label="{safe(label)}">'
        f"{''.join(parts)}</svg>"
    )


def _rect(x: float, y: float, width: float, height: float, fill: str, told: str, opacity: float = 1.0) -> str:
    box = f'x="{x:.6g}" y="{y:.6g}" width="{max(width, 0.0):.6g}" height="{max(height, 0.0):.6g}"'
    look = f'fill="{fill}"' + (f' fill-opacity="{opacity:g}"' if opacity < 1 else "")
    return f"<rect {box} {look}><title>{safe(told)}</title></rect>"
