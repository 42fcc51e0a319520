"""The verdict in one line: on health, on the largest finding, and on runs of which little can be said."""

from cordwood.doctor.evidence.evidence import Evidence
from cordwood.doctor.evidence.findings import CodeLine, Finding
from cordwood.doctor.wording import NOTHING
from tests.doctor.support.evidences import make_evidence, make_report

STARVED = {"wait": 41.0, "forward": 10.0, "backward": 15.0}


def finding(rule: str, saves: float | None, **others: object) -> Finding:
    return Finding(rule, f"message of {rule}", "fix", saves_ms=saves, **others)  # type: ignore[arg-type]


def test_a_healthy_run_has_nothing_worth_changing() -> None:
    report = make_report()
    assert report.verdict == NOTHING == "nothing worth changing"
    assert report.findings == []
    assert report.exit_code == 0


def test_waiting_that_nobody_explains_is_not_called_healthy() -> None:
    few = make_report(evidence=make_evidence(wait=90.0, forward=10.0, steps=12))
    assert few.verdict.startswith("90% of each step is waiting for data, ")
    assert "12 steps are too few to say why, 20 are needed" in few.verdict
    many = make_report(evidence=make_evidence(wait=90.0, forward=10.0))
    assert many.verdict.endswith("no change was proved to help")
    assert make_report(evidence=make_evidence(wait=20.0, forward=80.0)).verdict == NOTHING


def test_waiting_for_data_is_the_verdict_where_data_is_the_cause() -> None:
    report = make_report([finding("workers", 38.0)], make_evidence(STARVED))
    assert report.verdict.startswith("62% of each step is waiting for data: 40.9 ms of 65.8 ms")


def test_other_verdicts_name_the_largest_finding() -> None:
    report = make_report([finding("hidden-sync", 20.0), finding("graph-leak", None, level="high")])
    assert report.verdict == (
        "30% of each step can be saved: 20.0 ms of 65.7 ms, the title of hidden-sync; 1 more finding"
    )
    assert make_report([finding("graph-leak", None, level="high")]).verdict == "the title of graph-leak"
    assert make_report([finding("bloated-save", 0.1, level="medium")]).verdict == "the title of bloated-save"


def test_too_little_seen_is_no_good_health() -> None:
    assert make_report(evidence=Evidence()).verdict.startswith("no training step was seen, so nothing can be said: ")
    assert "too few training steps" in make_report(evidence=make_evidence(steps=5)).verdict
    assert "too few training steps" in make_report(evidence=make_evidence(steps=0)).verdict
    assert make_report(evidence=Evidence()).exit_code == 0


def test_most_of_a_step_beside_data_and_model_is_no_good_health() -> None:
    beside = make_evidence({"forward": 2.0, "other": 18.0}, jitter=0.0)
    assert make_report(evidence=beside).verdict == (
        "90% of each step is neither data nor model, 18.0 ms of 20.0 ms: look there first"
    )
    found = Finding("python-bound", "m", "f", CodeLine("some/train.py", 9), level="info")
    report = make_report([found], beside)
    assert report.verdict.endswith("18.0 ms of 20.0 ms, most of it at train.py:9: look there first")
    assert report.exit_code == 0
    assert make_report(evidence=make_evidence({"forward": 11.0, "other": 9.0}, jitter=0.0)).verdict == NOTHING


def test_steps_that_make_the_mean_alone_are_told_of() -> None:
    evidence = make_evidence({"forward": 10.0}, steps=40, jitter=0.0)
    assert evidence.steps is not None
    assert make_report(evidence=evidence).document["notes"] == []
    evidence.steps.times[::10] *= 21
    (note,) = make_report(evidence=evidence).document["notes"]
    assert note.startswith("a few steps are far longer than the others: the mean is 30.0 ms, the median 10.0 ms")


def test_what_was_not_tried_was_not_disproved() -> None:
    starved = make_evidence(STARVED)
    assert make_report(evidence=starved).verdict.endswith("and no change was proved to help")
    untried = make_report(evidence=starved, abstained={"workers": "no time was given for replays and trials"})
    assert untried.verdict.endswith("and no change was tried: no time was given for that")


def test_rules_that_could_not_judge_are_no_good_health() -> None:
    passed = dict.fromkeys(("data-starved", "workers", "hidden-sync", "graph-leak"), "")
    does_not_apply = dict.fromkeys(("transfer", "cudnn-benchmark", "eval-in-train-mode"), "no accelerator in use")
    assert make_report(passed=passed, abstained=does_not_apply).verdict == NOTHING
    no_time = {"precision": "there is no time for a replay", "shufflenet-g1": "there is no time to measure"}
    assert make_report(passed=passed, abstained=does_not_apply | {"precision": "no time"}).verdict == NOTHING
    cut = make_report(passed=passed, abstained=does_not_apply | no_time, failed={"python-bound": "KeyError: 3"})
    assert (cut.verdict, cut.exit_code) == ("nothing found, but 3 of 7 rules could not judge", 0)
    interrupted = make_report(abstained=dict.fromkeys(passed, "interrupted before it could judge"))
    assert interrupted.verdict == "nothing found, but 4 of 4 rules could not judge"
