"""Classify scans: every one is decoded, scaled down and normalised, epoch after epoch."""

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Scans(Dataset[tuple[torch.Tensor, int]]):
    def __init__(self, folder: Path) -> None:
        self.files = sorted(folder.glob("*.png"))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with Image.open(self.files[index]) as scan:
            small = scan.convert("RGB").resize((64, 64), Image.Resampling.LANCZOS)
        pixels = torch.from_numpy(np.array(small)).permute(2, 0, 1)
        return (pixels.float() / 255 - 0.5) / 0.25, index % 5


def write_scans(folder: Path, count: int, seed: int) -> None:
    folder.mkdir()
    chance = np.random.default_rng(seed)
    for number in range(count):
        small = Image.fromarray(chance.integers(0, 256, (24, 24, 3), dtype=np.uint8))
        small.resize((260, 260)).save(folder / f"{number:03}.png", compress_level=1)


def train(model: nn.Module, folder: Path, steps: int) -> torch.Tensor:
    dataset = Scans(folder)
    loader = DataLoader(dataset, batch_size=8, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    step = 0
    while step < steps:
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
        print(f"step {step}: loss {loss.item():.4f}")
    return loss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=56)
    parser.add_argument("--data", type=Path, default=Path("scans"))
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Conv2d(3, 16, 5, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(3600, 5))
    if not args.data.exists():
        write_scans(args.data, 64, args.seed)
    loss = train(model, args.data, args.steps)
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
