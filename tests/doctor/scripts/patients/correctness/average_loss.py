"""A language model over letters, with recurrent layers; prints the average loss so far."""

import argparse

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

LETTERS, LENGTH = 64, 40


class LetterModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(LETTERS, 32)
        self.recurrent = nn.GRU(32, 64, batch_first=True)
        self.head = nn.Linear(64, LETTERS)

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        states, _ = self.recurrent(self.embed(letters))
        scores: torch.Tensor = self.head(states)
        return scores


def train(model: nn.Module, texts: torch.Tensor, steps: int) -> torch.Tensor:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    total: torch.Tensor | float = 0.0
    for step in range(steps):
        batch = texts[step % len(texts)]
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss
        if step % 10 == 0:
            print(f"step {step}: average loss {total / (step + 1):.4f}")
    return loss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    loss = train(LetterModel(), torch.randint(LETTERS, (4, 32, LENGTH)), args.steps)
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
