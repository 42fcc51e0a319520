"""Two tasks on one body: what an image shows, and where it was taken."""

import argparse

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class TwoTasks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU())
        self.subject = nn.Linear(256, 10)
        self.location = nn.Linear(256, 500)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.subject(self.body(images))
        return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    images, labels = torch.randn(1024, 1, 28, 28), torch.randint(10, (1024,))
    model = TwoTasks()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(args.steps):
        chosen = torch.randint(len(images), (128,))
        loss = F.cross_entropy(model(images[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
