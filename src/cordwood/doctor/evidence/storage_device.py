"""Describes the device that holds a file: "ext4 on /dev/nvme0n1p2 (SSD)", "nfs from server:/data", "tmpfs (RAM)".

    device_of("/data/train/0001.jpg")

Told by /proc and /sys; None where there are none (macOS), or where they do not say.
"""

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

_MOUNTS = Path("/proc/self/mountinfo")
_BLOCK_DEVICES = Path("/sys/dev/block")
_VIRTUAL = re.compile(r"/dev/(vd|xvd)[a-z]")
_IN_MEMORY = ("tmpfs", "ramfs", "hugetlbfs")
_NETWORK = (
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "ceph",
    "lustre",
    "9p",
    "beegfs",
    "gpfs",
    "glusterfs",
    "afs",
    "virtiofs",
)


class Mount(NamedTuple):
    """A line of mountinfo."""

    device: str  # major:minor
    folder: str
    kind: str  # ext4, nfs4, ...
    source: str  # /dev/nvme0n1p2, server:/data


def device_of(path: str | Path) -> str | None:
    """The device that holds a path, in words."""
    try:
        number = Path(path).stat().st_dev
        real = os.path.realpath(path)
        mounts = mounts_in(_MOUNTS.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
    return _of_mount(f"{os.major(number)}:{os.minor(number)}", real, mounts)


def _of_mount(device: str, real_path: str, mounts: list[Mount]) -> str | None:
    mount = best_mount(device, real_path, mounts)
    if mount is None:
        return None
    if mount.kind in _IN_MEMORY:
        return f"{mount.kind} (RAM)"
    if mount.kind in _NETWORK or mount.kind.startswith("fuse."):
        return f"{mount.kind} from {mount.source}"
    return f"{mount.kind} on {mount.source}{_make(mount)}"


def _make(mount: Mount) -> str:
    if _VIRTUAL.match(mount.source):
        return " (virtual disk)"  # whatever it says of itself, nobody in here can know
    rotates = _rotates(mount.device)
    return "" if rotates is None else " (hard disk)" if rotates else " (SSD)"


def best_mount(device: str, real_path: str, mounts: list[Mount]) -> Mount | None:
    """The mount that a path is on: the deepest folder above it, of the device's mounts if there are any.

    File systems that span devices (btrfs, overlayfs) give files device numbers that no mount has.
    """
    above = [mount for mount in mounts if Path(real_path).is_relative_to(mount.folder)]
    of_device = [mount for mount in above if mount.device == device]
    return max(of_device or above, key=lambda mount: len(mount.folder), default=None)


def mounts_in(text: str) -> list[Mount]:
    """The mounts of a mountinfo file; lines of another form are passed over."""
    mounts = []
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        fields, kinds = left.split(" "), right.split(" ")
        if len(fields) >= 6 and len(kinds) >= 2:
            mounts.append(Mount(fields[2], _plain(fields[4]), kinds[0], _plain(kinds[1])))
    return mounts


def _plain(text: str) -> str:
    """Blanks and the like are written as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


@lru_cache(maxsize=64)
def _rotates(device: str) -> bool | None:
    """Whether a block device is a disk that turns; a partition's answer is its disk's."""
    folder = _BLOCK_DEVICES / device
    for place in (folder / "queue", folder / ".." / "queue"):
        try:
            return (place / "rotational").read_text(encoding="ascii").strip() == "1"
        except (OSError, ValueError):
            continue
    return None
