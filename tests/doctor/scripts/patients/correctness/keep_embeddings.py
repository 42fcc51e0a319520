"""Learn embeddings of items; those of every step are kept, for a picture of how they move."""

import argparse

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class Trainer:
    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.history: list[torch.Tensor] = []

    def step(self, items: torch.Tensor, targets: torch.Tensor) -> float:
        embedded = self.model(items)
        loss = F.mse_loss(embedded, targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.history.append(embedded)
        return loss.item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    trainer = Trainer(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)))
    items, targets = torch.randn(4, 2000, 64), torch.randn(4, 2000, 64)
    for step in range(args.steps):
        loss = trainer.step(items[step % 4], targets[step % 4])
        if step % 10 == 0:
            print(f"step {step}: loss {loss:.4f}")
    moved = (trainer.history[-1] - trainer.history[-5]).norm().item()
    print(f"final loss {loss!r}, moved by {moved:.4f}")


if __name__ == "__main__":
    main()
