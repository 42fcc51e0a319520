"""A multi-layer perceptron with wide layers on large batches."""

import argparse

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, labels = torch.randn(2, 512, 1024), torch.randint(10, (2, 512))
    for step in range(args.steps):
        loss = F.cross_entropy(model(inputs[step % 2]), labels[step % 2])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
