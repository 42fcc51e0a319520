"""Fit a linear model to a table that is in memory, in large shuffled batches."""

import argparse

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    table = TensorDataset(torch.randn(12000, 16), torch.randint(10, (12000,)))
    loader = DataLoader(table, batch_size=500, shuffle=True, drop_last=True)
    model = nn.Linear(16, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(args.epochs):
        for rows, labels in loader:
            loss = F.cross_entropy(model(rows), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
