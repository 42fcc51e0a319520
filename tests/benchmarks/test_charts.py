"""Charts are drawn from tables: every curve where its figures are, limits dashed, nothing that escapes its text."""

import math
import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from benchmarks.charts import Axis, curves_of, drawn, legend_rows, round_figures, shortened
from benchmarks.harness import Spread
from benchmarks.outcome import Chart, Kind, Table

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
    assert {"ours, raw", "a <rival>", "memory copy", "size of a sample", "samples a second", "100"} <= set(words)
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
    assert len(groups(picture, "c8")) == 2  # a rival's curve and its place in the legend
    assert in_legend is not None


def test_a_gap_is_left_where_nothing_was_measured(table: Table) -> None:
    rival = ElementTree.fromstring(drawn(table)).iter(f"{SVG}g")
    line = next(one for one in rival if one.get("class") == "c8")[0]
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
    assert (by_name["somebody"].style, by_name["another"].style) == ("c8", "c9")


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
