"""What copying in the background needs of an accelerator: a stream, events, pinned memory.

    streams = streams_for(torch.device("cuda", 0))
    with streams.copying():
        copied = streams.copy(streams.pinned(tensor))
        event = streams.event()
    ...                       # in the thread that computes
    streams.wait(event)
    streams.record(copied)

Everything else is written against `Streams`, so this file is all that runs only where an accelerator is. CUDA (and
ROCm, which goes by its name), XPU and accelerators that come as plug-ins have the same calls in their modules.
"""

import threading
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch

from cordwood.errors import UsageError


class Streams(Protocol):
    """A stream of copies to one device, and what others must know of it."""

    def copying(self) -> AbstractContextManager[Any]:
        """Within it, what the thread starts on the device goes to the stream of copies."""
        ...

    def pinned(self, thing: Any) -> Any:
        """The same in page-locked memory; itself if it is in such memory already."""
        ...

    def copy(self, thing: Any) -> Any:
        """Begin to copy it to the device. What it is copied from must stay as it is until the copy is done."""
        ...

    def event(self) -> Any:
        """A mark behind all copies begun so far."""
        ...

    def reached(self, event: Any) -> bool:
        """Whether the copies before the mark are done."""
        ...

    def synchronize(self, event: Any) -> None:
        """Wait here, on the host, until they are."""
        ...

    def wait(self, event: Any) -> None:
        """Let the stream that the calling thread computes on wait until they are."""
        ...

    def record(self, copied: Any) -> None:
        """Tell that the calling thread's stream uses it, so that its memory is not given anew before that is done."""
        ...


class DeviceStreams:
    """`Streams` by the module that torch has for a kind of device, such as `torch.cuda`."""

    def __init__(self, device: torch.device, module: Any) -> None:
        self._device = device
        self._module = module
        self._stream = module.Stream(device)

    def copying(self) -> AbstractContextManager[Any]:
        # Also makes the device the current one of the thread, for `pinned`.
        context: AbstractContextManager[Any] = self._module.stream(self._stream)
        return context

    def pinned(self, thing: Any) -> Any:
        return thing.pin_memory()

    def copy(self, thing: Any) -> Any:
        return thing.to(self._device, non_blocking=True)

    def event(self) -> Any:
        return self._stream.record_event()

    def reached(self, event: Any) -> bool:
        return bool(event.query())

    def synchronize(self, event: Any) -> None:
        event.synchronize()

    def wait(self, event: Any) -> None:
        self._module.current_stream(self._device).wait_event(event)

    def record(self, copied: Any) -> None:
        copied.record_stream(self._module.current_stream(self._device))


_made: dict[torch.device, DeviceStreams] = {}
_making = threading.Lock()


def streams_for(device: torch.device) -> Streams | None:
    """The one stream of copies to a device, which has an index; None for a kind of device without streams.

    One for all, and not one an epoch: torch keeps the memory that it has for a stream apart, so every new stream would
    take new memory from the device.
    """
    module = _module_of(device)
    if not all(hasattr(module, name) for name in ("Stream", "stream", "current_stream")):
        return None
    with _making:
        if device not in _made:
            _made[device] = DeviceStreams(device, module)
        return _made[device]


def device_of(device: "torch.device | str | int | None") -> torch.device | None:
    """The device that is meant, with an index where its kind counts them; None for no copying at all.

    Asked in the thread that computes: "cuda" is the device which is current there.
    """
    if device is None:
        return None
    try:
        meant = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise UsageError(f"device={device!r} is no device that torch knows: {error}") from None
    if meant.type == "cpu":
        return None
    module = _module_of(meant)
    if not hasattr(module, "device_count"):
        return meant
    index: int | None = meant.index
    count = module.device_count() if module.is_available() else 0
    if not count or (index or 0) >= count:
        raise UsageError(
            f"device={device!r} is not here: torch {torch.__version__} finds {count} of the kind {meant.type!r}; "
            "give one that exists, or device=None to get batches in ordinary memory"
        )
    if index is None and hasattr(module, "current_device"):
        return torch.device(meant.type, module.current_device())
    return meant


def _module_of(device: torch.device) -> Any:
    """What torch has for this kind of device; None where there is none, as for "meta"."""
    return getattr(torch, device.type, None)
