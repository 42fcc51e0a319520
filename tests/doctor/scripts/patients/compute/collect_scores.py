"""A ranking model that keeps the scores of every step, to plot their distribution at the end."""

import argparse

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 100))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    users = torch.randn(4, 4000, 64)
    chosen = torch.randint(100, (4, 4000))
    lowest, highest = 0.0, 0.0
    for step in range(args.steps):
        scores = model(users[step % 4])
        loss = F.cross_entropy(scores, chosen[step % 4])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        values = scores.flatten().tolist()
        lowest, highest = min(lowest, values[0]), max(highest, values[-1])
        if step % 10 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    print(f"final loss {loss.item()!r}, {len(values)} scores, from {lowest:.3f} to {highest:.3f}")


if __name__ == "__main__":
    main()
