"""Every rule is asked, none harms another, and waiting is promised once."""

import random
from typing import Any

import numpy as np
import pytest
import torch

from cordwood.doctor.evidence.evidence import Evidence
from cordwood.doctor.evidence.findings import Abstain, Finding, Rule, level_of_share
from cordwood.doctor.rules.judging import judge
from cordwood.errors import UsageError


class Speaks(Rule):
    id = title = measures = costs = wrong = cure = "speaks"
    saves: float | None = 10.0

    def judge(self, evidence: Evidence) -> list[Finding]:
        return [Finding(self.id, "something", "do something", saves_ms=self.saves, spread_ms=1.0)]


class Starved(Speaks):
    id = "data-starved"
    saves = 20.0


class Workers(Speaks):
    id = "workers"


class Silent(Speaks):
    id = "silent"

    def judge(self, evidence: Evidence) -> list[Finding]:
        return []


class Unsure(Speaks):
    id = "unsure"

    def judge(self, evidence: Evidence) -> list[Finding]:
        evidence.need("tape")
        return []


class Broken(Speaks):
    id = "broken"

    def judge(self, evidence: Evidence) -> list[Finding]:
        raise RuntimeError("a bug of ours")


class Random(Speaks):
    id = "random"

    def judge(self, evidence: Evidence) -> list[Finding]:
        torch.rand(1)
        np.random.random()
        random.random()
        return []


def test_every_rule_has_an_outcome_with_its_reason() -> None:
    evidence = Evidence(missing={"tape": "torch.compile is in use"})
    outcomes = judge(evidence, [Speaks, Silent, Unsure, Broken, Silent])
    assert [outcome.status for outcome in outcomes] == ["found", "passed", "abstained", "failed", "passed"]
    assert outcomes[2].why == "torch.compile is in use"
    assert outcomes[3].why.startswith("RuntimeError: a bug of ours (test_judging.py:")


class Interrupted(Speaks):
    id = "interrupted"

    def judge(self, evidence: Evidence) -> list[Finding]:
        raise KeyboardInterrupt


def test_each_rule_is_told_of_before_it_is_asked() -> None:
    told: list[tuple[str, int, int]] = []
    judge(Evidence(), [Speaks, Broken, Silent], lambda *words: told.append(words))
    assert told == [("speaks", 1, 3), ("broken", 2, 3), ("silent", 3, 3)]


def test_ctrl_c_ends_the_judging_and_keeps_what_was_found() -> None:
    outcomes = judge(Evidence(), [Speaks, Interrupted, Silent])
    assert [outcome.status for outcome in outcomes] == ["found", "abstained", "abstained"]
    assert outcomes[2].why == "interrupted before it could judge"


def test_waiting_that_no_trial_could_save_is_information() -> None:
    class Cacheable(Silent):
        id = "cacheable-preprocessing"

    class Best(Silent):
        id = "workers"

    class Whole(Silent):
        id = "whole-batches"

    class Iterators(Silent):
        id = "iterator-per-batch"

    starved, *_ = judge(Evidence(), [Starved, Iterators, Whole, Best, Cacheable])
    assert (starved.findings[0].saves_ms, starved.findings[0].level) == (None, "info")
    starved, *_ = judge(Evidence(), [Starved, Iterators, Whole, Best, Unsure])
    assert starved.findings[0].saves_ms == 20.0


@pytest.mark.parametrize(("whole", "kept"), [(10.0, None), (9.0, 10.0), (None, 10.0)])
def test_workers_that_save_less_than_whole_batches_are_information(whole: float | None, kept: float | None) -> None:
    class Whole(Speaks):
        id = "whole-batches"
        saves = whole

    _, workers = judge(Evidence(), [Whole, Workers])
    assert workers.findings[0].saves_ms == kept
    assert workers.findings[0].level == ("info" if kept is None else None)


@pytest.mark.parametrize("cure", ["iterator-per-batch", "whole-batches"])
def test_every_cure_of_waiting_settles_what_is_promised(cure: str) -> None:
    class Cure(Speaks):
        id = cure

    starved, _ = judge(Evidence(), [Starved, Cure])
    assert starved.findings[0].saves_ms is None


def test_the_same_cure_is_promised_once_however_little_it_saves() -> None:
    class Iterators(Speaks):
        id = "iterator-per-batch"
        saves = 1.0

    starved, iterators = judge(Evidence(), [Starved, Iterators])
    assert starved.findings[0].saves_ms is None
    assert iterators.findings[0].saves_ms == 1.0


@pytest.mark.parametrize(("cure", "kept"), [(10.0, None), (9.9, 20.0), (None, 20.0)])
def test_waiting_that_a_cure_saves_is_promised_once(cure: float | None, kept: float | None) -> None:
    class Cure(Workers):
        saves = cure

    starved, cured = judge(Evidence(), [Starved, Cure])
    assert starved.findings[0].saves_ms == kept
    assert cured.findings[0].saves_ms == cure


def test_generators_are_as_before() -> None:
    def draw() -> tuple[Any, ...]:
        return torch.rand(1).item(), float(np.random.random()), random.random()

    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    expected = draw()
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])
    judge(Evidence(), [Random])
    assert draw() == expected


def test_levels_follow_the_share_of_a_step() -> None:
    assert [level_of_share(share) for share in (0.5, 0.1, 0.09, 0.03, 0.02, 0.0)] == [
        "high", "high", "medium", "medium", "info", "info",
    ]  # fmt: skip
    with pytest.raises(UsageError, match="loud"):
        Finding("x", "y", "z", level="loud")  # type: ignore[arg-type]


def test_a_missing_signal_makes_a_rule_abstain() -> None:
    with pytest.raises(Abstain, match="no tape could be seen"):
        Evidence().need("tape")
    with pytest.raises(Abstain, match="no loader"):
        Evidence().training_loader()
