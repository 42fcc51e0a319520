"""A regression model with batch normalisation and dropout, checked against held-out data now and then."""

import argparse
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Regressor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.Linear(64, 512)
        self.norm = nn.BatchNorm1d(512)
        self.drop = nn.Dropout(0.3)
        self.outside = nn.Linear(512, 8)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.outside(self.drop(F.relu(self.norm(self.inside(inputs)))))
        return output


@torch.no_grad()
def held_out_error(model: nn.Module, loader: DataLoader[Any]) -> float:
    total = 0.0
    for inputs, targets in loader:
        total += F.mse_loss(model(inputs), targets).item()
    return total / len(loader)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Regressor()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    batches = [(torch.randn(512, 64), torch.randn(512, 8)) for _ in range(8)]
    held_out = DataLoader(TensorDataset(torch.randn(256, 64), torch.randn(256, 8)), batch_size=64)
    for step in range(args.steps):
        inputs, targets = batches[step % 8]
        loss = F.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            print(f"step {step}: loss {loss.item():.4f}, held out {held_out_error(model, held_out):.4f}")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
