"""Which rank a process is: by arguments, by torch.distributed, by the environment."""

import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch.distributed as distributed

from cordwood.errors import UsageError
from cordwood.feed.order.ranks import rank_and_world


@pytest.fixture(autouse=True)
def no_world(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def process_group() -> Iterator[None]:
    """A real group, of this process alone."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def test_alone_without_anything() -> None:
    assert rank_and_world() == (0, 1)


def test_the_environment_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", " 8 ")
    assert rank_and_world() == (3, 8)


def test_arguments_count_more_than_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert rank_and_world(1, 2) == (1, 2)
    assert rank_and_world(np.int64(1), np.int32(2)) == (1, 2)  # type: ignore[arg-type]


@pytest.mark.usefixtures("process_group")
def test_a_process_group_counts_more_than_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert rank_and_world() == (0, 1)
    assert rank_and_world(1, 2) == (1, 2)


def test_empty_variables_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "")
    monkeypatch.setenv("WORLD_SIZE", "")
    assert rank_and_world() == (0, 1)


@pytest.mark.parametrize(
    ("rank", "world_size", "message"),
    [
        (0, None, "0 and None, but both are needed"),
        (None, 2, "None and 2, but both are needed"),
        (2, 2, "below the world size"),
        (-1, 2, "count from 0"),
        (0, 0, "below the world size"),
        (0.0, 2, "whole numbers"),
        (True, 2, "whole numbers"),
        (0, [2], "whole numbers"),
    ],
)
def test_arguments_that_cannot_be_are_refused(rank: Any, world_size: Any, message: str) -> None:
    with pytest.raises(UsageError, match=f"the arguments rank and world_size are .*{message}"):
        rank_and_world(rank, world_size)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"RANK": "1"}, "'1' and None, but both are needed.*rank="),
        ({"WORLD_SIZE": "4"}, "None and '4', but both are needed"),
        ({"RANK": "x", "WORLD_SIZE": "4"}, "'x' and '4', but both are whole numbers"),
        ({"RANK": "4", "WORLD_SIZE": "4"}, "below the world size"),
    ],
)
def test_variables_that_cannot_be_are_refused(
    variables: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=f"RANK and WORLD_SIZE are .*{message}"):
        rank_and_world()
