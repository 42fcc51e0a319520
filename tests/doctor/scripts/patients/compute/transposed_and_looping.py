"""Learn a map of heights from several surveys; every survey's stations are weighted one by one."""

import argparse

import numpy as np
import torch
from torch import nn

ROWS, COLUMNS, STATIONS = 1024, 1280, 3500


def station_weights(quality: torch.Tensor) -> torch.Tensor:
    weights = torch.zeros(STATIONS)
    for station in range(STATIONS):
        weights[station] = torch.sigmoid(quality[station]) * 2
    return weights


class Heights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.surface = nn.Parameter(torch.zeros(ROWS, COLUMNS))

    def forward(self, survey: torch.Tensor) -> torch.Tensor:
        return (self.surface - survey).square().mean() + (self.surface * survey).mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    chance = np.random.default_rng(args.seed)
    surveys = [chance.standard_normal((COLUMNS, ROWS), dtype=np.float32) for _ in range(3)]
    quality = torch.randn(STATIONS)
    model = Heights()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(args.steps):
        survey = torch.from_numpy(surveys[step % 3].T)
        loss = model(survey) * station_weights(quality).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
