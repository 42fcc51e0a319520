"""Train a denoiser, and save the first few results of a batch now and then, to look at them."""

import argparse
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


def train(model: nn.Module, folder: Path, steps: int) -> torch.Tensor:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    signals = torch.randn(3, 8192, 256)
    for step in range(steps):
        clean = signals[step % 3]
        output = model(clean + 0.1 * torch.randn_like(clean))
        loss = F.mse_loss(output, clean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            torch.save({"step": step, "examples": output.detach()[:4]}, folder / "examples.pt")
        if step % 10 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    return loss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(256, 16), nn.ReLU(), nn.Linear(16, 256))
    with tempfile.TemporaryDirectory() as folder:
        loss = train(model, Path(folder), args.steps)
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
