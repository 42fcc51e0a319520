"""One rank of a job with several: reads epochs of a store, and tells by its group what all of them had.

    torchrun --nproc-per-node 2 -m tests.feed.support.gloo_job STORE ANSWER

Rank 0 writes a file of JSON.
"""

import atexit
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import cordwood as cw
from cordwood import Loader
from tests.feed.support.numbered import batches_of

BATCH = 6


def work(store: str, answer: str, **group: Any) -> None:
    loader = Loader(cw.open(store), BATCH, True, seed=3)  # made before there is a group
    dist.init_process_group("gloo", **group)
    try:
        told = told_by_all(store, loader)
        if dist.get_rank() == 0:
            Path(answer).write_text(json.dumps(told))
    finally:
        dist.destroy_process_group()


def told_by_all(store: str, loader: Loader) -> dict[str, Any]:
    """By rank: what it received."""
    told: dict[str, Any] = {
        "ranks": gathered([dist.get_rank(), dist.get_world_size()]),
        "lengths": gathered(len(loader)),
        "epochs": [gathered(batches_of(loader)) for _ in range(2)],
    }
    iterator = iter(loader)
    taken = []
    for _ in range(2):
        taken += batches_of([next(iterator)])
        dist.barrier()  # as the gradients of a step are
    state = loader.state_dict()
    told |= {"states": gathered(state), "before": gathered(taken)}
    resumed = Loader(cw.open(store), BATCH - 1, True, seed=3)
    resumed.load_state_dict(state)
    told["after"] = gathered(batches_of(resumed))
    told["weights"] = gathered(trained(loader))
    return told


def trained(loader: Loader) -> list[float]:
    """The weights of a model after an epoch of training in step."""
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for batch in loader:
        optimizer.zero_grad()
        model(batch["values"].float() / 1e6).square().mean().backward()
        optimizer.step()
    weights: list[float] = model.module.weight.flatten().tolist()
    return weights


def gathered(mine: Any) -> list[Any]:
    """What every rank has."""
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    return everyone


def leave() -> None:
    """End this process, after what is to be done at the end, without taking the interpreter down.

    Gloo's threads outlive their group. A little after a collective operation is done, one of them lets go of its
    tensors, for which it needs Python's lock; where the interpreter is going down by then, that aborts the process
    ("terminate called without an active exception"), and nothing in torch waits for it.
    """
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def spawned(rank: int, world_size: int, store: str, answer: str, meeting: str) -> None:
    """A rank as `torch.multiprocessing.spawn` starts it: no variable tells it its number."""
    work(store, answer, rank=rank, world_size=world_size, init_method=f"file://{meeting}")
    leave()


if __name__ == "__main__":
    work(*sys.argv[1:])
    leave()
