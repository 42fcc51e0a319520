"""Pages that are made, or that repeat what the code says: they say the same."""

import re
from pathlib import Path

import pytest

from benchmarks.figures import pages, readmes
from cordwood import errors
from cordwood.cli import VERBS, build_parser, reference

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"


def text(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def test_the_page_of_the_command_is_up_to_date() -> None:
    assert text("cli.md") == reference.page(), "run: python -m cordwood.cli.reference docs/cli.md"


@pytest.mark.parametrize("verb", VERBS)
def test_the_page_of_the_command_has_everything_that_help_tells(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # examples stand in one line each
    with pytest.raises(SystemExit):
        build_parser().parse_args([verb, "--help"])
    told = capsys.readouterr().out
    section = reference.page().partition(f"\n## cordwood {verb}\n")[2].partition("\n## ")[0]
    options = set(re.findall(r"(?<![\w`-])--[a-z][a-z-]+", told)) - {"--help"}
    assert {option for option in options if option not in section} == set()
    examples = told.partition("examples:\n")[2].partition("\n\n")[0]
    assert {line.strip() for line in examples.splitlines()} <= {line.strip() for line in section.splitlines()}


def test_the_page_does_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = reference.page()
    monkeypatch.setenv("COLUMNS", "40")
    assert reference.page() == wide


def test_the_module_is_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reference.main([str(tmp_path / "cli.md")]) == 0
    assert (tmp_path / "cli.md").read_text(encoding="utf-8") == reference.page()
    assert reference.main([]) == reference.main(["--help"]) == 2
    assert capsys.readouterr().err.startswith("usage: ")


def test_the_page_of_errors_draws_the_tree_of_the_module() -> None:
    drawn = (errors.__doc__ or "").partition("    CordwoodError\n")[2].partition("\n\n")[0]
    lines = ["CordwoodError", *(line.removeprefix("    ") for line in drawn.splitlines())]
    assert "```text\n" + "\n".join(lines) + "\n```" in text("errors.md")


def test_the_page_of_errors_tells_of_every_class_and_reason() -> None:
    page = text("errors.md")
    found = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    classes = [kind.__name__ for kind in found if kind is not errors.CordwoodError]
    headings = re.findall(r"^## (\w+Error)$", page, re.MULTILINE)
    assert sorted(headings) == sorted(classes)
    table = page.partition("### Reasons")[2].partition("\n## ")[0]
    told = re.findall(r"^\| (\d+) \| ([a-z0-9-]+) \| \w", table, re.MULTILINE)
    assert {int(number): name for number, name in told} == errors.REASONS


def test_figures_of_the_pages_are_those_of_the_result_files() -> None:
    assert pages.main(["--check"]) == 0, "run: python -m benchmarks.figures"


def test_a_page_with_another_figure_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = text("design.md")
    (tmp_path / "docs").mkdir()
    for name in pages.PAGES:
        (tmp_path / name).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    changed = tmp_path / "docs" / "design.md"
    changed.write_text(re.sub(r"\d+ kB \(zstd\)", "1 kB (zstd)", page), encoding="utf-8")
    assert pages.main(["--check"]) == 1
    assert pages.main([]) == 0
    assert changed.read_text(encoding="utf-8") == page


def test_a_page_without_a_place_for_figures_is_an_error() -> None:
    with pytest.raises(ValueError, match="has no"):
        readmes.with_section("# A page\n", "| a |")
