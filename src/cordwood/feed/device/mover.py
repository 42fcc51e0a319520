"""Copies batches to a device in the background, on a stream of their own, while the device computes.

mover = Mover("cuda")                    # in the thread that computes
staged = mover.stage(batch)              # in the background thread: the copies begin
batch = mover.arrive(staged)             # in the thread that computes, which does not wait for them: its stream does
mover.finish()                           # in the background thread, at the end
"""

from collections import deque
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import torch

from cordwood.feed.device.nesting import replaced
from cordwood.feed.device.streams import Streams, device_of, streams_for


class Staged(NamedTuple):
    """A batch whose copies have begun."""

    batch: Any
    event: Any = None  # reached when the copies are done; None if there are none
    copied: Sequence[Any] = ()  # what lies in memory of the stream of copies
    is_late: bool = False  # something in the batch has still to go to the device


class Mover:
    """Takes batches to a device: all tensors in them, and objects that have a `to`; the rest is left alone.

    Made in the thread that computes, where "cuda" means the device that is current there. Plain tensors are copied in
    the background. Sparse and nested ones and objects with a `to` of their own go to the device when they arrive, on
    the stream that computes, because nobody else could tell torch which memory of theirs both streams use; and so does
    everything where there are no streams, as on MPS. For None and "cpu" nothing is copied.
    """

    def __init__(self, device: "torch.device | str | int | None", streams: Streams | None = None) -> None:
        self.device = device_of(device)
        self._streams = streams_for(self.device) if streams is None and self.device is not None else streams
        self._held: deque[tuple[Any, list[Any]]] = deque()

    def stage(self, batch: Any) -> Staged:
        """Begin to copy a batch; in the background thread."""
        streams = self._streams
        if streams is None:
            return Staged(batch, is_late=self.device is not None)
        self._let_go()
        sources: list[Any] = []
        copied: list[Any] = []
        late = False

        def begin(leaf: Any) -> Any:
            nonlocal late
            if not _is_stream_safe(leaf):
                late = late or self._is_elsewhere(leaf)
                return leaf
            # Pinned first: a copy from pageable memory goes through a buffer of the driver's, and the thread waits.
            sources.append(streams.pinned(leaf))
            copied.append(streams.copy(sources[-1]))
            return copied[-1]

        event = None
        with streams.copying():
            try:
                moved = replaced(batch, begin)
            finally:
                if sources:
                    event = streams.event()
                    self._held.append((event, sources))
        return Staged(moved, event, copied, late)

    def arrive(self, staged: Staged) -> Any:
        """The batch on the device; in the thread that computes, as often as it was staged: once."""
        streams = self._streams
        if streams is not None and staged.event is not None:
            streams.wait(staged.event)
            for copied in staged.copied:
                streams.record(copied)
        if not staged.is_late:
            return staged.batch
        return replaced(staged.batch, lambda leaf: leaf.to(self.device) if self._is_elsewhere(leaf) else leaf)

    def finish(self) -> None:
        """Wait until no memory of a staged batch is read any more; in the background thread, at the end."""
        while self._held:
            event, _ = self._held.popleft()
            if self._streams is not None:
                self._streams.synchronize(event)

    def _let_go(self) -> None:
        """Forget what was copied from, once it was: its memory may be used for another batch then, and not before."""
        while self._held and self._streams is not None and self._streams.reached(self._held[0][0]):
            self._held.popleft()

    def _is_elsewhere(self, leaf: Any) -> bool:
        if isinstance(leaf, torch.Tensor):
            return leaf.device != self.device
        return hasattr(leaf, "to")


def _is_stream_safe(leaf: Any) -> bool:
    """Whether it can be copied on one stream and used on another, because torch knows where its memory is."""
    if not isinstance(leaf, torch.Tensor):
        return False
    return leaf.device.type == "cpu" and leaf.layout == torch.strided and not leaf.is_nested


@cache
def _can_pin() -> bool:
    try:
        torch.empty(1, pin_memory=True)
    except RuntimeError:
        return False
    return True


def pinned(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Memory that a device copies from by itself, page-locked; ordinary memory where torch knows no accelerator.

    It comes from torch's own pool, which keeps it, when it is freed, until the copies from it are done.
    """
    return torch.empty(tuple(shape), dtype=dtype, pin_memory=_can_pin())
