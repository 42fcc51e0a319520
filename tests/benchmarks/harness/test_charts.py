"""Charts are drawn from tables: every curve where its figures are, limits dashed, nothing that escapes its text."""

import colorsys
import itertools
import math
import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from benchmarks.harness.charts import DARK, KNOWN, LIGHT, Axis, curves_of, drawn, legend_rows, round_figures, shortened
from benchmarks.harness.outcome import Chart, Kind, Table
from benchmarks.harness.timing import Spread

SVG = "{http://www.w3.org/2000/svg}"


def table_of(rows: dict[str, list[Spread | None]], kind: Kind = "bytes") -> Table:
    chart = Chart("sizes", "size of a sample", "samples a second", [1.0, 10.0, 100.0], ["memory copy"])
    table = Table("A <title> & more", [("way", "text"), ("1", kind), ("10", kind), ("100", kind)], chart=chart)
    for name, cells in rows.items():
        table.add(name, *cells)
    return table


@pytest.fixture
def table() -> Table:
    return table_of(
        {
            "ours, raw": [Spread(100, 90, 120, 5), Spread(1000, 1000, 1000, 5), Spread(10000, 9000, 11000, 5)],
            "a <rival>": [Spread(10, 9, 11, 5), None, Spread(100, 99, 101, 5)],
            "memory copy": [Spread.exact(20000), Spread.exact(20000), Spread.exact(20000)],
        }
    )


def groups(picture: Any, style: str) -> list[Any]:
    return [one for one in picture.iter(f"{SVG}g") if one.get("class") == style]


def test_a_picture_is_wellformed_and_names_everything(table: Table) -> None:
    picture = ElementTree.fromstring(drawn(table))
    words = [one.text for one in picture.iter(f"{SVG}text")]
    assert {"Cordwood, raw", "a <rival>", "memory copy", "size of a sample", "samples a second", "100"} <= set(words)
    assert picture.get("aria-label") == "A <title> & more"
    assert "prefers-color-scheme: dark" in drawn(table)
    assert "<script" not in drawn(table)
    assert not re.search(r"""(href|src|url\()""", drawn(table))


def test_each_curve_goes_through_its_medians(table: Table) -> None:
    picture = ElementTree.fromstring(drawn(table))
    ours, in_legend = groups(picture, "c0 ours")
    line = next(one for one in ours if one.get("class") == "line")
    spots = [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", line.get("d", ""))]
    assert len(spots) == 3
    # Both axes are logarithmic: tenfold is the same step everywhere.
    assert spots[1][0] - spots[0][0] == pytest.approx(spots[2][0] - spots[1][0], abs=0.11)
    assert spots[0][1] - spots[1][1] == pytest.approx(spots[1][1] - spots[2][1], abs=0.11)
    assert spots[0][1] > spots[2][1]  # more is further up
    markers = [one for one in ours if one.get("transform")]
    assert len(markers) == 3
    assert [one.get("transform") for one in markers] == [f"translate({x} {y})" for x, y in spots]
    assert len(groups(picture, "c0")) == 2  # a rival's curve and its place in the legend
    assert in_legend is not None


def test_a_gap_is_left_where_nothing_was_measured(table: Table) -> None:
    rival = ElementTree.fromstring(drawn(table)).iter(f"{SVG}g")
    line = next(one for one in rival if one.get("class") == "c0")[0]
    assert line.get("d", "").count("L") == 1


def test_limits_have_no_marker_and_come_behind(table: Table) -> None:
    limit, legend = groups(ElementTree.fromstring(drawn(table)), "limit")
    assert not [one for one in limit if one.get("transform")]
    assert legend[0].get("class") == "line"
    assert ".limit .line { stroke-width: 2; stroke-dasharray" in drawn(table)


@pytest.mark.parametrize(("kind", "scale"), [("rate", 1e-6), ("ms", 1e3), ("bytes", 1.0)])
def test_figures_are_drawn_in_the_unit_of_the_table(kind: Any, scale: float) -> None:
    table = table_of({"ours": [Spread(2.0, 1.0, 4.0, 5), None, None]}, kind)
    (curve,) = curves_of(table)
    ((place, spread),) = curve.points
    assert place == 1.0
    assert (spread.median, spread.low, spread.high) == (2.0 * scale, 1.0 * scale, 4.0 * scale)


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="without a chart"):
        drawn(Table("plain", [("way", "text")]))
    with pytest.raises(ValueError, match="no figures to draw"):
        drawn(table_of({"ours": [None, None, None], "nothing": [Spread.exact(0.0), None, None]}))


def test_the_same_rival_looks_the_same_in_every_picture() -> None:
    cells: list[Spread | None] = [Spread.exact(1.0), None, None]
    for rows in (("LMDB", "ours, raw"), ("ours, raw", "somebody", "HDF5", "LMDB", "another")):
        by_name = {curve.name: curve for curve in curves_of(table_of(dict.fromkeys(rows, cells)))}
        assert (by_name["LMDB"].style, by_name["ours, raw"].style) == ("c4", "c0 ours")
    assert (by_name["somebody"].style, by_name["another"].style) == ("c0", "c1")  # and markers of their own
    assert len({(curve.style.split()[0], curve.marker) for curve in by_name.values()}) == len(rows)


def test_no_two_curves_have_a_colour_or_a_marker_in_common() -> None:
    cells: list[Spread | None] = [Spread.exact(1.0), None, None]
    curves = curves_of(table_of(dict.fromkeys(KNOWN, cells)))
    assert len({curve.marker for curve in curves}) == len({curve.style for curve in curves}) == len(curves) == 10
    many = curves_of(table_of(dict.fromkeys([f"rival {number}" for number in range(40)], cells)))
    assert len({(curve.style, curve.marker) for curve in many}) == 40


@pytest.mark.parametrize(("colours", "limit"), [(LIGHT, "#78716c"), (DARK, "#a8a29e")])
def test_colours_are_far_apart(colours: tuple[str, ...], limit: str) -> None:
    for one, other in itertools.combinations([*colours, limit], 2):
        assert math.dist(lab(one), lab(other)) > 30, (one, other)
    # Two blues can be far apart and be taken for one all the same.
    hues = [hue for hue, _, shown in map(hue_and_more, colours[: len(KNOWN)]) if shown > 0.3]
    assert len(hues) == len(KNOWN) - 1
    for one_hue, other_hue in itertools.combinations(hues, 2):
        assert min((one_hue - other_hue) % 360, (other_hue - one_hue) % 360) > 25, (one_hue, other_hue)


def hue_and_more(colour: str) -> tuple[float, float, float]:
    hue, lightness, saturation = colorsys.rgb_to_hls(*(int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)))
    return 360 * hue, lightness, saturation


def lab(colour: str) -> tuple[float, float, float]:
    """Lightness and two hues of CIE 1976, in which distances are about as people see them."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    r, g, b = (((part + 0.055) / 1.055) ** 2.4 if part > 0.04045 else part / 12.92 for part in parts)
    x, y, z = (
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089,
    )
    x, y, z = (value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in (x, y, z))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def test_a_heading_at_the_end_stays_within_the_picture() -> None:
    table = table_of({"ours": [Spread.exact(1.0), None, Spread.exact(2.0)]})
    table.columns[-1] = ("a hundred", "bytes")
    (last,) = (one for one in ElementTree.fromstring(drawn(table)).iter(f"{SVG}text") if one.text == "a hundred")
    assert last.get("text-anchor") == "end"
    assert float(last.get("x", "nan")) <= 480


def test_one_figure_is_enough() -> None:
    picture = drawn(table_of({"ours": [Spread.exact(5.0), None, None]}))
    assert "nan" not in picture
    assert math.isfinite(Axis(5.0, 5.0, 0.0, 10.0).at(5.0))


@pytest.mark.parametrize(
    ("least", "most", "expected"),
    [
        (0.5, 20000, [1, 10, 100, 1000, 10000]),
        (8, 2000, [10, 30, 100, 300, 1000]),
        (90, 1100, [100, 200, 500, 1000]),
        (210, 590, [300, 400, 500]),
    ],
)
def test_round_figures(least: float, most: float, expected: list[float]) -> None:
    assert round_figures(least, most) == expected


@pytest.mark.parametrize(("value", "text"), [(0.5, "0.5"), (20, "20"), (3000, "3k"), (2e6, "2M"), (1e9, "1G")])
def test_figures_on_an_axis_are_short(value: float, text: str) -> None:
    assert shortened(value) == text


def test_long_names_have_a_line_of_the_legend_each() -> None:
    cells: list[Spread | None] = [Spread.exact(1.0), None, None]
    curves = curves_of(table_of({"a": cells, "b": cells, "a very long name of a rival indeed": cells, "c": cells}))
    assert [[curve.name[:1] for curve in row] for row in legend_rows(curves)] == [["a", "b"], ["a"], ["c"]]
