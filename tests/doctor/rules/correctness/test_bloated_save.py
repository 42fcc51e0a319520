"""What torch.save writes and nobody reaches is counted by line."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import cordwood as cw
from cordwood.doctor.evidence.evidence import Evidence
from cordwood.doctor.evidence.findings import Finding
from cordwood.doctor.measure.pairs import Gain
from cordwood.doctor.rules.correctness import bloated_save as rule
from cordwood.doctor.rules.correctness.bloated_save import BloatedSave
from cordwood.doctor.run.session import Session
from tests.doctor.support.evidences import make_evidence


def seen(*things: object, path: Path, times: int = 1) -> Evidence:
    session = Session(seconds=0.0)
    session.attach()
    for thing in things:
        for _ in range(times):
            torch.save(thing, path)
    session.detach()
    return session.evidence


def findings(evidence: Evidence) -> list[Finding]:
    return BloatedSave().judge(evidence)


def test_a_slice_of_a_large_tensor(tmp_path: Path) -> None:
    large = torch.zeros(1_000_000)
    (found,) = findings(seen(large[:10], path=tmp_path / "x.pt", times=12))
    assert found.place is not None
    assert found.place.source == "torch.save(thing, path)"
    assert found.message.startswith("100% of what torch.save writes here")
    assert "12 times in this run" in found.message
    assert "\ncw.save(thing, path)  # torch.load reads the file" in found.fix
    assert found.level == "medium"
    # What it says to do helps.
    cw.save(large[:10], tmp_path / "small.pt")
    assert (tmp_path / "small.pt").stat().st_size < 10_000
    assert torch.equal(torch.load(tmp_path / "small.pt"), large[:10])


@pytest.mark.parametrize(
    "thing",
    [
        torch.nn.Linear(600, 600).state_dict(),
        list(torch.zeros(1_000_000).chunk(4)),  # views that together reach all of it
        torch.zeros(1_000_000)[10:],
        torch.zeros(1000)[:10],  # waste that is not worth a word
        {"no": "tensor"},
    ],
    ids=["state", "chunks", "nearly all", "small", "none"],
)
def test_silent_where_nothing_is_wasted(thing: object, tmp_path: Path) -> None:
    assert findings(seen(thing, path=tmp_path / "x.pt")) == []


def test_both_ways_are_written_to_tell_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def measured(before: Callable[[], float], after: Callable[[], float], seconds: float) -> Gain:
        for way in (before, after):
            assert way() > 0
            sizes.extend(path.stat().st_size for path in tmp_path.glob(".cordwood-doctor-*/*"))
        return Gain(30.0, 1.0, 50.0, 20.0, 5)

    monkeypatch.setattr(rule, "measure_pair", measured)
    evidence = make_evidence({"forward": 10.0}, steps=95)
    evidence.saves = seen(torch.zeros(1_000_000)[:500_000], path=tmp_path / "x.pt", times=4).saves
    (found,) = findings(evidence)
    assert "4 times in this run; to write that takes 30.0 ms of 50.0 ms, each time" in found.message
    assert (found.level, found.verified) == ("medium", "replay")
    assert found.saves_ms is None  # of a step: most files are written between steps
    assert [round(size, -5) for size in sizes] == [4_000_000, 2_000_000]
    assert list(tmp_path.glob(".cordwood-doctor-*")) == []
    evidence.seconds_to_spend = 0.0
    (untried,) = findings(evidence)
    assert (untried.saves_ms, untried.level, untried.verified) == (None, "medium", "measured")
    assert untried.message.endswith("4 times in this run")


def test_a_file_object_is_left_alone(tmp_path: Path) -> None:
    with (tmp_path / "x.pt").open("wb") as file:
        session = Session(seconds=0.0)
        session.attach()
        torch.save(torch.zeros(1_000_000)[:1], file)
        session.detach()
    assert session.evidence.saves == []
