"""Trials that may take as long as they need: on a busy machine they would abstain."""

import math

import pytest

from cordwood.doctor.measure import pairs
from cordwood.doctor.trials import iterator, loader, whole_batches


@pytest.fixture(autouse=True)
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (pairs, iterator, loader, whole_batches):
        monkeypatch.setattr(module, "OVERTIME_SECONDS", math.inf)
