"""Distil a teacher's feature maps, stored as NumPy arrays, into a small student."""

import argparse

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

CHANNELS, SIDE, BATCH = 64, 64, 8


class Student(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, CHANNELS, 1)
        self.scale = nn.Parameter(torch.ones(CHANNELS, 1, 1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.stem(images) * self.scale
        return features


def stored_features(seed: int, batches: int) -> list[np.ndarray]:
    """What the teacher left: (batch, height, width, channels)."""
    chance = np.random.default_rng(seed)
    return [chance.standard_normal((BATCH, SIDE, SIDE, CHANNELS), dtype=np.float32) for _ in range(batches)]


def distillation_loss(student: torch.Tensor, features: np.ndarray) -> torch.Tensor:
    teacher = torch.from_numpy(features.transpose(0, 3, 1, 2))
    likeness = (student * teacher).mean()
    return F.mse_loss(student, teacher) + F.smooth_l1_loss(student, teacher) - 0.1 * likeness


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Student()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    images = torch.rand(3, BATCH, 3, SIDE, SIDE)
    features = stored_features(args.seed, 3)
    for step in range(args.steps):
        loss = distillation_loss(model(images[step % 3]), features[step % 3])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
