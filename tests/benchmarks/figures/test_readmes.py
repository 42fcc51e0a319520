"""The READMEs' figures: those of the result files, and honest about who is better."""

import re

import pytest

from benchmarks.figures import readmes
from benchmarks.figures.selection import FIGURES, READMES, Figure, Language
from benchmarks.harness.timing import Spread
from tests.docs.support.pageblocks import ROOT


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_readmes_figures_are_those_of_the_result_files(language: Language) -> None:
    page = (ROOT / READMES[language]).read_text(encoding="utf-8")
    text, missing = readmes.section(readmes.load_results(), language)
    assert readmes.with_section(page, text) == page, "run: python -m benchmarks.figures"
    assert [line for line in missing if not line.endswith(".json is not there")] == []


def test_figures_say_who_is_better_and_by_how_much() -> None:
    text, missing = readmes.section(readmes.load_results(), "en")
    rows = [line for line in text.splitlines() if line.startswith("|")][2:]
    assert len(rows) + len(missing) == len(FIGURES)
    for row in rows:
        _, ours, other, ratio = (cell.strip() for cell in row.replace("&nbsp;", " ").strip("|").split("|"))
        times = re.fullmatch(r"([\d.,]+)x (as fast|smaller|larger)(?: \(([\d.]+) to ([\d.]+)\))?", ratio)
        if times and not (times[3] is None and times[1] in ("0.99", "1.00", "1.01")):  # quartiles may not be shown
            draw = times[1] == "1.00" or (times[3] is not None and float(times[3]) <= 1 <= float(times[4]))
            wins = times[2] == "smaller" or (times[2] == "as fast" and float(times[1].replace(",", "")) > 1)
            assert ours.startswith("**") is (wins and not draw), row
            assert other.endswith("**") is not (wins or draw), row


def test_who_is_better_is_left_open_where_the_quartiles_do() -> None:
    assert readmes.is_draw(Spread(0.85, 0.74, 3.03, 7))
    assert readmes.is_draw(Spread(1.002, 1.001, 1.003, 7))
    assert not readmes.is_draw(Spread(0.85, 0.74, 0.95, 7))
    assert readmes.compared(Spread(0.85, 0.74, 3.03, 7), "rate", "en") == "0.85x as fast (0.74 to 3.03)"
    assert readmes.compared(Spread(0.85, 0.80, 0.90, 7), "rate", "en") == "0.85x as fast"


def test_ratios_of_speeds_are_taken_round_by_round() -> None:
    results = readmes.load_results()
    for figure in FIGURES:
        if isinstance(figure, Figure) and figure.kind == "rate":
            table = readmes.table_of(figure, results)
            assert readmes.times_of(figure, table, results[figure.suite], quotient=-1.0).median > 0, figure


def test_a_figure_without_its_file_is_left_out_and_told() -> None:
    results = readmes.load_results()
    del results["feed"]
    text, missing = readmes.section(results, "en")
    assert "FFCV" not in text
    assert "torch.save" in text
    assert any("results/feed.json is not there" in line for line in missing)


def test_a_table_that_has_changed_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    results = readmes.load_results()
    for table in results["pack"]["tables"]:
        table["rows"] = [row for row in table["rows"] if row[0] != "cw.pack, balanced"]
    monkeypatch.setattr(readmes, "load_results", lambda: results)
    assert readmes.main(["--check"]) == 1
    told = capsys.readouterr().err
    assert "rows for 'cw.pack, balanced'" in told
    assert "out of date: README.md, README.zh-CN.md" in told
