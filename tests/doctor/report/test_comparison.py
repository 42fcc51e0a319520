"""Two reports side by side: better, worse or the same, and whether the promise was kept."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from cordwood.doctor.evidence.evidence import Evidence
from cordwood.doctor.evidence.findings import CodeLine, Finding, Level
from cordwood.doctor.report.comparison import compare
from cordwood.doctor.report.report import Report
from tests.doctor.support.evidences import make_evidence, make_report

REST = {"forward": 10.0, "backward": 14.0, "other": 1.0}


RULES = {"workers", "cacheable-preprocessing", "hidden-sync", "python-bound", "graph-leak", "precision"}


def report(
    wait: float,
    *findings: Finding,
    jitter: float = 0.02,
    first_waits: Sequence[float] = (),
    judged: Mapping[str, tuple[str, str]] = MappingProxyType({}),
) -> Report:
    """A run in which rules that did not speak have passed, but for those that were `judged` otherwise, and why."""
    evidence = make_evidence({**REST, "wait": wait}, jitter=jitter, first_waits=first_waits)
    others = {"passed": dict.fromkeys(RULES - {finding.rule for finding in findings}, "")}
    for rule, (status, why) in judged.items():
        others["passed"].pop(rule, None)
        others.setdefault(status, {})[rule] = why
    return make_report(findings, evidence, path=None, cost=None, **others)


def promise(
    rule: str,
    saves: float | None,
    file: str = "/a/train.py",
    line: int = 3,
    *,
    function: str = "",
    level: Level = "high",
) -> Finding:
    return Finding(rule, "m", "f", CodeLine(file, line, function), saves, 2.0, "trial", level=level)


def test_faster_as_promised() -> None:
    comparison = compare(report(41.0, promise("workers", 41.0)), report(1.0))
    assert (comparison.verdict, comparison.exit_code) == ("faster", 0)
    assert comparison.got_ms == pytest.approx(40, abs=0.5)
    text = str(comparison)
    assert text.startswith("faster: 65.7 ms -> 25.9 ms a step")
    assert "gone: high workers at /a/train.py:3, saves 41 ± 2 ms/step" in text
    assert "predicted 41.0 ms/step, got 39.8: within 3%" in text
    assert [line.split() for line in text.splitlines() if "waiting for data" in line] == [
        ["waiting", "for", "data", "40.9", "1.00", "-39.94"]
    ]


def test_a_report_compares_itself_with_a_later_one() -> None:
    comparison = report(41.0, promise("workers", 41.0, file="<a>.py")).compare(report(1.0))
    assert comparison == compare(comparison.before, comparison.after)
    assert comparison._repr_html_().split(">", 1)[1].startswith("faster: 65.7 ms -&gt; 25.9 ms a step")
    assert "&lt;a&gt;.py" in comparison._repr_html_()


def test_slower_beyond_the_noise_is_a_regression() -> None:
    comparison = compare(report(1.0), report(5.0, promise("hidden-sync", 4.0)))
    assert (comparison.verdict, comparison.exit_code) == ("slower", 1)
    assert str(comparison).startswith("slower: ")
    assert "new: high hidden-sync" in str(comparison)


def test_a_small_difference_is_the_same() -> None:
    comparison = compare(report(1.0), report(1.5))
    assert (comparison.verdict, comparison.exit_code) == ("same", 0)
    assert str(comparison).startswith("no difference beyond the noise")


def test_noisy_runs_need_larger_differences() -> None:
    assert compare(report(20.0), report(22.0)).verdict == "slower"
    assert compare(report(20.0, jitter=0.5), report(22.0, jitter=0.5)).verdict == "same"


def with_a_hiccup(wait: float) -> Report:
    evidence = make_evidence({**REST, "wait": wait})
    assert evidence.steps is not None
    evidence.steps.times[8, 0] += 400.0  # one step in a busy moment
    return make_report((), evidence)


def test_a_hiccup_hides_no_regression() -> None:
    comparison = compare(with_a_hiccup(1.0), with_a_hiccup(24.0))
    assert (comparison.verdict, comparison.exit_code) == ("slower", 1)
    assert compare(with_a_hiccup(1.0), with_a_hiccup(1.5)).verdict == "same"


def test_runs_that_drift_are_not_told_apart() -> None:
    def drifting(start: float, end: float) -> Report:
        evidence = make_evidence(REST)
        assert evidence.steps is not None
        evidence.steps.times[:] *= np.linspace(start, end, len(evidence.steps.times))[:, None]
        return make_report((), evidence)

    assert compare(drifting(1.0, 1.3), drifting(1.1, 1.4)).verdict == "same"
    assert compare(drifting(1.0, 1.3), drifting(1.6, 1.9)).verdict == "slower"


def test_a_machine_that_changes_its_speed_is_no_regression() -> None:
    def changing(slow: slice) -> Report:
        evidence = make_evidence(REST, jitter=0.002)
        assert evidence.steps is not None
        evidence.steps.times[slow] *= 2.4
        return make_report((), evidence)

    mostly_fast, mostly_slow = changing(slice(40, None)), changing(slice(0, 40))
    assert compare(mostly_fast, mostly_slow).verdict == "same"
    assert compare(mostly_slow, mostly_fast).verdict == "same"
    assert compare(changing(slice(0, 0)), changing(slice(None))).verdict == "slower"


def test_reports_of_earlier_versions_are_compared_by_what_they_know(tmp_path: Path) -> None:
    first, second = with_a_hiccup(1.0), with_a_hiccup(24.0)
    for each in (first, second):
        del each.document["steps"]["typical_error_ms"]
    second.save(tmp_path / "earlier.json")
    comparison = compare(first, Report.load(tmp_path / "earlier.json"))
    deviations = [each.document["steps"]["noise_ms"] for each in (first, second)]
    assert comparison.noise_ms == pytest.approx(2 * float(np.hypot(*deviations)))
    assert comparison.verdict == "same"


def test_a_broken_promise_is_seen() -> None:
    text = str(compare(report(41.0, promise("workers", 41.0)), report(31.0)))
    assert "predicted 41.0 ms/step, got 9.92: 76% less than predicted" in text


def test_cures_of_the_same_waiting_promise_it_once() -> None:
    before = report(
        41.0, promise("workers", 20.0), promise("cacheable-preprocessing", 40.0), promise("hidden-sync", 5.0)
    )
    assert compare(before, report(1.0)).predicted_ms == 45


def test_findings_are_the_same_though_lines_move() -> None:
    before = report(1.0, promise("hidden-sync", 4.0, line=3), promise("hidden-sync", 4.0, line=9))
    after = report(1.0, promise("hidden-sync", 4.0, "/b/train.py", 30))
    comparison = compare(before, after)
    assert len(comparison.gone) == 1
    assert comparison.new == []


@pytest.mark.parametrize("status", ["abstained", "failed"])
def test_what_was_not_judged_again_is_not_gone(status: str) -> None:
    before = report(41.0, promise("workers", 40.0), promise("hidden-sync", 4.0))
    comparison = compare(before, report(37.0, judged={"workers": (status, "no time for trials")}))
    assert [finding["rule"] for finding in comparison.gone] == ["hidden-sync"]
    assert [(finding["rule"], why) for finding, why in comparison.not_judged] == [
        ("workers", f"{status}: no time for trials")
    ]
    assert comparison.predicted_ms == 4
    told = f"not judged again ({status}: no time for trials): high workers at /a/train.py:3, saves 40 ± 2 ms/step"
    assert told in " ".join(str(comparison).split())


def test_who_calls_torch_save_no_more_has_mended_it() -> None:
    before = make_report([Finding("bloated-save", "m", "f", CodeLine("train.py", 3), level="medium")])
    after = make_report(abstained={"bloated-save": "no torch.save to a file was seen"})
    assert [finding["rule"] for finding in compare(before, after).gone] == ["bloated-save"]


def test_a_rule_that_the_second_report_does_not_know_has_not_judged() -> None:
    comparison = compare(report(41.0, promise("unheard-of", 40.0)), report(41.0))
    assert comparison.gone == []
    assert "not judged again (the second report is without this rule): high unheard-of" in str(comparison)


def test_silencing_a_finding_is_not_mending_it() -> None:
    before = report(1.0, promise("hidden-sync", 4.0), promise("hidden-sync", 4.0, line=9), promise("workers", 5.0))
    after = report(1.0, promise("workers", 5.0))
    silenced = {"rule": "hidden-sync", "title": "t", "why": "train.py:3 says so"}
    after.document["rules"]["silenced"].append(silenced)
    comparison = compare(before, after)
    assert (len(comparison.gone), len(comparison.not_judged)) == (1, 1)
    assert "not judged again (silenced: train.py:3 says so): high hidden-sync" in str(comparison)
    before.document["rules"]["silenced"].append(silenced)  # the same line was silent before: both others are gone
    assert (len(compare(before, after).gone), compare(before, after).not_judged) == (2, [])


def test_information_promises_nothing() -> None:
    before = report(41.0, promise("workers", 40.0), promise("precision", 12.0, level="info"))
    assert compare(before, report(1.0)).predicted_ms == 40
    assert compare(report(1.0, promise("precision", 12.0, level="info")), report(1.0)).predicted_ms is None


def test_a_line_inside_a_slow_loop_is_not_promised_twice() -> None:
    loop = promise("python-bound", 3.0, function="accuracy")
    lines = promise("hidden-sync", 0.4, line=4, function="accuracy"), promise("hidden-sync", 0.5, function="accuracy")
    elsewhere = promise("hidden-sync", 1.0, line=40, function="log")
    assert compare(report(1.0, loop, *lines, elsewhere), report(1.0)).predicted_ms == 4
    assert compare(report(1.0, *lines), report(1.0)).predicted_ms == pytest.approx(0.9)


def test_what_saves_no_time_promises_none() -> None:
    comparison = compare(report(1.0, promise("graph-leak", None)), report(1.0))
    assert comparison.predicted_ms is None
    assert "predicted" not in str(comparison)


def test_beginning_epochs_counts_where_both_runs_had_several() -> None:
    slow, fast = (900.0, 650.0, 650.0), (900.0, 0.0, 0.0)
    assert compare(report(1.0, first_waits=slow), report(1.0, first_waits=fast)).got_ms == pytest.approx(30, abs=0.1)
    assert compare(report(1.0, first_waits=slow), report(1.0, first_waits=(9.0,))).got_ms == pytest.approx(0, abs=0.1)


def test_too_little_to_compare_is_said() -> None:
    nothing = make_report(evidence=Evidence())
    assert (compare(nothing, report(1.0)).verdict, compare(nothing, report(1.0)).exit_code) == ("unknown", 3)
    assert "the first report has no training step" in str(compare(nothing, report(1.0)))
    assert "the second report has no training step" in str(compare(report(1.0), nothing))
    few = make_report(evidence=make_evidence(steps=5))
    assert "too few steps to tell a change from noise" in str(compare(few, report(9.0)))
    assert compare(few, report(9.0)).exit_code == 0


def test_other_scripts_machines_and_batches_are_noted() -> None:
    before, after = report(1.0), report(1.0)
    assert "note" not in str(compare(before, after))
    after.document["script"] = "other.py"
    after.document["environment"]["torch"] = "2.14"
    after.document["steps"]["batches_per_step"] = 4.0
    after.document["cordwood"] = "9"
    text = str(compare(before, after))
    for told in ("train.py --epochs 1 | other.py", "torch: 2.13.0 | 2.14", "1.00 | 4.00", "different versions"):
        assert told in text


def test_a_hostile_report_does_not_command_the_terminal() -> None:
    evil = report(1.0, promise("\x1b[2J", 4.0, "\x1b[2J.py"))
    evil.document["script"] = evil.document["environment"]["torch"] = "\x1b[2J"
    assert "\x1b" not in str(compare(evil, report(1.0)))
