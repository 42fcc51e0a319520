"""An LSTM reads names letter by letter and tells their language; names of different lengths are padded."""

import argparse
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader

LETTERS, LANGUAGES = 40, 12


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(LETTERS, 48, padding_idx=0)
        self.read = nn.LSTM(48, 96, num_layers=2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(96, LANGUAGES)

    def forward(self, names: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = pack_padded_sequence(self.embed(names), lengths, batch_first=True, enforce_sorted=False)
        _, (last, _) = self.read(packed)
        scores: torch.Tensor = self.head(last[-1])
        return scores


def collate(samples: list[tuple[torch.Tensor, int]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    names, languages = zip(*samples, strict=True)
    lengths = torch.tensor([len(name) for name in names])
    return pad_sequence(list(names), batch_first=True), lengths, torch.tensor(languages)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    sizes = torch.randint(6, 30, (24 * 32,)).tolist()
    names = [(torch.randint(1, LETTERS, (size,)), size % LANGUAGES) for size in sizes]
    loader: DataLoader[Any] = DataLoader(names, batch_size=32, shuffle=True, collate_fn=collate)  # type: ignore[arg-type]
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(args.epochs):
        right = 0
        for batch, lengths, languages in loader:
            scores = model(batch, lengths)
            loss = F.cross_entropy(scores, languages)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            right += int((scores.argmax(1) == languages).sum())
        print(f"epoch {epoch}: {right / len(names):.1%} right")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
