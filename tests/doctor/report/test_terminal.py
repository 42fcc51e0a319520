"""The report for a terminal: what it tells, how wide it is, and that nothing in it commands the terminal."""

import re

import pytest

from cordwood.doctor.evidence.evidence import Evidence, ValidationSeen
from cordwood.doctor.evidence.findings import CodeLine, Detail, Finding
from cordwood.doctor.report.report import Report
from cordwood.doctor.report.terminal import format_text
from tests.doctor.support.evidences import make_evidence, make_report

FUNCTIONS = Detail(
    "Functions with most own time",
    ("function", "where", "ms/batch"),
    tuple(
        (f"decode{number}", f"/usr/lib/{'long/' * 20}ImageFile.py:{number}", f"{20 - number}.5") for number in range(9)
    ),
)


def full_report() -> Report:
    evidence = make_evidence({"wait": 41.0, "forward": 10.0, "backward": 14.0, "optimizer": 1.0})
    evidence.validation = [ValidationSeen(None, None, batches=40, milliseconds=1200.0)]
    evidence.notes = ["the gradient scaler skipped 2 optimizer steps"]
    findings = [
        Finding(
            "cacheable-preprocessing",
            "The same index gives the same tensor twice, " * 8,
            "# once:\ncordwood pack mypkg.data:train_set train.cordwood\n\nloader = cw.Loader(dataset)",
            CodeLine("/home/me/train.py", 31, "make_loader", "loader = DataLoader(dataset, batch_size=64)"),
            saves_ms=41.2,
            spread_ms=3.0,
            verified="trial",
            details=(FUNCTIONS,),
        ),
        Finding("graph-leak", "`losses` grows", "losses.append(loss.item())", level="high"),
        Finding("shufflenet-g1", "unequal channels", "", CodeLine("m.py", 2, "<module>"), level="info"),
    ]
    return make_report(
        findings,
        evidence,
        passed={"bloated-save": ""},
        abstained={"transfer": "no accelerator in use", "cudnn-benchmark": "no accelerator in use"},
        failed={"workers": "ZeroDivisionError: division by zero (workers.py:33)"},
    )


def test_it_begins_with_the_verdict_and_tells_everything() -> None:
    text = str(full_report())
    assert text.startswith("doctor: 62% of each step is waiting for data")
    for told in (
        "saves 41 ± 3 ms/step (63%), verified by trial",
        "/home/me/train.py:31 in make_loader",
        "loader = DataLoader(dataset, batch_size=64)",
        "       cordwood pack mypkg.data:train_set train.cordwood\n",
        "... 4 more in the other formats",
        "2. high graph-leak\n",
        "m.py:2\n",
        "40 batches, 1.2 s in all, told apart from training",
        "3 rules spoke, 1 passed, 2 abstained, 1 failed",
        "failed: workers: ZeroDivisionError",
        "abstained: transfer, cudnn-benchmark: no accelerator in use",
        "the gradient scaler skipped 2 optimizer steps",
        "timing the phases takes 0.012 ms of a step (<0.1%)",
    ):
        assert told in text
    assert "\x1b" not in text


def test_the_bar_shows_the_shares() -> None:
    lines = format_text(
        make_report(evidence=make_evidence({"wait": 60.0, "forward": 30.0, "other": 10.0})).document, 104
    ).splitlines()
    bar = next(line for line in lines if line.startswith("  █"))
    counts = [bar.count(glyph) for glyph in "█▒·"]
    assert sum(counts) == len(bar.strip()) == 96
    assert counts == [pytest.approx(58, abs=1), pytest.approx(29, abs=1), pytest.approx(10, abs=1)]


@pytest.mark.parametrize("width", [20, 60, 80, 100, 300])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    allowed = max(60, min(width, 100))
    assert [line for line in format_text(full_report().document, width).splitlines() if len(line) > allowed] == []


def test_what_is_there_to_be_copied_is_not_broken() -> None:
    command = "cordwood pack " + "long/" * 40
    fix = f"{command}\n# {'a comment ' * 20}"
    lines = format_text(make_report([Finding("r", "m", fix, level="high")]).document, 60).splitlines()
    assert f"       {command}" in lines
    comments = [line.strip() for line in lines if line.strip().startswith("#")]
    assert len(comments) > 3
    assert all(len(line) <= 60 for line in comments)


def test_colours_are_only_decoration() -> None:
    document = full_report().document
    coloured = format_text(document, colours=True)
    assert "\x1b[1;31m" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == format_text(document)


def test_a_plain_terminal_gets_plain_letters() -> None:
    text = format_text(full_report().document, unicode=False)
    assert text.isascii()
    assert "saves 41 +- 3 ms/step" in text
    assert re.search(r"^  w+f+b+o*$", text, re.MULTILINE)


def test_control_characters_in_sources_do_not_reach_the_terminal() -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202e\ud800"
    detail = Detail(evil, (evil, evil), ((evil, evil),))
    place = CodeLine(f"{evil}.py", 3, evil, evil)
    report = make_report([Finding("r", evil, evil, place, level="high", details=(detail,))], abstained={"s": evil})
    report.document["notes"] = [evil]
    report.document["verdict"] = evil
    text = format_text(report.document)
    assert not set(evil) & set(text) - {"]", "0", ";", "[", "2", "J", *"owned"}
    text.encode("utf-8")


def test_a_run_in_which_nothing_was_seen_is_told_in_few_lines() -> None:
    text = str(make_report(evidence=Evidence()))
    assert text.startswith("doctor: no training step was seen")
    assert "ms" not in text.split("Own cost")[0]
    assert "Steps: 0 of 5 steps measured" in str(make_report(evidence=make_evidence(steps=0)))


def test_files_are_named_as_seen_from_where_the_script_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    report = make_report([Finding("r", "m", "f", CodeLine("/home/me/src/train.py", 3), level="high")])
    report.document["folder"] = "/home/me"
    assert "   src/train.py:3\n" in str(report)
