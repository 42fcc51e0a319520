"""Messages through pipes: what is sent arrives, large buffers too, and an end in the middle is an end."""

import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from cordwood.packing.workers.wire import receive, send, unpack


@pytest.fixture
def pipe() -> Iterator[list[int]]:
    ends = list(os.pipe())
    yield ends
    for end in ends:
        if end >= 0:
            os.close(end)


def close(pipe: list[int], end: int) -> None:
    os.close(pipe[end])
    pipe[end] = -1


def through(pipe: list[int], message: Any) -> Any:
    """A pipe holds little, so somebody must write while another reads."""
    sender = threading.Thread(target=send, args=(pipe[1], message))
    sender.start()
    parts = receive(pipe[0])
    sender.join()
    assert parts is not None
    return unpack(parts)


def test_messages_arrive_in_their_order(pipe: list[int]) -> None:
    for message in (None, "text", {"a": [1, 2.5, (b"x",)]}, list(range(1000))):
        assert through(pipe, message) == message


def test_large_buffers_are_not_part_of_the_pickle(pipe: list[int]) -> None:
    arrays = [np.arange(300_000), np.zeros((0, 3)), np.ones((3, 5), order="F")]
    sender = threading.Thread(target=send, args=(pipe[1], arrays))
    sender.start()
    parts = receive(pipe[0])
    sender.join()
    assert parts is not None
    assert len(parts[0]) < 1000
    for one, other in zip(unpack(parts), arrays, strict=True):
        np.testing.assert_array_equal(one, other)
        one[...] = 0  # nobody else's memory
    tensor = torch.arange(50_000).reshape(100, 500)
    assert torch.equal(through(pipe, tensor), tensor)


def test_functions_of_nowhere_arrive(pipe: list[int]) -> None:
    added = 5
    assert through(pipe, lambda value: value + added)(3) == 8


def test_an_end_is_told_wherever_it_comes(pipe: list[int]) -> None:
    send(pipe[1], ["some", "words"])
    whole = os.read(pipe[0], 1 << 16)
    for size in (0, 1, 4, 7, 12, 13, len(whole) - 1):
        ends = list(os.pipe())
        os.write(ends[1], whole[:size])
        os.close(ends[1])
        assert receive(ends[0]) is None
        os.close(ends[0])


def test_nobody_there_to_read_is_an_error(pipe: list[int]) -> None:
    close(pipe, 0)
    with pytest.raises(BrokenPipeError):
        send(pipe[1], "text")
