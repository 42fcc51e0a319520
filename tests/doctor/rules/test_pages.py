"""The pages of docs/rules are what the rules say."""

import subprocess
import sys
from pathlib import Path

import pytest

from cordwood.doctor.evidence.findings import Rule
from cordwood.doctor.rules import ALL_RULES
from cordwood.doctor.rules.pages import main, pages, write

ROOT = Path(__file__).parent.parent.parent.parent


def test_the_pages_in_the_docs_are_up_to_date() -> None:
    kept = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "rules").glob("*.md")}
    assert kept == pages(), "run: python -m cordwood.doctor.rules.pages docs/rules"


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.id)
def test_a_rule_tells_everything_in_whole_sentences(rule: type[Rule]) -> None:
    page = pages()[f"{rule.id}.md"]
    assert page.count("\n## ") == 5
    for text in (rule.measures, rule.costs, rule.wrong, rule.cure):
        assert len(text.split()) >= 5
        assert text.strip()[-1] in ".`:)"


def test_ids_are_unique_and_fit_into_comments() -> None:
    ids = [rule.id for rule in ALL_RULES]
    assert len(set(ids)) == len(ids)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for name in ids)


def test_pages_of_rules_that_are_no_more_are_removed_and_others_stay(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "notes.md").write_text("mine", encoding="utf-8")
    write(tmp_path, ALL_RULES[:1])
    assert {path.name for path in tmp_path.iterdir()} == {"README.md", "notes.md", f"{ALL_RULES[0].id}.md"}


@pytest.mark.slow
def test_the_module_is_a_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "cordwood.doctor.rules.pages", str(tmp_path / "rules")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0
    assert (tmp_path / "rules" / "README.md").is_file()
    assert main([]) == 2
