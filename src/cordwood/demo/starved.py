"""Learn to tell photographs apart by the names of their folders."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

IMAGES = Path(__file__).parent.parent / "images"
MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
STEPS = 200


class Photographs(Dataset[tuple[torch.Tensor, int]]):
    """One folder a class, one file an image."""

    def __init__(self) -> None:
        self.files = sorted(IMAGES.glob("*/*.jpg"))
        self.classes = sorted({file.parent.name for file in self.files})

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        file = self.files[index]
        with Image.open(file) as image:
            pixels = np.array(image.convert("RGB").resize((160, 160)))
        tensor = torch.from_numpy(pixels).permute(2, 0, 1).float() / 255
        return (tensor - MEAN) / STD, self.classes.index(file.parent.name)


def small_net(classes: int) -> nn.Module:
    """A few convolutions."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 8, stride=8), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes),
    )  # fmt: skip


def train() -> None:
    """As many epochs as there are steps for."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # so small a net gains nothing from more
    dataset = Photographs()
    loader = DataLoader(dataset, batch_size=8, shuffle=True)
    net = small_net(len(dataset.classes))
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    step = 0
    while step < STEPS:
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(images), labels)
            loss.backward()
            optimizer.step()
            step += 1
            if step == STEPS:
                break
        print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    train()
