"""A speech encoder: a convolution over time, then a residual block and a classifier at every frame."""

import argparse

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

BANDS, CHANNELS, FRAMES, CLASSES = 8, 512, 1024, 16


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Conv1d(BANDS, CHANNELS, 3, padding=1)
        self.norm = nn.LayerNorm(CHANNELS)
        self.block = nn.Sequential(nn.Linear(CHANNELS, 16), nn.ReLU(), nn.Linear(16, CHANNELS))
        self.head = nn.Linear(CHANNELS, CLASSES)

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        features = self.front(sound)
        frames = features.transpose(1, 2)
        frames = frames + self.block(self.norm(frames))
        scores: torch.Tensor = self.head(frames)
        return scores


def batches(count: int, size: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.randn(size, BANDS, FRAMES), torch.randint(CLASSES, (size, FRAMES))) for _ in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = Encoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = batches(4, args.batch_size)
    for step in range(args.steps):
        sound, target = data[step % len(data)]
        optimizer.zero_grad()
        loss = F.cross_entropy(model(sound).flatten(0, 1), target.flatten())
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
