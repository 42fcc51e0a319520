"""The benchmark of the doctor: every part measures its goals, and can say no. Scripts are not run here, but made up."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from benchmarks.doctor import cost_rows, healthy_rows, patient_rows  # noqa: E402
from benchmarks.doctor.patient_rows import Promise, Rounds, cells, kept, standard_error  # noqa: E402
from benchmarks.harness.outcome import Settings  # noqa: E402
from benchmarks.harness.packages import PackageCache  # noqa: E402
from tests.benchmarks.support.tiny import measured, rows_of  # noqa: E402
from tests.doctor.scripts.cases import HEALTHY, PATIENTS  # noqa: E402

SPEECH = PATIENTS["speech_encoder"]
ANSWER = SPEECH.first[0]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(True, PackageCache(tmp_path), 2, 0.0, 2, None, 0, 0, 0, 0)


def finding(rule: str, line: int | None, saves: float | None, level: str = "high") -> dict[str, Any]:
    file = str(SPEECH.path)
    told = {"rule": rule, "file": file, "line": line, "level": level, "fix": ""}
    return {**told, "saves_ms_per_step": saves, "spread_ms": 0.1}


def report(step: float, *findings: dict[str, Any]) -> dict[str, Any]:
    steps = {"typical_ms": step, "first_wait_ms_per_step": None}
    rules: dict[str, list[Any]] = {"abstained": []}
    return {"steps": steps, "findings": list(findings), "verdict": "a verdict", "rules": rules}


def doctor_that_says(monkeypatch: pytest.MonkeyPatch, module: Any, *said: dict[str, Any], mended: float = 20.0) -> None:
    """The same of every script; the mended one has nothing left."""

    def examined(script: Path, folder: Path, *, seconds: float) -> dict[str, Any]:
        return report(30.0, *said) if {"patients", "healthy"} & set(script.parts) else report(mended)

    monkeypatch.setattr(module, "examined", examined)


def measured_patients(monkeypatch: pytest.MonkeyPatch, settings: Settings, *said: dict[str, Any], mended: float) -> Any:
    monkeypatch.setattr(patient_rows, "PATIENTS", {"speech_encoder": SPEECH})
    doctor_that_says(monkeypatch, patient_rows, *said, mended=mended)
    return measured(patient_rows, settings)


def test_a_promise_that_is_kept(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    (line,) = SPEECH.numbers(ANSWER)
    outcome = measured_patients(monkeypatch, settings, finding("non-contiguous", line, 11.0), mended=20.0)
    assert [outcome.measured[key].median for key in patient_rows.KEYS] == [0.0, 0.0]
    row = rows_of(outcome)["speech_encoder"]
    assert row[:2] == [f"non-contiguous, line {line}", "yes"]
    assert [cell.median for cell in row[2:6]] == pytest.approx([0.030, 0.011, 0.020, 0.010])
    assert row[6] == "kept"


def test_a_promise_that_is_not_kept(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    (line,) = SPEECH.numbers(ANSWER)
    outcome = measured_patients(monkeypatch, settings, finding("non-contiguous", line, 14.0), mended=20.0)
    assert [outcome.measured[key].median for key in patient_rows.KEYS] == [0.0, 1.0]
    assert rows_of(outcome)["speech_encoder"][6] == "not kept"


@pytest.mark.parametrize(
    "said",
    [
        [],
        [finding("non-contiguous", 1, 11.0)],
        [finding("python-bound", None, 11.0), finding("non-contiguous", 23, 10.0)],
        [finding("non-contiguous", min(SPEECH.numbers(ANSWER)), 11.0, "info")],
    ],
)
def test_a_fault_that_does_not_come_first_at_its_line_is_not_found(
    said: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    outcome = measured_patients(monkeypatch, settings, *said, mended=20.0)
    assert [outcome.measured[key].median for key in patient_rows.KEYS] == [1.0, 0.0]
    assert rows_of(outcome)["speech_encoder"][1] == "no"


def test_a_finding_without_time_promises_none(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    (line,) = SPEECH.numbers(ANSWER)
    outcome = measured_patients(monkeypatch, settings, finding("non-contiguous", line, None), mended=20.0)
    assert [outcome.measured[key].median for key in patient_rows.KEYS] == [0.0, 0.0]
    assert rows_of(outcome)["speech_encoder"][6] == "no time promised"


def in_turns(monkeypatch: pytest.MonkeyPatch, *said: list[dict[str, Any]]) -> None:
    """A doctor that says one thing after the other of the patient, and finds nothing in the mended script."""
    reports = iter([report(30.0, *each) for each in said])

    def examined(script: Path, folder: Path, *, seconds: float) -> dict[str, Any]:
        return next(reports) if "patients" in script.parts else report(20.0)

    monkeypatch.setattr(patient_rows, "examined", examined)


def test_a_fault_that_is_missed_in_one_run_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = SPEECH.numbers(ANSWER)
    right, other = finding("non-contiguous", line, 11.0), finding("python-bound", 3, 9.0)
    in_turns(monkeypatch, [right], [other], [right])
    rounds = kept(SPEECH, 3, 1.0)
    assert (rounds.found, rounds.missed) == (2, ["python-bound, line 3"])
    assert cells(rounds)[:2] == [f"non-contiguous, line {line}; or python-bound, line 3", "in 2 of 3 runs"]


def test_a_finding_without_time_is_looked_for_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = SPEECH.numbers(ANSWER)
    in_turns(monkeypatch, [finding("non-contiguous", line, None)], [], [])
    rounds = kept(SPEECH, 3, 1.0)
    assert cells(rounds)[1] == "in 1 of 3 runs"


def test_another_right_way_to_tell_of_a_fault_takes_no_round_away(monkeypatch: pytest.MonkeyPatch) -> None:
    other = replace(ANSWER, rule="python-bound")
    patient = replace(SPEECH, first=(ANSWER, other))
    (line,) = SPEECH.numbers(ANSWER)
    one, two = ([finding(rule, line, 11.0)] for rule in ("non-contiguous", "python-bound"))
    in_turns(monkeypatch, one, two, one, one)
    rounds = kept(patient, 3, 1.0)
    assert [promise.rounds for promise in rounds.promises] == [3, 1]
    assert rounds.promise is rounds.promises[0]
    assert len(rounds.promises[0].after) == 3
    in_turns(monkeypatch, *[one, two] * 4)
    assert kept(patient, 4, 1.0).found == 7


def test_a_promise_may_be_off_by_three_spreads() -> None:
    promise = Promise(ANSWER, "", 3, [16.0] * 3, [1.0] * 3, [30.0, 32.0, 34.0], [20.0] * 3)
    assert promise.gains == [10.0, 12.0, 14.0]
    assert promise.allowed == pytest.approx(3 * (1 + standard_error([10.0, 12.0, 14.0]) ** 2) ** 0.5)
    assert promise.is_kept
    assert not Promise(ANSWER, "", 3, [20.0] * 3, [1.0] * 3, [30.0, 32.0, 34.0], [20.0] * 3).is_kept


def test_rounds_of_two_kinds_ask_for_more() -> None:
    """Three of five agree, by chance: that says little about what mending gives."""
    promise = Promise(ANSWER, "", 5, [7.0] * 5, [0.1] * 5, [17.0, 12.0, 17.1, 12.1, 17.2], [7.0] * 5)
    assert promise.is_noisy
    assert not Rounds([promise]).is_enough(5)
    assert Rounds([replace(promise, rounds=11)]).is_enough(5)
    quiet = replace(promise, before=[17.0, 17.1, 17.2, 17.3, 17.4])
    assert not quiet.is_noisy
    assert Rounds([quiet]).is_enough(5)


def test_findings_in_healthy_scripts_are_counted(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    monkeypatch.setattr(healthy_rows, "NEEDED", {"gan": "a_module_that_is_not_there"})
    doctor_that_says(monkeypatch, healthy_rows, finding("a", 1, 1.0), finding("b", 2, None, "info"))
    outcome = measured(healthy_rows, settings)
    assert outcome.measured["doctor-healthy"].median == len(HEALTHY) - 1
    step, *words = rows_of(outcome)["vision_cnn"]
    assert (step.median, words) == (0.03, ["a", "b", "a verdict"])
    assert outcome.tables[0].notes[0] == "Not measured: gan needs the module a_module_that_is_not_there"


def test_a_finding_of_some_runs_says_in_how_many(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    monkeypatch.setattr(healthy_rows, "HEALTHY", HEALTHY[:1])
    monkeypatch.setattr(healthy_rows, "ROUNDS", 3)
    runs = iter([report(30.0), report(30.0, finding("a", 1, 1.0)), report(30.0, finding("b", 2, None, "info"))])
    monkeypatch.setattr(healthy_rows, "examined", lambda *args, **named: next(runs))
    outcome = healthy_rows.measure(replace(settings, quick=False))
    assert outcome.measured["doctor-healthy"].median == 1
    assert rows_of(outcome)[HEALTHY[0].stem][1:] == ["a (1 of 3)", "b (1 of 3)", "a verdict"]


def test_a_healthy_script_without_steps_is_none_that_passed(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    monkeypatch.setattr(healthy_rows, "examined", lambda *args, **named: report(1.0) | {"steps": None})
    outcome = measured(healthy_rows, settings)
    told = {row[2] for row in outcome.tables[0].rows}
    assert told == {"no training step was seen"}
    assert outcome.measured["doctor-healthy"].median == len(outcome.tables[0].rows)


@pytest.mark.slow
def test_the_cost_is_measured_at_both_lengths(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    monkeypatch.setattr(cost_rows, "sized", lambda seconds: cost_rows.Training(8, 12, 16))
    outcome = measured(cost_rows, settings)
    names = ["bare", "phase timers", "bare, once more", "detached", "all probes, the first 64 steps of a run"]
    assert [row[:2] for row in outcome.tables[0].rows] == [[aim, name] for aim in ("10 ms", "1 ms") for name in names]


def test_the_distance_of_a_detached_run_is_told_in_units_of_the_noise() -> None:
    turns: dict[str, list[float | None]] = {
        "bare": [1.0, 1.0, 1.0, 1.0, 1.0, 2.0],
        "bare, once more": [0.98, 0.99, 1.0, 1.01, 1.02, None],
        "detached": [1.03, 1.03, 1.03, 1.03, 1.03, None],
    }
    assert cost_rows.beyond_noise(turns).median == pytest.approx(3.0)
