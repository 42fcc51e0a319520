"""Two reports side by side: better, worse or the same, and whether the promise was kept."""

from collections.abc import Sequence

import pytest

from cordwood.doctor.comparison import compare
from cordwood.doctor.evidence import Evidence
from cordwood.doctor.findings import Finding, Place
from cordwood.doctor.report import Report
from tests.doctor.evidences import make_evidence, make_report

REST = {"forward": 10.0, "backward": 14.0, "other": 1.0}


def report(wait: float, *findings: Finding, jitter: float = 0.02, first_waits: Sequence[float] = ()) -> Report:
    return make_report(findings, make_evidence({**REST, "wait": wait}, jitter=jitter, first_waits=first_waits))


def promise(rule: str, saves: float | None, file: str = "/a/train.py", line: int = 3) -> Finding:
    return Finding(rule, "m", "f", Place(file, line), saves, 2.0, "trial", level="high")


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
    assert comparison._repr_html_().startswith("<pre>faster: 65.7 ms -&gt; 25.9 ms a step")
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
