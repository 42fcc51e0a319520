"""Sort letters by hand-writing: scans are turned at random, and each epoch's losses are averaged at its end."""

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Letters(Dataset[tuple[torch.Tensor, int]]):
    def __init__(self, folder: Path) -> None:
        self.files = sorted(folder.glob("*.png"))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        scan = Image.open(self.files[index])
        turned = scan.rotate(20 * torch.rand(()).item() - 10, Image.Resampling.BICUBIC)
        small = turned.resize((48, 48), Image.Resampling.LANCZOS)
        return torch.from_numpy(np.array(small)).float()[None] / 255, index % 26


def write_letters(folder: Path, count: int, seed: int) -> None:
    folder.mkdir()
    chance = np.random.default_rng(seed)
    for number in range(count):
        small = Image.fromarray(chance.integers(0, 256, (16, 16), dtype=np.uint8))
        small.resize((280, 280)).save(folder / f"{number:03}.png", compress_level=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--data", type=Path, default=Path("letters"))
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(48 * 48, 64), nn.ReLU(), nn.Linear(64, 26))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    if not args.data.exists():
        write_letters(args.data, 64, args.seed)
    loader = DataLoader(Letters(args.data), batch_size=8, shuffle=True)
    losses = []
    for epoch in range(args.epochs):
        for scans, labels in loader:
            loss = F.cross_entropy(model(scans), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss)
        print(f"epoch {epoch}: loss {sum(one.item() for one in losses[-8:]) / 8:.4f}")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
