"""An autoencoder that writes its hidden layer to a log, to be looked at later."""

import argparse
import io

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(256, 128), nn.Tanh())
        self.decode = nn.Linear(128, 256)

    def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.encode(inputs)
        return self.decode(hidden), hidden


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_printoptions(profile="full", precision=3)
    model = Autoencoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    inputs = torch.randn(4, 512, 256)
    log = io.StringIO()
    for step in range(args.steps):
        batch = inputs[step % 4]
        output, hidden = model(batch)
        loss = F.mse_loss(output, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, hidden[:8], file=log)
        if step % 10 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    print(f"final loss {loss.item()!r}, {len(log.getvalue())} characters of log")


if __name__ == "__main__":
    main()
