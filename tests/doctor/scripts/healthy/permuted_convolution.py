"""A convolutional net on images that are turned from channels last in the training loop itself."""

import argparse

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=45)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU())
    model.extend([nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    images, labels = torch.randn(4, 16, 40, 40, 3), torch.randint(10, (4, 16))
    for step in range(args.steps):
        loss = F.cross_entropy(model(images[step % 4].permute(0, 3, 1, 2)), labels[step % 4])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
