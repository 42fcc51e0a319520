"""Learn from soft labels that put more weight on classes near the right one."""

import argparse

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

CLASSES = 20


def soften(labels: torch.Tensor) -> torch.Tensor:
    soft = torch.zeros(len(labels), CLASSES)
    for row in range(len(labels)):
        for other in range(CLASSES):
            soft[row, other] = torch.exp(-(labels[row] - other).abs().float())
    return soft / soft.sum(1, keepdim=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, CLASSES))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    inputs, labels = torch.randn(4, 64, 128), torch.randint(CLASSES, (4, 64))
    for step in range(args.steps):
        soft = soften(labels[step % 4])
        loss = F.cross_entropy(model(inputs[step % 4]), soft)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
