"""Predict a text's author from how often each letter follows another, counted as it is read."""

import argparse
import itertools
import random

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

LETTERS = "abcdefghijklmnopqrstuvwxyz "


def count_pairs(text: str) -> list[float]:
    counts = [0.0] * len(LETTERS) ** 2
    for first, second in itertools.pairwise(text):
        counts[LETTERS.index(first) * len(LETTERS) + LETTERS.index(second)] += 1.0
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    chance = random.Random(args.seed)
    texts = ["".join(chance.choices(LETTERS, k=1000)) for _ in range(256)]
    authors = torch.randint(16, (len(texts),))
    model = nn.Sequential(nn.Linear(len(LETTERS) ** 2, 512), nn.ReLU(), nn.Linear(512, 16))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for step in range(args.steps):
        chosen = chance.sample(range(len(texts)), 32)
        inputs = torch.tensor([count_pairs(texts[number]) for number in chosen])
        loss = F.cross_entropy(model(inputs), authors[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
