"""Large batches on a small machine: gradients of four small batches are added up before each step."""

import argparse

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    data = TensorDataset(torch.randn(640, 128), torch.randint(20, (640,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(128, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 20))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        total = 0.0
        for number, (inputs, labels) in enumerate(loader, 1):
            loss = F.cross_entropy(model(inputs), labels) / args.accumulate
            loss.backward()
            total += loss.item()
            if number % args.accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
        print(f"epoch {epoch}: loss {total / len(loader) * args.accumulate:.4f}")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
