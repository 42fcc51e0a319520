"""A convolutional classifier of small images, with a learning rate schedule and a checkpoint at the end."""

import argparse
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inside, outside, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outside)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return F.relu(self.norm(self.conv(images)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    data = TensorDataset(torch.rand(400, 3, 32, 32), torch.randint(10, (400,)))
    loader = DataLoader(data, batch_size=32, shuffle=True, drop_last=True)
    model = nn.Sequential(Block(3, 32), Block(32, 64), Block(64, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    model.append(nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    for epoch in range(args.epochs):
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        schedule.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}")
    with tempfile.TemporaryDirectory() as folder:
        torch.save(model.state_dict(), Path(folder) / "model.pt")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
