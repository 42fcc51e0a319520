"""A table of curves as a picture: plain SVG text, both axes logarithmic, quartiles as whiskers, limits dashed.

    Path("bench-sizes.svg").write_text(drawn(table))         # a table with a `chart`

The picture brings its own background, and follows the reader's choice of light or dark. It is narrow, and its letters
are large, so that it can still be read on a phone.
"""

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from benchmarks.harness.outcome import Kind, Table
from benchmarks.harness.timing import Spread

WIDTH, HEIGHT = 480, 320  # of the part above the legend
LEFT, RIGHT, TOP, BOTTOM = 56, 464, 36, 270  # of the area that the curves share
LEGEND_TOP, LINE = 324, 21
LETTER = 7.0  # width of one in the legend, on average, rounded up

SCALES: dict[Kind, float] = {"rate": 1e-6, "ms": 1e3, "digits-ms": 1e3}  # as the table writes them too

# Whoever is known looks the same in every picture; others take what is left.
KNOWN = (
    "ours, raw", "ours, balanced", "FFCV", "TensorDict memmap", "LMDB", "HDF5", "WebDataset", "one .pt a sample",
    "LitData", "one zipped .pt a sample",
)  # fmt: skip
# Everybody has a colour and a marker that nobody else has, since few people see all colours, and none in print. Greys
# are left to limits and to the grid.
LIGHT = ("#ea580c", "#1d4ed8", "#047857", "#c026d3", "#0891b2", "#0c0a09", "#65a30d", "#9f1239", "#8f7a00", "#a78bfa")
DARK = ("#fb923c", "#6090ff", "#10b981", "#e879f9", "#67e8f9", "#fafaf9", "#bef264", "#f43f5e", "#f7e93c", "#8a4af3")
_PLUS = "M-1.6-5.4h3.2v3.8h3.8v3.2h-3.8v3.8h-3.2v-3.8h-3.8v-3.2h3.8z"
MARKERS = (
    '<circle r="4.5"/>',
    '<rect x="-4" y="-4" width="8" height="8"/>',
    '<path d="M0-5 5 4H-5z"/>',
    '<path d="M0-5.5 5.5 0 0 5.5-5.5 0z"/>',
    '<path d="M0 5 5-4H-5z"/>',
    f'<path d="{_PLUS}"/>',
    '<path d="M0.0 -6.2 1.6 -2.2 5.9 -1.9 2.6 0.8 3.6 5.0 0.0 2.7 -3.6 5.0 -2.6 0.8 -5.9 -1.9 -1.6 -2.2z"/>',
    f'<path transform="rotate(45)" d="{_PLUS}"/>',
    '<circle class="hollow" r="4"/>',
    '<rect class="hollow" x="-3.5" y="-3.5" width="7" height="7"/>',
)


@dataclass(frozen=True)
class Axis:
    """Where a value stands between two ends, both given in pixels; logarithmic."""

    least: float
    most: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The pixel of a value."""
        span = math.log(self.most / self.least) or 1.0
        return self.start + (self.end - self.start) * math.log(value / self.least) / span


@dataclass(frozen=True)
class Curve:
    """One row of the table."""

    name: str
    points: list[tuple[float, Spread]]
    style: str  # its classes in the style sheet
    marker: str


def drawn(table: Table) -> str:
    """The whole picture."""
    chart = table.chart
    if chart is None:
        raise ValueError(f"'{table.title}' is a table without a chart")
    curves = curves_of(table)
    values = [value for curve in curves for _, spread in curve.points for value in (spread.low, spread.high)]
    if not values:
        raise ValueError(f"'{table.title}' has no figures to draw")
    places = Axis(min(chart.places), max(chart.places), LEFT + 14, RIGHT - 14)
    figures = Axis(min(values) / 1.15, max(values) * 1.15, BOTTOM, TOP)
    heads = [heading for heading, _ in table.columns[1:]]
    rows = legend_rows(curves)
    height = LEGEND_TOP + LINE * len(rows) + 6
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH * 4 // 3}" '
        f'height="{height * 4 // 3}" role="img" aria-label="{escape(table.title)}">',
        f"<title>{escape(table.title)}</title>",
        style_sheet(),
        f'<rect class="paper" width="{WIDTH}" height="{height}" rx="8"/>',
        text(12, 22, chart.up),
        *grid(figures, chart.places, places, heads),
        text((LEFT + RIGHT) / 2, BOTTOM + 42, chart.across, "middle"),
        *(line for curve in reversed(curves) for line in curve_lines(curve, places, figures)),
        *legend(rows),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def curves_of(table: Table) -> list[Curve]:
    """Rows with what they have measured: ours thick, rivals thin, limits dashed and without a marker."""
    assert table.chart is not None
    found = []
    others = itertools.count(len(KNOWN))
    scales = [SCALES.get(kind, 1.0) for _, kind in table.columns[1:]]
    for name, *cells in table.rows:
        points = [
            (place, Spread(cell.median * scale, cell.low * scale, cell.high * scale, cell.count))
            for place, cell, scale in zip(table.chart.places, cells, scales, strict=True)
            if isinstance(cell, Spread) and cell.low > 0
        ]
        if not points:
            continue
        if name in table.chart.limits:
            found.append(Curve(str(name), points, "limit", ""))
            continue
        look = KNOWN.index(name) if name in KNOWN else next(others)
        again, colour = divmod(look, len(LIGHT))  # of very many, at least the pairs of colour and marker differ
        style = f"c{colour}" + (" ours" if str(name).startswith("ours") else "")
        found.append(Curve(str(name), points, style, MARKERS[(colour + again) % len(MARKERS)]))
    return found


def curve_lines(curve: Curve, places: Axis, figures: Axis) -> Iterator[str]:
    """The line through the medians, a whisker from quartile to quartile, and a marker on each median."""
    spots = [(places.at(place), figures.at(spread.median), spread) for place, spread in curve.points]
    yield f'<g class="{curve.style}">'
    way = " ".join(f"{'L' if number else 'M'}{x:.1f} {y:.1f}" for number, (x, y, _) in enumerate(spots))
    yield f'<path class="line" d="{way}"/>'
    for x, y, spread in spots:
        yield f'<path class="whisker" d="M{x:.1f} {figures.at(spread.low):.1f}V{figures.at(spread.high):.1f}"/>'
        if curve.marker:
            yield f'<g transform="translate({x:.1f} {y:.1f})">{curve.marker}</g>'
    yield "</g>"


def grid(figures: Axis, marks: Sequence[float], places: Axis, heads: Sequence[str]) -> Iterator[str]:
    """Lines across at round figures, a short mark at each place, and what both are."""
    for value in round_figures(figures.least, figures.most):
        y = figures.at(value)
        yield f'<path class="grid" d="M{LEFT} {y:.1f}H{RIGHT}"/>'
        yield text(LEFT - 6, y + 4.5, shortened(value), "end")
    for place, head in zip(marks, heads, strict=True):
        x = places.at(place)
        yield f'<path class="grid" d="M{x:.1f} {BOTTOM}v6"/>'
        beyond = x + len(head) * LETTER / 2 > WIDTH - 6
        yield text(WIDTH - 6, BOTTOM + 21, head, "end") if beyond else text(x, BOTTOM + 21, head, "middle")


def round_figures(least: float, most: float) -> list[float]:
    """1, 10, 100 ... between the ends; 2 and 5 of each too where that would be fewer than four, and all where few."""
    exponents = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    found: list[float] = []
    for steps in ((1,), (1, 3), (1, 2, 5), range(1, 10)):
        found = [step * 10.0**power for power in exponents for step in steps if least <= step * 10.0**power <= most]
        if len(found) >= 4:
            break
    return found


def shortened(value: float) -> str:
    """A round figure in few letters: 20k, 1M, 0.5."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def legend_rows(curves: Sequence[Curve]) -> list[list[Curve]]:
    """Two names side by side where both are short, in the order of the table."""
    rows: list[list[Curve]] = []
    for curve in curves:
        if rows and len(rows[-1]) == 1 and all(len(one.name) * LETTER + 34 < WIDTH / 2 for one in (*rows[-1], curve)):
            rows[-1].append(curve)
        else:
            rows.append([curve])
    return rows


def legend(rows: Sequence[Sequence[Curve]]) -> Iterator[str]:
    """A piece of each line with its name."""
    for number, row in enumerate(rows):
        for column, curve in enumerate(row):
            x, y = 12 + column * WIDTH / 2, LEGEND_TOP + number * LINE + 8
            yield f'<g class="{curve.style}"><path class="line" d="M{x:g} {y}h22"/>'
            yield f'<g transform="translate({x + 11:g} {y})">{curve.marker}</g></g>'
            yield text(x + 28, y + 4.5, re.sub("^ours", "Cordwood", curve.name))  # a picture may be seen alone


def text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def style_sheet() -> str:
    """Light, and what is other in the dark."""
    return f"""<style>
text {{ font: 13.5px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #1c1917; }}
.paper {{ fill: #ffffff; }}
.grid {{ stroke: #d6d3d1; stroke-width: 1; fill: none; }}
.line, .whisker {{ fill: none; stroke: inherit; }}
g .line {{ stroke-width: 1.8; stroke-linejoin: round; }}
g .whisker {{ stroke-width: 5; stroke-opacity: 0.3; }}
.ours .line {{ stroke-width: 3.6; }}
.hollow {{ fill: #ffffff; stroke-width: 2; }}
.limit {{ stroke: #78716c; }}
.limit .line {{ stroke-width: 2; stroke-dasharray: 7 5; }}
{coloured(LIGHT)}
@media (prefers-color-scheme: dark) {{
text {{ fill: #e7e5e4; }}
.paper {{ fill: #16181d; }}
.hollow {{ fill: #16181d; }}
.grid {{ stroke: #3f3f46; }}
.limit {{ stroke: #a8a29e; }}
{coloured(DARK)}
}}
</style>"""


def coloured(colours: Sequence[str]) -> str:
    return "\n".join(f".c{number} {{ stroke: {one}; fill: {one}; }}" for number, one in enumerate(colours))
