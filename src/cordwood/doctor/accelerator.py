"""Waiting for the accelerator, so that a clock tells of work done and not of work handed over.

    wait_for_accelerator()
    started = perf_counter()

torch is not imported here: who has not imported it has nothing to wait for. Nor is a device woken up by asking.
"""

import sys
from typing import Any


def wait_for_accelerator() -> None:
    """Return when the accelerator in use (CUDA, XPU, MPS, ...) has done all it was given. Free without one."""
    backend = _backend_in_use()
    if backend is None:
        return
    if not hasattr(backend, "device_count") or not hasattr(backend, "memory_reserved"):  # MPS: there is one device
        backend.synchronize()
        return
    current = backend.current_device()
    for index in range(backend.device_count()):
        # Others than the current device may be at work, too; those that hold no memory are not.
        if index == current or backend.memory_reserved(index):
            backend.synchronize(index)


def _backend_in_use() -> Any:
    """The module of torch that speaks to the accelerator, such as torch.cuda; None if it was not used so far."""
    torch: Any = sys.modules.get("torch")
    accelerator = getattr(torch, "accelerator", None)
    device = None if accelerator is None else accelerator.current_accelerator()
    if device is None:
        return None
    backend = getattr(torch, device.type, None)
    if not hasattr(backend, "synchronize"):
        return None
    is_initialized = getattr(backend, "is_initialized", None)  # MPS has none: it is there from the start
    return backend if is_initialized is None or is_initialized() else None
