"""Answer queries from a memory of keys and values, by attention of three kinds; one prefers what is near."""

import argparse

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

KEYS, WIDTH = 2000, 16


class Memory(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.keys = nn.Parameter(torch.randn(KEYS, WIDTH) / WIDTH**0.5)
        self.values = nn.Parameter(torch.randn(KEYS, WIDTH))

    def forward(self, queries: torch.Tensor, nearness: torch.Tensor) -> torch.Tensor:
        scores = self.keys @ queries.T
        scores = scores.T
        sharp, even = F.softmax(scores, dim=-1), F.softmax(scores / 4, dim=-1)
        near = F.softmax(scores + nearness, dim=-1)
        return (sharp + even + near) @ self.values / 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Memory()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    queries = torch.randn(4, args.batch_size, WIDTH)
    nearness = torch.randn(args.batch_size, KEYS)
    answers = torch.randn(4, args.batch_size, WIDTH)
    for step in range(args.steps):
        optimizer.zero_grad()
        loss = F.mse_loss(model(queries[step % 4], nearness), answers[step % 4])
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
