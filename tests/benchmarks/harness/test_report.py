"""Verdicts, and the page and tables that are made from a result file."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.harness.goals import BY_KEY, GOALS, Goal
from benchmarks.harness.outcome import Chart, Outcome, Table
from benchmarks.harness.report import bar, number, to_markdown, to_terminal, write_page, written
from benchmarks.harness.timing import Spread
from benchmarks.store.rivals.entrants import FFCV, FOR_CURVES, FOR_PHOTOGRAPHS, NUMPY


@pytest.mark.parametrize(
    ("sense", "measured", "verdict"),
    [
        ("at least", 1.9, "missed"),
        ("at least", 2.0, "met must"),
        ("at least", 5.0, "met aim"),
        ("at most", 5.1, "missed"),
        ("at most", 5.0, "met must"),
        ("at most", 2.0, "met aim"),
        ("at least", float("nan"), "missed"),
        ("at most", float("nan"), "missed"),
        ("at most", None, "not measured"),
    ],
)
def test_a_goal_is_met_up_to_and_with_its_bar(sense: Any, measured: float | None, verdict: str) -> None:
    must, aim = (2.0, 5.0) if sense == "at least" else (5.0, 2.0)
    assert Goal("key", "text", sense, must, aim).verdict(measured) == verdict


def test_a_goal_without_an_aim_can_only_meet_its_must() -> None:
    assert Goal("key", "text", "at least", 4.0).verdict(1000.0) == "met must"


@pytest.mark.parametrize(("unit", "must", "text"), [("ratio", 2.5, "<= 2.5x"), ("count", 0, "0"), ("count", 2, "<= 2")])
def test_a_bar_is_written_in_its_unit(unit: Any, must: float, text: str) -> None:
    assert bar(Goal("key", "text", "at most", must, unit=unit), must) == text


def test_every_goal_has_a_key_of_its_own_and_an_aim_beyond_its_must() -> None:
    assert len(BY_KEY) == len(GOALS)
    for goal in GOALS:
        if goal.aim is not None:
            assert goal.aim > goal.must if goal.sense == "at least" else goal.aim < goal.must


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (1234567.4, "bytes", "1,234,567"),
        (0.00123456, "ms", "1.235"),
        (0.00000123456, "digits-ms", "0.00123"),
        (1.62749, "seconds", "1.627"),
        (0.18456, "percent", "18.46%"),
        (1.5e9, "rate", "1,500"),
        (0.97251, "ratio", "0.973"),
        (13.254, "ratio", "13.25"),
        (1234.0, "count", "1,234"),
        (3, "text", "3"),
    ],
)
def test_numbers_are_written_as_their_column_wants(value: float, kind: Any, text: str) -> None:
    assert number(value, kind) == text


def test_a_spread_shows_its_quartiles_and_an_exact_figure_does_not() -> None:
    assert written(Spread.of([1.0, 2.0, 3.0]), "ratio") == "2.00 [1.500, 2.50]"
    assert written(Spread.exact(1.25), "ratio") == "1.250"
    assert written(None, "ratio") == ""
    assert written("way | text", "ratio") == "way | text"


def test_a_table_refuses_a_row_of_another_length_and_survives_json() -> None:
    table = Table("title", [("way", "text"), ("time", "ms")], notes=["a note"])
    table.add("ours", Spread.of([0.001, 0.002]))
    table.add("theirs", None)
    with pytest.raises(ValueError, match="1 cells for the 2 columns of 'title'"):
        table.add("short")
    assert Table.from_json(json.loads(json.dumps(table.to_json()))) == table


@pytest.fixture
def result() -> dict[str, Any]:
    table = Table("Some table", [("way", "text"), ("bytes", "bytes")], notes=["What it means."])
    table.add("`a | b`", 12345)
    empty = Outcome.unavailable("Weights", ["weights-float32-saved"], "the index is away").tables[0]
    entry = {"measured": vars(Spread(2.5, 2.25, 3.0, 15)), "verdict": "met must", "reason": None}
    away = {"measured": None, "verdict": "not measured", "reason": "the index is away"}
    return {
        "command": "cordwood bench codecs",
        "quick": False,
        "rounds": 15,
        "minutes": 1.25,
        "environment": {"processor": "an abacus"},
        "goals": [
            {"key": "small-speed-webp", **entry},
            {"key": "weights-float32-saved", **away},
            {"key": "weights-bfloat16-saved", **away},
        ],
        "tables": [table.to_json(), empty.to_json()],
    }


def test_the_page_holds_command_goals_tables_and_machine(result: dict[str, Any]) -> None:
    page = to_markdown({"codecs": json.loads(json.dumps(result))})
    assert "```sh\ncordwood bench codecs\n```" in page
    assert "| `small`: decoding speed, of WebP's | >= 2x | >= 5x | 2.50 [2.25, 3.00] | met must |" in page
    assert "| <code>a &#124; b</code> | 12,345 |" in page
    assert "* What it means." in page
    assert "* Not measured: the index is away" in page
    assert "* Not measured (weights-float32-saved, weights-bfloat16-saved): the index is away" in page
    assert "| processor | an abacus |" in page
    assert "quick run" not in page


def test_packages_that_were_not_there_are_not_listed(result: dict[str, Any]) -> None:
    facts = {"processor": "an abacus", "zipnn": "not installed", "torch": "2.13.0"}
    page = to_markdown({"codecs": result | {"environment": facts}})
    assert page.endswith("| processor | an abacus |\n| torch | 2.13.0 |\n")


def test_every_rival_that_keeps_a_dataset_is_in_the_curves() -> None:
    names = {rival.name for rival in FOR_PHOTOGRAPHS} - {NUMPY.name, FFCV.name}  # no rival; told apart as "FFCV"
    assert names | {"FFCV"} == {rival.name for rival in FOR_CURVES}


def test_a_quick_run_says_so_on_its_page(result: dict[str, Any]) -> None:
    assert "A quick run" in to_markdown({"codecs": result | {"quick": True}})


def test_both_suites_are_chapters_of_one_page(result: dict[str, Any], tmp_path: Path) -> None:
    other = result | {"command": "cordwood bench tensors", "environment": {"processor": "another"}}
    for name, one in (("tensors", other), ("codecs", result)):
        (tmp_path / f"{name}.json").write_text(json.dumps(one))
    write_page(tmp_path, tmp_path / "page.md")
    codecs, tensors = (tmp_path / "page.md").read_text().split("\n## ")[1:]
    assert codecs.startswith("Codecs\n")
    assert "cordwood bench codecs" in codecs
    assert "| processor | an abacus |" in codecs
    assert tensors.startswith("Tensor files\n")
    assert "cordwood bench tensors" in tensors
    assert "| processor | another |" in tensors


def test_the_page_in_the_docs_is_that_of_the_results(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    write_page(root / "benchmarks" / "results", tmp_path / "page.md")
    assert (root / "docs" / "benchmarks.md").read_text() == (tmp_path / "page.md").read_text()
    committed, made = (
        {file.name: file.read_text() for file in (folder / "pictures").glob("bench-*.svg")}
        for folder in (root / "docs", tmp_path)
    )
    assert committed == made


def test_a_table_of_curves_is_a_picture_on_the_page(result: dict[str, Any], tmp_path: Path) -> None:
    chart = Chart("sizes", "size", "samples a second", [1.0, 2.0], ["memory"])
    table = Table("Curves", [("way", "text"), ("one", "bytes"), ("two", "bytes")], chart=chart)
    table.add("ours", Spread.exact(3.0), None)
    result = result | {"goals": [], "tables": [table.to_json()]}
    (tmp_path / "scaling.json").write_text(json.dumps(result))
    write_page(tmp_path, tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text()
    assert "![Curves: the table below as curves](pictures/bench-sizes.svg)" in page
    assert "### Goals" not in page
    assert "Goals" not in to_terminal(result)
    assert "<svg" in (tmp_path / "pictures" / "bench-sizes.svg").read_text()


def test_the_terminal_shows_columns_without_markup(result: dict[str, Any]) -> None:
    lines = to_terminal(result).splitlines()
    assert "`" not in "".join(lines)
    heading = next(line for line in lines if line.startswith("  way"))
    row = next(line for line in lines if line.startswith("  a | b"))
    assert row.index("12,345") == heading.index("bytes")
