"""The cores and the memory that this process may use, by affinity and control groups."""

import os
from functools import cache
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")


def default_threads() -> int:
    """The cores that this process may use: those it may run on, and not more than its group's share of time allows."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    share = core_share()
    return allowed if share is None else max(1, min(allowed, int(share + 0.5)))


@cache
def core_share(root: Path = _GROUPS, member: Path = Path("/proc/self/cgroup")) -> float | None:
    """How many cores' worth of time the control groups of this process allow; None: all."""
    shares = []
    for folder in _folders(root, member, "cpu"):
        words = _words(folder / "cpu.max")  # version 2: "200000 100000" or "max 100000"
        if not words:
            words = [*_words(folder / "cpu.cfs_quota_us"), *_words(folder / "cpu.cfs_period_us")]  # version 1; -1: all
        if len(words) == 2 and all(word.isdecimal() for word in words) and int(words[0]) and int(words[1]):
            shares.append(int(words[0]) / int(words[1]))
    return min(shares, default=None)


@cache
def physical_memory() -> int:
    """Bytes that this machine has or its container may use: what decoding may allocate by default."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = memory_limit()
    return machine if limit is None else min(machine, limit)


def available_memory() -> int:
    """Bytes that this process may still allocate without pushing other processes out of memory."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError, IndexError):
        free = physical_memory() // 2
    return min(free, physical_memory())


@cache
def memory_limit(root: Path = _GROUPS, member: Path = Path("/proc/self/cgroup")) -> int | None:
    """The memory that the control groups of this process allow; None: all."""
    found = []
    for folder in _folders(root, member, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            found += [int(word) for word in _words(folder / name) if word.isdecimal() and int(word)]
    return min(found, default=None)


def _folders(root: Path, member: Path, controller: str) -> list[Path]:
    """The folders that tell the limits of the process, the outer ones too: the narrowest counts."""
    try:
        lines = member.read_text().splitlines()
    except OSError:
        return []
    found = [root, root / controller]
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        top = root / controllers if controllers else root
        at = top / path.lstrip("/")
        while at != top and top in at.parents:
            found.append(at)
            at = at.parent
    return found


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []
