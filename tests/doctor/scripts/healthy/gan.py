"""A generative adversarial network: two models, two optimizers, that take turns."""

import argparse
import itertools

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def perceptron(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inside, outside in itertools.pairwise(sizes):
        layers += [nn.Linear(inside, outside), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    generator, critic = perceptron(64, 768, 768, 784), perceptron(784, 768, 256, 1)
    making = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    judging = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
    loader = DataLoader(TensorDataset(torch.randn(320, 784)), batch_size=32, shuffle=True)
    for epoch in range(args.epochs):
        for (real,) in loader:
            made = generator(torch.randn(len(real), 64))
            judged = F.softplus(-critic(real)).mean() + F.softplus(critic(made.detach())).mean()
            judging.zero_grad()
            judged.backward()
            judging.step()
            fooled = F.softplus(-critic(made)).mean()
            making.zero_grad()
            fooled.backward()
            making.step()
        print(f"epoch {epoch}: critic {judged.item():.4f}, generator {fooled.item():.4f}")
    print(f"final loss {judged.item()!r} {fooled.item()!r}")


if __name__ == "__main__":
    main()
