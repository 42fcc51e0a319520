"""A script that packs, as people write them: all in one file, and no ``if __name__ == "__main__"``.

    python unguarded_job.py '{"dest": "train.cordwood", "form": "single", "workers": 2}'

Something can happen to it on its way: `hits` are signals to itself, to its group or to a worker when so many inputs
are packed, `at_call` is a kill right before a call to the file system, `torn` after half of the bytes of a write. With
`ignores_interrupts` it ignores SIGINT, as a job in the background does.
"""

import json
import os
import random
import signal
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

import cordwood as cw
from cordwood.packing import PackProgress
from cordwood.packing.workers import engine, tasks
from cordwood.packing.workers.pool import Pool
from cordwood.store.writing import first_samples, later_plans
from tests.packing.support.filecalls import FileCalls
from tests.packing.support.forkedworkers import fork_workers

settings: dict[str, Any] = json.loads(sys.argv[1])
tasks._MOST_INPUTS = 8  # many tasks, though they are quick, and as many every time
tasks._SECONDS = 1e6
first_samples.MAX_FIRST_SAMPLES = 40
later_plans.BYTES_PER_LOOK = 1
engine._CHECKPOINT_SHARE = 0
engine.CHECKPOINT_SECONDS = settings.get("checkpoints", 0)
if settings.get("fork", True):
    fork_workers()
if settings.get("ignores_interrupts"):
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class Numbers:
    """Inputs that follow from their number; some cannot be read."""

    def __len__(self) -> int:
        return 300

    def __getitem__(self, number: int) -> dict[str, Any]:
        if number % 31 == 30:
            raise OSError(f"input {number} is out of reach")
        return {"values": torch.arange(40) * number, "number": number}


def single(sample: dict[str, Any]) -> Any:
    """None, one or three samples, or a failure; with random numbers from everywhere."""
    number = sample["number"]
    if number % 17 == 5:
        raise ValueError(f"input {number} is odd")
    if number % 7 == 3:
        return None
    made = {**sample, "noise": torch.rand(20), "draws": (random.random(), np.random.random())}
    return [{**made, "copy": copy} for copy in range(3)] if number % 5 == 0 else {**made, "copy": 0}


def batched(batch: dict[str, Any], generator: torch.Generator) -> Any:
    """As many rows, fewer, more or none, or a failure."""
    first = int(batch["number"][0])
    if first % 9 == 4:
        raise ValueError(f"the batch of input {first} is odd")
    noise = torch.rand(len(batch["number"]), 20, generator=generator)
    made = {**batch, "noise": noise, "drawn": torch.full_like(noise[:, 0], random.random())}
    if first % 3 == 0:
        return {name: rows[rows.shape[0] // 2 :] for name, rows in made.items()}
    if first % 5 == 0:
        return {name: torch.cat([rows, rows]) for name, rows in made.items()}
    return None if first % 8 == 7 else made


class Levels:
    """Inputs that can only be gone through: noise, then few distinct values, which need another plan, then noise."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        chance = np.random.default_rng(7)
        levels = chance.standard_normal(60).astype(np.float32)
        for number in range(400):
            noise = chance.standard_normal(200).astype(np.float32)
            drawn = levels[chance.integers(0, 60, 200)]
            yield {"values": torch.from_numpy(drawn if 60 <= number < 350 else noise), "number": number}


def noisy(image: torch.Tensor) -> torch.Tensor:
    """An image that is another one every time."""
    return image // 2 + torch.randint(0, 100, image.shape, dtype=torch.uint8)


class WatchedPool(Pool):
    """Tells who the workers are."""

    def __init__(self, *args: Any) -> None:
        global pool
        super().__init__(*args)
        pool = self


pool: Pool | None = None
vars(engine)["Pool"] = WatchedPool
hits = list(settings.get("hits", ()))
done = 0


def hit(state: PackProgress) -> None:
    """What is to happen now."""
    global done
    while hits and state.inputs >= hits[0]["inputs"]:
        what = hits.pop(0)
        done += 1
        if what["whom"] == "worker":
            assert pool is not None
            os.kill(pool.pids[what["worker"]], what["signal"])
        elif what["whom"] == "group":
            os.killpg(0, what["signal"])
        else:
            os.kill(os.getpid(), what["signal"])


forms: dict[str, dict[str, Any]] = {
    "single": {"source": Numbers(), "transform": single},
    "batched": {"source": Numbers(), "transform": batched, "batched": True, "batch_size": 7},
    "photos": {"source": settings.get("photos"), "transform": {"image": noisy}},
    "iterable": {"source": Levels(), "goal": "balanced", "shard_bytes": 16_000},
}
calls = FileCalls(settings.get("at_call"), torn=settings.get("torn", False))
try:
    packed = cw.pack(
        **{"goal": "fast", "shard_bytes": settings.get("shard_bytes", 6000), **forms[settings["form"]]},
        dest=settings["dest"],
        workers=settings["workers"],
        on_error="skip",
        progress=hit,
    )
except KeyboardInterrupt as error:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print(json.dumps({"interrupted": error.__notes__, "hits": done}))
else:
    calls.stop()
    assert isinstance(packed, cw.Packed)
    print(json.dumps({"samples": packed.samples, "resumed": packed.resumed_inputs, "calls": calls.count, "hits": done}))
