"""Automatic mixed precision with a gradient scaler; a step whose gradients overflow is skipped."""

import argparse

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=45)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    # Half precision pays on an accelerator; elsewhere autocast is switched off, and the scaler stays.
    low = args.device != "cpu"
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    model.to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler(args.device, init_scale=2.0**10)
    inputs = torch.randn(4, 128, 256, device=args.device)
    labels = torch.randint(10, (4, 128), device=args.device)
    for step in range(args.steps):
        with torch.autocast(args.device, enabled=low):
            loss = F.cross_entropy(model(inputs[step % 4]), labels[step % 4])
        if step == 20:
            loss = loss * float("inf")
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(optimizer)
        scaler.update()
        if step % 10 == 0:
            print(f"step {step}: loss {loss.item():.4f}, scale {scaler.get_scale():g}")
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
