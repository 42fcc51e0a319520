"""Describes the machine and the libraries of a run, for the report."""

import os
import platform
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from cordwood import __version__


def describe_environment() -> dict[str, Any]:
    """What figures depend on: two reports are compared only with these in view."""
    return {
        "cordwood": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": usable_cores(),
        "threads": torch.get_num_threads(),
        "memory_bytes": _memory(),
        "device": _device(),
        "rank": 0,
        "world_size": 1,
    }


def note_rank(environment: dict[str, Any]) -> None:
    """Which of how many processes this is, where several train together."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        environment["rank"] = distributed.get_rank()
        environment["world_size"] = distributed.get_world_size()


def usable_cores() -> int:
    """The cores that this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    if sys.platform == "linux":
        with suppress(OSError):
            lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
            if names:
                return names[0]
    return platform.processor() or platform.machine()


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return None


def _device() -> str:
    if not torch.accelerator.is_available():
        return "cpu"
    device = torch.accelerator.current_accelerator()
    name = torch.cuda.get_device_name() if device is not None and device.type == "cuda" else ""
    return f"{device} {name}".strip()
