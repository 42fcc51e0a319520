"""The trial of a packed store: it leaves no trace, and refuses what would not be the same."""

import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, default_collate, get_worker_info

from cordwood.doctor.evidence.findings import Abstain
from cordwood.doctor.measure.pairs import Gain
from cordwood.doctor.trials import pack
from cordwood.doctor.trials.pack import PackTrial, same_in_worker, try_packed
from cordwood.doctor.trials.pack_part import part_to_pack

NUMBERS = [0, 9, 19, 29]
LONG = 600.0  # seconds: nothing here is about time


class Samples(Dataset[Any]):
    def __init__(self, form: str = "tuple") -> None:
        self.form = form

    def __len__(self) -> int:
        return 30

    def __getitem__(self, number: int) -> Any:
        x = torch.arange(16.0) + number
        if self.form == "dict":
            return {"x": x, "name": f"n{number}", "size": (number, 0.5)}
        if self.form == "set":
            return {x.sum().item()}
        if self.form == "worker" and get_worker_info() is not None:
            x += 1
        return x, number


def noisy(samples: list[Any]) -> Any:
    batch = default_collate(samples)
    return batch[0] + torch.rand(1), batch[1]


def first_only(samples: list[Any]) -> Any:
    return torch.stack([sample[0] for sample in samples])


@pytest.fixture(autouse=True)
def few_batches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pack, "_TURN_MS", 0.0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def tried(loader: DataLoader[Any]) -> PackTrial:
    part = part_to_pack(loader.dataset, NUMBERS)
    return try_packed(loader, part, NUMBERS, busy_ms=0.01, step_ms=1.0, seconds=LONG)


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("tuple", {}),
        ("dict", {}),
        ("tuple", {"shuffle": True, "drop_last": True}),
        ("tuple", {"collate_fn": noisy}),
        ("tuple", {"collate_fn": first_only}),
        ("tuple", {"num_workers": 1}),
    ],
)
def test_a_trial_gives_figures_and_leaves_nothing_behind(form: str, options: dict[str, Any], tmp_path: Path) -> None:
    states = random.getstate(), torch.get_rng_state()
    trial = tried(DataLoader(Samples(form), batch_size=4, **options))
    assert random.getstate() == states[0]
    assert torch.equal(torch.get_rng_state(), states[1])
    assert list(tmp_path.iterdir()) == []
    assert trial.packed == 30
    assert 30 * 64 / 8 < trial.store_bytes < 100_000
    assert 3 <= trial.gain.pairs <= 7
    assert min(trial.gain.before_ms, trial.gain.after_ms, trial.sample_ms, trial.collate_ms) > 0
    assert 0 < trial.share <= 1


def test_all_samples_are_counted_though_some_are_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tried(DataLoader(Samples(), batch_size=4))
    monkeypatch.setattr(pack, "_PACK_SAMPLES", 10)
    part = tried(DataLoader(Samples(), batch_size=4))
    assert part.packed == 10
    assert part.store_bytes > whole.store_bytes  # the fixed part of a store counts three times


def test_samples_to_compare_are_packed_however_long_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "_PACK_SECONDS", -1.0)
    assert tried(DataLoader(Samples(), batch_size=4)).packed == len(NUMBERS)


def test_the_generator_of_the_users_loader_is_not_drawn_from() -> None:
    generator = torch.Generator().manual_seed(5)
    before = generator.get_state()
    tried(DataLoader(Samples(), batch_size=4, shuffle=True, generator=generator))
    assert torch.equal(generator.get_state(), before)


def test_samples_that_cannot_be_stored() -> None:
    with pytest.raises(Abstain, match="cannot be stored"):
        tried(DataLoader(Samples("set"), batch_size=4, collate_fn=noisy))


def test_a_batch_that_would_be_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(*arguments: Any) -> list[Any]:
        return [torch.zeros(4)]

    monkeypatch.setattr(pack, "packed_loader", other)
    with pytest.raises(Abstain, match="not what the loader gives"):
        tried(DataLoader(Samples(), batch_size=4))
    with pytest.raises(Abstain, match="not what the loader gives"):
        tried(DataLoader(Samples(), batch_size=4, collate_fn=noisy))


def test_a_collate_function_that_fails() -> None:
    calls = []

    def once(samples: list[Any]) -> Any:
        calls.append(1)
        if len(calls) > 8:
            raise RuntimeError("no more")
        return default_collate(samples)

    with pytest.raises(Abstain, match="RuntimeError: no more"):
        tried(DataLoader(Samples(), batch_size=4, collate_fn=once))


def test_a_trial_that_would_take_too_long() -> None:
    part = part_to_pack(Samples(), NUMBERS)
    with pytest.raises(Abstain, match="time there is"):
        try_packed(DataLoader(Samples(), 4), part, NUMBERS, busy_ms=0.0, step_ms=1.0, seconds=-1000.0)


def test_what_a_worker_gets_is_compared() -> None:
    for form, same in (("tuple", True), ("worker", False)):
        loader = DataLoader(Samples(form), batch_size=4, num_workers=2, collate_fn=noisy)
        assert same_in_worker(loader, part_to_pack(loader.dataset, NUMBERS), NUMBERS) is same
        assert loader.collate_fn is noisy
    alone = DataLoader(Samples("worker"), batch_size=4)
    assert same_in_worker(alone, part_to_pack(alone.dataset, NUMBERS), NUMBERS)


def test_the_share_of_loading() -> None:
    gain = Gain(1.0, 0.1, 3.0, 2.0, 3)
    trial = PackTrial(
        gain, sample_ms=2.0, packed_ms=1.0, once_ms=1.5, collate_ms=4.0, packed=1, store_bytes=1.0, batch_size=8
    )
    assert trial.share == pytest.approx(8 / 20)
