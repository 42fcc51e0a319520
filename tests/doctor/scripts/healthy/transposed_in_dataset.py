"""Images come from NumPy with channels last and are turned in the dataset; the batch is made by the loader."""

import argparse

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Images(Dataset[tuple[torch.Tensor, int]]):
    def __init__(self, count: int, seed: int) -> None:
        chance = np.random.default_rng(seed)
        self.images = chance.random((count, 48, 48, 3), dtype=np.float32)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = self.images[index].transpose(2, 0, 1)
        return torch.from_numpy(image).float(), index % 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    loader = DataLoader(Images(192, args.seed), batch_size=16, shuffle=True, drop_last=True)
    model = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3, stride=2), nn.ReLU())
    model.extend([nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
