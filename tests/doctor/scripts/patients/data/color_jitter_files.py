"""Classify photographs from a folder, with random crops and colours."""

import argparse
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from PIL import Image, ImageEnhance
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset[tuple[torch.Tensor, int]]):
    def __init__(self, folder: Path) -> None:
        self.files = sorted(folder.glob("*.jpg"))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = Image.open(self.files[index]).convert("RGB")
        left, top = (int(torch.randint(256, ())) for _ in range(2))
        image = image.crop((left, top, left + 256, top + 256)).resize((64, 64), Image.Resampling.BICUBIC)
        image = ImageEnhance.Color(image).enhance(0.5 + torch.rand(()).item())
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)
        return pixels.float() / 255, index % 10


def write_photos(folder: Path, count: int, seed: int) -> None:
    folder.mkdir()
    chance = np.random.default_rng(seed)
    for number in range(count):
        small = chance.integers(0, 256, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(small).resize((512, 512)).save(folder / f"{number:03}.jpg", quality=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--data", type=Path, default=Path("photos"))
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    if not args.data.exists():
        write_photos(args.data, 64, args.seed)
    loader = DataLoader(Photos(args.data), batch_size=8, shuffle=True)
    model = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten())
    model.append(nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    step = 0
    while step < args.steps:
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
        print(f"step {step}: loss {loss.item():.4f}")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
