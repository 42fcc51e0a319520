"""The stand-in for a training step does the amount of work that it is asked for."""

import pytest
import torch
from torch import nn

from cordwood.doctor.evidence.evidence import Evidence, ModuleSeen
from cordwood.doctor.evidence.findings import Abstain
from cordwood.doctor.measure.stand_in_step import Consumer, training_device


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    pieces: list[int] = []
    monkeypatch.setattr(Consumer, "_calibrated", lambda self: 0.5)
    monkeypatch.setattr(Consumer, "_do", lambda self, count: pieces.append(count))
    return pieces


@pytest.mark.parametrize("busy_ms", [0.0, 0.05, 0.5, 1.0, 7.3])
def test_the_amount_is_right_in_the_long_run_whatever_the_size_of_a_piece(done: list[int], busy_ms: float) -> None:
    consumer = Consumer(busy_ms)
    for _ in range(100):
        consumer.work()
    assert abs(sum(done) * 0.5 - 100 * busy_ms) <= 0.5 + 1e-6
    assert max(done) - min(done) <= 1


def test_a_scaled_one_has_its_own_account(done: list[int]) -> None:
    consumer = Consumer(1.25)
    consumer.work()
    half = consumer.scaled(0.5)
    for _ in range(40):
        half.work()
    assert half.busy_ms == 0.625
    assert half.piece_ms == consumer.piece_ms
    assert sum(done[1:]) == 50
    consumer.work()
    assert done[-1] == 3  # 0.25 ms are left over from the first call


def test_a_negative_time_is_none(done: list[int]) -> None:
    consumer = Consumer(-3.0)
    consumer.work()
    assert done == [0]


def test_it_works_for_real_and_draws_no_random_numbers() -> None:
    before = torch.get_rng_state()
    consumer = Consumer(0.01)
    for _ in range(3):
        consumer.scaled(1000 * consumer.piece_ms).work()
    assert consumer.piece_ms > 0
    assert consumer._result.isfinite().all()
    assert consumer._result.abs().sum() > 0
    assert torch.equal(torch.get_rng_state(), before)


def test_it_abstains_when_its_time_is_over(done: list[int]) -> None:
    late = Consumer(1.0, end=-1.0)
    with pytest.raises(Abstain, match="busy"):
        late.work()
    with pytest.raises(Abstain, match="busy"):
        late.scaled(0.5).work()
    assert done == []


def test_where_training_works() -> None:
    evidence = Evidence()
    assert training_device(evidence) == torch.device("cpu")
    evidence.modules += [ModuleSeen(nn.ReLU(), None), ModuleSeen(nn.Linear(2, 2, device="meta"), None)]
    assert training_device(evidence) == torch.device("meta")
