"""``cw.prefetch``: runs any loader ahead in a thread, and moves its batches to a device."""

from collections.abc import Iterable, Iterator
from types import GeneratorType
from typing import Any, Generic, TypeVar

import torch

from cordwood.common.arguments import whole_number
from cordwood.errors import UsageError
from cordwood.feed.ahead.background import Background
from cordwood.feed.device.mover import Mover, Staged

T = TypeVar("T")


def prefetch(batches: Iterable[T], device: "torch.device | str | int | None" = None, depth: int = 2) -> "Prefetched[T]":
    """The same batches in the same order, made by a thread while the caller computes, and on the device when they come.

    ::

        loader = torch.utils.data.DataLoader(dataset, batch_size=256, num_workers=8)
        for images, labels in cw.prefetch(loader, device="cuda"):
            ...

    `depth` batches are kept ready. On the way to a device tensors are pinned and copied in the thread, on a stream of
    their own; without a device the thread alone is the gain. What the source raises is raised here, in its turn. The
    thread ends with the loop, also when that is left early, and a generator that was given is closed then.
    """
    if not any(hasattr(batches, name) for name in ("__iter__", "__getitem__")):
        raise UsageError(f"cw.prefetch takes a loader or another iterable of batches, not {type(batches).__name__}")
    depth = whole_number("depth", depth, 1)
    kind: type[Prefetched[T]] = SizedPrefetched if hasattr(batches, "__len__") else Prefetched
    return kind(batches, device, depth)


class Prefetched(Generic[T]):
    """What `cw.prefetch` gives: iterated as often as its source can be; other attributes are those of the source."""

    def __init__(self, source: Iterable[T], device: "torch.device | str | int | None", depth: int) -> None:
        self._source = source
        self._device = device
        self._depth = depth

    def __iter__(self) -> "Prefetching[T]":
        return Prefetching(self._source, Mover(self._device), self._depth)

    def __getattr__(self, name: str) -> Any:
        # Copying and unpickling look for special methods before there is a source.
        if name.startswith("__") or name == "_source":
            raise AttributeError(name)
        if name == "state_dict":
            raise AttributeError(
                "a loader behind cw.prefetch has no state_dict: its own would count batches that were fetched ahead "
                "and never received; cw.Loader, which prefetches by itself, counts those received"
            )
        return getattr(self._source, name)

    def __repr__(self) -> str:
        return f"cw.prefetch({self._source!r}, device={self._device!r}, depth={self._depth})"


class SizedPrefetched(Prefetched[T]):
    """One whose source tells how many batches it has."""

    def __len__(self) -> int:
        return len(self._source)  # type: ignore[arg-type]


class Prefetching(Iterator[T]):
    """One iteration, with a thread of its own; forgetting it ends the thread, and so does `close`."""

    def __init__(self, source: Iterable[T], mover: Mover, depth: int) -> None:
        # Begun here and not in the thread: a DataLoader forks its workers now, and draws its seed from the generator
        # that the caller's code draws from too.
        batches = iter(source)
        self._mover = mover
        self._background = Background(lambda: _staged(batches, mover), depth, "cordwood-prefetch")

    def __next__(self) -> T:
        batch: T = self._mover.arrive(self._background.get())
        return batch

    def close(self) -> None:
        """End the thread, and drop what is ready."""
        self._background.close()


def _staged(batches: Iterator[Any], mover: Mover) -> Iterator[list[Staged]]:
    def alone(batch: Any) -> list[Staged]:
        return [mover.stage(batch)]

    try:
        # By `map` and not by a loop, whose variable would keep a batch that the caller has let go of.
        yield from map(alone, batches)
    finally:
        mover.finish()
        if isinstance(batches, GeneratorType):
            batches.close()
