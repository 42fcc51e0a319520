"""Early stopping: validation in eval mode and without gradients, and the best weights kept."""

import argparse
import copy
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


def make_model() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(128, 1024), nn.BatchNorm1d(1024), nn.ReLU(), nn.Dropout(0.2), nn.Linear(1024, 1024), nn.ReLU(),
        nn.Linear(1024, 10),
    )  # fmt: skip


def validate(model: nn.Module, loader: DataLoader[Any]) -> float:
    model.eval()
    total = 0.0
    with torch.inference_mode():
        for inputs, labels in loader:
            total += F.cross_entropy(model(inputs), labels, reduction="sum").item()
    model.train()
    return total / 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    data = TensorDataset(torch.randn(640, 128), torch.randint(10, (640,)))
    training, held_out = random_split(data, [512, 128])
    loader = DataLoader(training, batch_size=64, shuffle=True)
    checking = DataLoader(held_out, batch_size=64)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    best, weights = float("inf"), model.state_dict()
    for epoch in range(args.epochs):
        for inputs, labels in loader:
            loss = F.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        checked = validate(model, checking)
        if checked < best:
            best, weights = checked, copy.deepcopy(model.state_dict())
        print(f"epoch {epoch}: loss {loss.item():.4f}, held out {checked:.4f}")
    model.load_state_dict(weights)
    print(f"final loss {loss.item()!r}, best {best!r}")


if __name__ == "__main__":
    main()
