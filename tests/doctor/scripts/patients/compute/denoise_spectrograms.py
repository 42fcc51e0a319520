"""Learn to remove noise from spectrograms; the noise of each recording was measured beforehand."""

import argparse

import numpy as np
import torch
from torch import nn

BINS, FRAMES = 2048, 1024


def measured_noise(seed: int, recordings: int) -> list[np.ndarray]:
    """One array (bins, frames) a recording, as the measuring program writes them."""
    chance = np.random.default_rng(seed)
    return [chance.standard_normal((BINS, FRAMES), dtype=np.float32) for _ in range(recordings)]


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, clean: torch.Tensor, noise: np.ndarray
) -> torch.Tensor:
    spectrum = torch.from_numpy(noise.T)
    estimate = model(clean + spectrum)
    loss: torch.Tensor = (estimate - spectrum).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = nn.Sequential(nn.Linear(BINS, 8), nn.ReLU(), nn.Linear(8, BINS))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    noises = measured_noise(args.seed, 4)
    cleans = [torch.randn(FRAMES, BINS) for _ in noises]
    for step in range(args.steps):
        loss = train_step(model, optimizer, cleans[step % 4], noises[step % 4])
        if step % 10 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
