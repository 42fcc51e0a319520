"""Two real processes that train in step: together they see every sample of an epoch once."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch.distributed
from torch.multiprocessing.spawn import spawn

from tests.feed.support import gloo_job
from tests.feed.support.gloo_job import BATCH
from tests.feed.support.numbered import numbered
from tests.feed.support.plain_order import shuffled

COUNT = 51  # the last step has three samples for two ranks

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
    reason="this build of torch has no gloo",
)


def by_torchrun(store: Path, answer: Path) -> None:
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1"),
        *("--nproc-per-node", "2", "-m", "tests.feed.support.gloo_job", str(store), str(answer)),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, check=False)
    assert done.returncode == 0, done.stderr


def by_spawn(store: Path, answer: Path) -> None:
    given = (2, str(store), str(answer), str(answer.with_name("meeting")))
    spawn(gloo_job.spawned, given, nprocs=2)


@pytest.fixture(scope="module", params=[by_spawn, pytest.param(by_torchrun, marks=pytest.mark.slow)])
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the ranks told, one after the other."""
    folder = tmp_path_factory.mktemp("gloo")
    numbered(folder / "s", COUNT, shard_bytes=2000)
    start: Callable[[Path, Path], None] = request.param
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")  # no other network
        start(folder / "s", folder / "answer.json")
    answer: dict[str, Any] = json.loads((folder / "answer.json").read_text())
    return answer


def order(epoch: int) -> list[int]:
    return shuffled(COUNT, 3, epoch)


def in_step(ranks: list[list[list[int]]]) -> list[int]:
    """Samples in the order of the steps, rank by rank in each."""
    return [number for step in zip(*ranks, strict=True) for batch in step for number in batch]


@pytest.mark.slow
def test_ranks_are_known_although_the_loader_is_older_than_the_group(told: dict[str, Any]) -> None:
    assert told["ranks"] == [[0, 2], [1, 2]]
    assert told["lengths"] == [5, 5]


def test_together_the_ranks_have_every_sample_once(told: dict[str, Any]) -> None:
    for epoch, ranks in enumerate(told["epochs"]):
        assert in_step(ranks) == order(epoch)
        assert [[len(batch) for batch in rank] for rank in ranks] == [[6, 6, 6, 6, 2], [6, 6, 6, 6, 1]]


def test_a_state_is_the_same_on_every_rank_and_resumes_on_all(told: dict[str, Any]) -> None:
    first, second = told["states"]
    assert first == second
    assert (first["epoch"], first["consumed"]) == (2, 2 * 2 * BATCH)
    assert in_step(told["before"]) + in_step(told["after"]) == order(2)


def test_training_in_step_gets_through_an_epoch(told: dict[str, Any]) -> None:
    first, second = told["weights"]
    assert len(first) == 16
    assert first == second
