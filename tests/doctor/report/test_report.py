"""The report's document: what it says, in which order, with which level, verdict and exit code."""

import json
from pathlib import Path

import pytest

from cordwood.doctor.evidence.evidence import Evidence, ValidationSeen
from cordwood.doctor.evidence.findings import CodeLine, Detail, Finding
from cordwood.doctor.report.report import Report
from cordwood.doctor.wording import NOTHING
from cordwood.errors import StorageError, UsageError
from tests.doctor.support.evidences import make_evidence, make_report


def finding(rule: str = "hidden-sync", saves: float | None = 20.0, message: str = "", **others: object) -> Finding:
    return Finding(rule, message or f"message of {rule}", "fix", saves_ms=saves, **others)  # type: ignore[arg-type]


def test_the_document_has_what_tools_are_promised() -> None:
    place = CodeLine("/home/me/train.py", 31, "train", "x = y.item()")
    document = make_report([finding(place=place, spread_ms=1.0, verified="measured")]).document
    assert {
        "schema_version",
        "cordwood",
        "script",
        "verdict",
        "findings",
        "steps",
        "phases",
        "rules",
        "cost_of_doctor",
        "environment",
    } <= set(document)
    assert document["schema_version"] == 1
    (found,) = document["findings"]
    expected = {
        "rule": "hidden-sync",
        "level": "high",
        "file": "/home/me/train.py",
        "line": 31,
        "saves_ms_per_step": 20.0,
        "verified": True,
        "proof": "measured",
        "message": "message of hidden-sync",
        "fix": "fix",
    }
    assert expected.items() <= found.items()
    assert found["share"] == pytest.approx(20 / document["steps"]["mean_ms"], abs=1e-6)
    json.dumps(document, allow_nan=False)


@pytest.mark.parametrize(("saves", "level"), [(20.0, "high"), (3.5, "medium"), (1.0, "info"), (None, "info")])
def test_the_level_follows_from_the_share(saves: float | None, level: str) -> None:
    report = make_report([finding(saves=saves)])
    assert report.findings[0]["level"] == level
    assert report.exit_code == (0 if level == "info" else 1)


def test_a_rule_may_set_the_level_itself() -> None:
    assert make_report([finding(saves=None, level="high")]).exit_code == 1
    assert make_report([finding(saves=30.0, level="info")]).exit_code == 0


def test_findings_come_in_order_of_what_they_save() -> None:
    findings = [
        finding("a", None, level="info"),
        finding("b", None, level="medium"),
        finding("c", 3.0),
        finding("d", None, level="high"),
        finding("e", 30.0),
        finding("f", 1.0),
    ]
    assert [found["rule"] for found in make_report(findings).findings] == ["e", "c", "d", "b", "f", "a"]


def test_wrong_results_come_before_time_that_nobody_notices() -> None:
    findings = [
        finding("eval-without-no-grad", 0.4, level="medium"),
        finding("eval-in-train-mode", None, level="high"),
        finding("graph-leak", None, level="medium"),
    ]
    report = make_report(findings)
    assert [found["rule"] for found in report.findings] == ["eval-in-train-mode", "eval-without-no-grad", "graph-leak"]
    assert report.verdict == "the title of eval-in-train-mode; 2 more findings"
    report = make_report([*findings, finding("hidden-sync", 3.0)])
    assert report.findings[0]["rule"] == "hidden-sync"


def test_an_early_end_is_told() -> None:
    report = make_report()
    report.tell_end("the block ended with ValueError")
    assert report.verdict == "the block ended with ValueError after 65 steps; nothing found until then"
    assert report.exit_code == 0
    sick = make_report([finding("hidden-sync", 30.0)])
    verdict = sick.verdict
    sick.tell_end("the block ended with ValueError", all_seen=False)
    assert sick.verdict == verdict
    assert sick.document["notes"] == ["the block ended with ValueError: what would have come later was not seen"]
    nothing = make_report(evidence=Evidence())
    nothing.tell_end("the script ended with exit code 1")
    assert nothing.verdict.startswith("the script ended with exit code 1 before its first training step; no training")


def test_every_rule_is_accounted_for() -> None:
    report = make_report(
        [finding()], passed={"a": "fine"}, abstained={"b": "no tape"}, failed={"c": "ZeroDivisionError"}
    )
    rules = report.document["rules"]
    assert {status: [each["rule"] for each in told] for status, told in rules.items()} == {
        "passed": ["a"],
        "abstained": ["b"],
        "failed": ["c"],
        "silenced": [],
    }
    assert rules["abstained"][0]["why"] == "no tape"


def test_what_is_silenced_is_not_told_but_counted(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("x.item()  # cordwood: ignore[hidden-sync]\ny.item()\n", encoding="utf-8")
    findings = [finding(place=CodeLine(str(script), line)) for line in (1, 2)]
    report = make_report(findings, path=script)
    assert [found["line"] for found in report.findings] == [2]
    assert [each["rule"] for each in report.document["rules"]["silenced"]] == ["hidden-sync"]
    (tmp_path / "pyproject.toml").write_text("[tool.cordwood.doctor]\nignore = ['hidden-sync']\n", encoding="utf-8")
    report = make_report(findings, path=script)
    assert (report.verdict, report.exit_code) == (NOTHING, 0)
    assert len(report.document["rules"]["silenced"]) == 2


def test_a_comment_that_names_no_rule_is_a_note(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("x.item()  # cordwood: ignore[hiden-sync]\n", encoding="utf-8")
    report = make_report([finding(place=CodeLine(str(script), 1))], path=script)
    assert len(report.findings) == 1
    (note,) = report.document["notes"]
    assert note.endswith("names no rule; did you mean 'hidden-sync'?")


def test_what_is_wrong_with_the_configuration_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.cordwood.doctor]\nignore = ['no-such-rule']\n", encoding="utf-8")
    (note,) = make_report(path=tmp_path / "train.py").document["notes"]
    assert "no-such-rule" in note


def test_odd_facts_and_figures_fit_into_json() -> None:
    evidence = make_evidence()
    evidence.environment |= {"path": Path("/x"), "list": (1, float("inf")), "inner": {3: None}}
    evidence.validation = [ValidationSeen(None, CodeLine("v.py", 3), batches=4, milliseconds=20.0)]
    report = make_report([finding(saves=float("nan"), details=(Detail("t", ("a",), (("b",),)),))], evidence)
    text = json.dumps(report.document, allow_nan=False)
    assert json.loads(text) == report.document
    assert report.findings[0]["saves_ms_per_step"] is None
    assert report.document["validation"] == {"batches": 4, "milliseconds": 20.0, "places": ["v.py:3"]}


@pytest.mark.parametrize(("name", "start"), [("r.json", "{"), ("r.HTML", "<!DOCTYPE html>"), ("r.txt", "doctor: ")])
def test_the_suffix_says_how_a_report_is_saved(name: str, start: str, tmp_path: Path) -> None:
    make_report([finding()]).save(tmp_path / name)
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)


def test_what_cannot_be_saved_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\.html, \.json, \.txt"):
        make_report().save(tmp_path / "report.pdf")
    with pytest.raises(StorageError, match="could not be written"):
        make_report().save(tmp_path / "no" / "report.json")


def test_a_saved_report_is_the_same_again(tmp_path: Path) -> None:
    report = make_report([finding(place=CodeLine("t.py", 3))])
    report.save(tmp_path / "report.json")
    again = Report.load(tmp_path / "report.json")
    assert again.document == report.document
    assert str(again) == str(report)


def test_a_notebook_gets_a_page_of_its_own() -> None:
    shown = make_report([finding(message="<b>")])._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "<b>" not in shown
