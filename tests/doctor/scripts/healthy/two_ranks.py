"""Distributed data parallel on one machine: two processes that average their gradients over gloo."""

import argparse
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

RANKS = 2


def train(rank: int, meeting_point: str, epochs: int, seed: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    dist.init_process_group("gloo", init_method=f"file://{meeting_point}", rank=rank, world_size=RANKS)
    data = TensorDataset(torch.randn(640, 256), torch.randint(10, (640,)))
    sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(data, seed=seed)
    loader = DataLoader(data, batch_size=32, sampler=sampler)
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(256, 2048), nn.ReLU(), nn.Linear(2048, 512), nn.ReLU(), nn.Linear(512, 10))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for inputs, labels in loader:
            loss = F.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)
    if rank == 0:
        print(f"final loss {loss.item()!r}", flush=True)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spawn(train, (str(Path(folder) / "meeting"), args.epochs, args.seed), nprocs=RANKS)


if __name__ == "__main__":
    main()
