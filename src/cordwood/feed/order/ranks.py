"""Finds the rank of this process, and the number of ranks."""

import operator
import os
from typing import Any

import torch.distributed as distributed

from cordwood.common.text import brief
from cordwood.errors import UsageError


def rank_and_world(rank: int | None = None, world_size: int | None = None) -> tuple[int, int]:
    """This process's rank and the number of ranks.

    ::

        rank_and_world()         # (0, 1) where nothing says otherwise
        rank_and_world(3, 8)     # what the caller says

    Asked in turn: the arguments, ``torch.distributed`` if a process group exists, the variables ``RANK`` and
    ``WORLD_SIZE`` that torchrun and its like set. A process group is often made after a Loader is: so ask when an
    iteration starts.
    """
    if rank is not None or world_size is not None:
        return _checked(rank, world_size, "the arguments rank and world_size")
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    named = tuple(os.environ.get(name, "").strip() or None for name in ("RANK", "WORLD_SIZE"))
    if named == (None, None):
        return 0, 1
    return _checked(named[0], named[1], "the environment variables RANK and WORLD_SIZE")


def ranks_here() -> int:
    """How many ranks share this machine, as torchrun and its like tell; 1 where nothing does."""
    told = os.environ.get("LOCAL_WORLD_SIZE", "").strip()
    return max(1, int(told)) if told.isdecimal() else 1


def _checked(rank: Any, world_size: Any, source: str) -> tuple[int, int]:
    found = f"{source} are {brief(rank)} and {brief(world_size)}"
    if rank is None or world_size is None:
        raise UsageError(f"{found}, but both are needed, or none: give the Loader rank=... and world_size=...")
    try:
        which, count = (_whole(value) for value in (rank, world_size))
    except (TypeError, ValueError):
        raise UsageError(f"{found}, but both are whole numbers") from None
    if not 0 <= which < count:
        raise UsageError(f"{found}, but ranks count from 0 and are below the world size")
    return which, count


def _whole(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError
    return int(value) if isinstance(value, str) else operator.index(value)
