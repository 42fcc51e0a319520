"""Figures and names as people read them."""

import pytest

from cordwood.common.numbers import seconds, times
from cordwood.doctor.wording import cost_lines, gain, share_of_step, shown_path


@pytest.mark.parametrize(
    ("verified", "begin", "end"),
    [
        ("replay", "saves", ", verified by replay"),
        ("trial", "saves", ", verified by trial"),
        ("measured", "saves up to", ", measured"),
        ("", "saves", ", an estimate"),
    ],
)
def test_a_gain_names_its_proof(verified: str, begin: str, end: str) -> None:
    finding = {"saves_ms_per_step": 41.2, "spread_ms": 3.0, "share": 0.62, "proof": verified}
    assert gain(finding) == f"{begin} 41 ± 3 ms/step (62%){end}"
    assert gain({**finding, "share": None}) == f"{begin} 41 ± 3 ms/step{end}"
    assert gain({**finding, "saves_ms_per_step": None}) == ""


def test_files_are_named_from_where_one_stands() -> None:
    assert shown_path("/home/me/src/train.py", "/home/me") == "src/train.py"
    assert shown_path("/home/you/train.py", "/home/me") == "/home/you/train.py"
    assert shown_path("/home/me/.venv/lib/python3.11/site-packages/torch/x.py", "/home/me") == "torch/x.py"
    assert shown_path("train.py", "") == "train.py"


def test_shares_of_a_step_end_at_all_of_it() -> None:
    assert [share_of_step(ms, 50.0) for ms in (5.0, 50.0, 60.0)] == ["10%", "100%", "100%"]
    assert share_of_step(5.0, 0.0) == "?"


def test_how_often() -> None:
    assert [times(count) for count in (0.25, 1.0, 2.5, 9.9, 130.4, 1000.0)] == [
        "0.25",
        "1",
        "2.5",
        "9.9",
        "130",
        "1,000",
    ]


def test_seconds_and_costs() -> None:
    assert (seconds(None), seconds(0.0512), seconds(12.34)) == ("?", "0.051 s", "12.3 s")
    assert cost_lines({}) == []
    assert cost_lines({"analysis_seconds": 0.42}) == ["replays and trials afterwards took 0.42 s"]
    assert cost_lines({"analysis_seconds": 42, "seconds_a_rule": 20.0}) == ["replays and trials afterwards took 42.0 s"]
    assert cost_lines({"analysis_seconds": 0.42, "seconds_a_rule": 0.0}) == ["judging afterwards took 0.42 s"]
    assert cost_lines({"timers_ms_per_step": 0.01, "share_of_steps": None}) == [
        "timing the phases takes 0.010 ms of a step"
    ]
