"""A small training with one fault of choice, for the doctor to find: `python faulty.py item cuda`.

Each fault is the line that ends with its name. Host and device both work for some milliseconds in every step, so that
waiting for one of them costs something.
"""

import argparse
import time

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

FAULTS = ("none", "pageable", "small", "item", "float32", "convolution")
STEPS = 60
MS = 4.0


def work(device: torch.device) -> tuple[torch.Tensor, int]:
    """A matrix, and how often it is multiplied by itself in about `MS` milliseconds."""
    matrix = torch.rand(512, 512, device=device)
    began = time.perf_counter()
    torch.mm(matrix, matrix).sum().item()  # the first call loads libraries
    began = time.perf_counter()
    for _ in range(10):
        product = torch.mm(matrix, matrix)
    product.sum().item()
    return matrix, max(1, round(MS / ((time.perf_counter() - began) * 100)))


def busy_until(end: float) -> None:
    """Python at work on the host."""
    while time.perf_counter() < end:
        pass


def build(fault: str, width: int, device: torch.device) -> nn.Module:
    if fault == "convolution":
        layers = [nn.Conv2d(3, 32, 5, padding=2), nn.ReLU(), nn.Conv2d(32, 32, 5), nn.ReLU(), nn.AdaptiveAvgPool2d(1)]
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(32, 10)).to(device)
    hidden = width if fault == "float32" else 64
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, 10)).to(device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fault", choices=FAULTS)
    parser.add_argument("device")
    args = parser.parse_args()
    device, fault = torch.device(args.device), args.fault
    is_cpu = device.type == "cpu"
    torch.manual_seed(0)
    width, rows = (64, 16) if is_cpu else (4096, 1024) if fault in ("float32", "pageable") else (256, 256)
    shape = (rows // 4, 3, 48, 48) if fault == "convolution" else (rows, width)
    model = build(fault, width, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    host = [torch.rand(shape) for _ in range(4)]
    pinned = host if is_cpu else [batch.pin_memory() for batch in host]
    on_device = [batch.to(device) for batch in host]
    labels = torch.randint(10, (shape[0],)).to(device)
    rows_alone = list(torch.rand(256, width))
    matrix, count = work(device)
    total = 0.0
    for step in range(STEPS):
        began = time.perf_counter()
        if fault == "none":
            batch = pinned[step % 4].to(device, non_blocking=True)
        elif fault == "pageable":
            batch = host[step % 4].to(device)  # fault: pageable
        else:
            batch = on_device[step % 4]
        if fault == "small":
            batch = torch.stack([row.to(device) for row in rows_alone])  # fault: small
        if fault == "item":
            for _ in range(count):
                torch.mm(matrix, matrix)
        loss = F.cross_entropy(model(batch), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if fault == "item":
            total += loss.item()  # fault: item
            busy_until(time.perf_counter() + MS / 1e3)
        elif fault == "none":
            busy_until(began + MS / 1e3)
    print(f"final loss {loss.item()!r}")


if __name__ == "__main__":
    main()
