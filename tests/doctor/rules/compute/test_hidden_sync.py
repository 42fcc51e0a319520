"""When a line that takes values is worth a word, and what it is said to save."""

from pathlib import Path

import pytest

from cordwood.doctor.evidence.evidence import Evidence, SyncCall, SyncsSeen
from cordwood.doctor.evidence.findings import Abstain, CodeLine, Finding
from cordwood.doctor.evidence.stacks import Stacks
from cordwood.doctor.rules.compute.hidden_sync import HiddenSync
from tests.doctor.support.evidences import make_evidence

LINE = CodeLine("train.py", 30, "main", "print(output)")
STEPS = 24


def call(
    ms: float,
    operation: str = "printing",
    device: str = "cpu",
    every: int = 1,
    elements: int = 100,
    place: CodeLine = LINE,
) -> SyncCall:
    """A line that takes so many milliseconds in every step, or in some."""
    by_step = {step: ms for step in range(8, 8 + STEPS) if step % every == 0}
    return SyncCall(place, operation, device, len(by_step), sum(by_step.values()), elements=elements, by_step=by_step)


def evidence_of(*calls: SyncCall) -> Evidence:
    evidence = make_evidence(forward=40.0, backward=60.0, jitter=0.0)
    evidence.syncs = SyncsSeen(STEPS, list(calls))
    return evidence


def judged(*calls: SyncCall) -> list[Finding]:
    return HiddenSync().judge(evidence_of(*calls))


def test_printing_in_every_step() -> None:
    [finding] = judged(call(20.0, elements=5000))
    assert (finding.place, finding.verified) == (LINE, "measured")
    assert finding.saves_ms == pytest.approx(20.0)
    assert finding.spread_ms == pytest.approx(0.0)
    assert finding.message == "printing of a tensor of 5,000 elements: 20.0 ms in every step (20%), once a step"
    assert "step % 100 == 0" in finding.fix


@pytest.mark.parametrize(
    ("calls", "often"), [(130, "130 times"), (1000, "1,000 times"), (2.5, "2.5 times"), (0.5, "0.5 times"), (1, "once")]
)
def test_numbers_are_written_as_people_write_them(calls: float, often: str) -> None:
    many = call(20.0, "bool()", elements=1)
    many.calls = int(calls * STEPS)
    [finding] = judged(many)
    assert finding.message == f"bool() of a tensor of 1 element: 20.0 ms in every step (20%), {often} a step"
    assert finding.details[0].rows[0][2] == often.replace("once", "1").removesuffix(" times")
    many.device = "cuda"
    [finding] = judged(many)
    assert f"for cuda, {often}; " in finding.message


def test_no_line_takes_more_than_the_step() -> None:
    [finding] = judged(call(120.0))  # the steps that were watched were slower than the others
    assert "120 ms in every step (100%)" in finding.message
    assert finding.saves_ms == pytest.approx(100.0)


def test_cheap_and_rare_lines_are_silent() -> None:
    assert judged(call(2.9)) == []
    assert judged(call(90.0, every=20)) == []  # seen in one step, or in two
    [finding] = judged(call(30.0, every=4))
    assert finding.saves_ms == pytest.approx(30.0 * 6 / STEPS)
    assert finding.spread_ms == pytest.approx(30.0 / STEPS)  # one call more or less


def test_a_cost_within_its_spread_is_silent() -> None:
    wild = call(0.0)
    wild.by_step = {8: 200.0, 9: 0.1, 10: 0.1}
    assert judged(wild) == []


def test_all_calls_of_a_line_count_together() -> None:
    [finding] = judged(call(2.0, ".item()"), call(2.0, "float()"))
    assert finding.saves_ms == pytest.approx(4.0)


@pytest.mark.parametrize("operation", [".cpu()", "nonzero()"])
def test_on_the_cpu_computing_is_no_waiting(operation: str) -> None:
    assert judged(call(30.0, operation)) == []
    assert judged(call(30.0, operation, device="cuda"))


def test_a_wait_for_the_device_saves_no_more_than_python_has_to_do_meanwhile() -> None:
    [finding] = judged(call(30.0, ".item()", device="cuda"))
    assert finding.saves_ms == pytest.approx(30.0)
    [finding] = judged(call(90.0, ".item()", device="cuda"))
    assert finding.saves_ms == pytest.approx(10.0)
    assert "waits 90.0 ms a step (90%) for cuda" in finding.message
    assert "detach()" in finding.fix


def test_long_lists_are_also_freed() -> None:
    [finding] = judged(call(20.0, ".tolist()", elements=50_000))
    assert finding.saves_ms is not None
    assert 20.0 < finding.saves_ms < 60.0
    [finding] = judged(call(20.0, ".tolist()", elements=500))
    assert finding.saves_ms == pytest.approx(20.0)


def test_work_of_numpy_on_what_was_taken(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("def log(x):\n    values = x.numpy()\n    return np.percentile(values, 95)\n")
    taken, worked = CodeLine(str(script), 2, "log"), CodeLine(str(script), 3, "log")
    evidence = evidence_of(call(0.01, ".numpy()", elements=50_000, place=taken))
    evidence.stacks = Stacks(samples=500, seconds=2.0, steps=20, array_lines={worked: 25.0})
    [finding] = HiddenSync().judge(evidence)
    assert finding.place == worked
    assert finding.saves_ms == pytest.approx(25.0)
    assert finding.spread_ms == pytest.approx(100 * (0.25 * 0.75 / 500) ** 0.5)
    assert "torch.quantile" in finding.fix


def test_without_the_signal_it_abstains() -> None:
    evidence = make_evidence()
    evidence.missing["syncs"] = "torch.compile is in use"
    with pytest.raises(Abstain, match=r"torch\.compile"):
        HiddenSync().judge(evidence)
