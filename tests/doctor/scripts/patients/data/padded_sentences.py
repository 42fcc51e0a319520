"""A bag-of-words classifier over sentences of different lengths, padded when a batch is put together."""

import argparse

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.data import DataLoader, Dataset

WORDS, LONGEST = 5000, 400


class Sentences(Dataset[tuple[list[int], int]]):
    """Every time another part of a text."""

    def __init__(self, count: int) -> None:
        self.texts = [torch.randint(1, WORDS, (LONGEST + 50,)).tolist() for _ in range(count)]

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> tuple[list[int], int]:
        start, length = int(torch.randint(50, ())), int(torch.randint(LONGEST // 2, LONGEST, ()))
        return self.texts[index][start : start + length], index % 3


def pad(samples: list[tuple[list[int], int]]) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(len(words) for words, _ in samples)
    batch = torch.zeros(len(samples), longest, dtype=torch.long)
    for row, (words, _) in enumerate(samples):
        for column, word in enumerate(words):
            batch[row, column] = word
    return batch, torch.tensor([label for _, label in samples])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.EmbeddingBag(WORDS, 64, padding_idx=0), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(Sentences(192), batch_size=16, shuffle=True, collate_fn=pad)
    step = 0
    while step < args.steps:
        for words, labels in loader:
            loss = F.cross_entropy(model(words), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
        print(f"step {step}: loss {loss.item():.4f}")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
