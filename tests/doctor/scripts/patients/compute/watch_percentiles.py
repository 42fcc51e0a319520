"""A regression that writes down how its outputs are spread, step by step."""

import argparse

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


def spread(output: torch.Tensor) -> tuple[float, float, float]:
    values = output.detach().cpu().numpy()
    low, middle, high = np.percentile(values, [5, 50, 95])
    return float(low), float(middle), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, targets = torch.randn(4, 6000, 32), torch.randn(4, 6000, 64)
    spreads = []
    for step in range(args.steps):
        output = model(inputs[step % 4])
        loss = F.mse_loss(output, targets[step % 4])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        spreads.append(spread(output))
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.4f}, outputs {spreads[-1]}")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
