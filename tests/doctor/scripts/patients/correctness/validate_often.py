"""A classifier that is validated after every short epoch."""

import argparse

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_loader(count: int, shuffle: bool) -> DataLoader[tuple[torch.Tensor, ...]]:
    data = TensorDataset(torch.randn(count, 256), torch.randint(10, (count,)))
    return DataLoader(data, batch_size=64, shuffle=shuffle)


def validate(model: nn.Module, loader: DataLoader[tuple[torch.Tensor, ...]]) -> float:
    model.eval()
    right = 0
    for inputs, labels in loader:
        scores = model(inputs)
        right += int((scores.argmax(1) == labels).sum())
    model.train()
    return right / 512


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    layers: list[nn.Module] = [nn.Linear(256, 512)]
    for _ in range(4):
        layers += [nn.GELU(), nn.LayerNorm(512), nn.Dropout(0.1), nn.Linear(512, 512)]
    model = nn.Sequential(*layers, nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    training, validation = make_loader(384, True), make_loader(512, False)
    for epoch in range(args.epochs):
        for inputs, labels in training:
            loss = F.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}, accuracy {validate(model, validation):.2%}")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
