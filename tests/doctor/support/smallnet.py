"""A small net, its data and its training, for sessions to watch."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from cordwood.doctor.evidence.evidence import StepTimes
from cordwood.doctor.run.session import Session


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2))
        self.head = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.body(x))
        return result


def data(samples: int = 96) -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    return TensorDataset(
        torch.randn(samples, 8, generator=generator), torch.randint(3, (samples,), generator=generator)
    )


def train(epochs: int = 2, *, watch: Callable[[Any], None] = lambda thing: None, workers: int = 0) -> list[str]:
    """The bits of every loss."""
    torch.manual_seed(0)
    model, criterion = Net(), nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(data(), batch_size=4, shuffle=True, num_workers=workers)
    losses = []
    for _ in range(epochs):
        iterator = iter(loader)
        watch(iterator)
        for x, y in iterator:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item().hex())
    return losses


def seen_steps(session: Session) -> StepTimes:
    session.detach()
    session._gather()
    assert session.evidence.steps is not None
    return session.evidence.steps
