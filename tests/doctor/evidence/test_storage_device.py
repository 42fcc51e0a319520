"""Which device a file is on, told by the files of /proc and /sys."""

import os
from pathlib import Path

import pytest

from cordwood.doctor.evidence import storage_device
from cordwood.doctor.evidence.storage_device import Mount, best_mount, device_of, mounts_in

MOUNTINFO = """\
22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
30 22 0:26 / /dev/shm rw,nosuid - tmpfs tmpfs rw
31 22 0:50 / /data rw - nfs4 server:/export/data rw,vers=4.2
32 22 8:1 / /old\\040disk rw - xfs /dev/sda1 rw
33 22 254:0 / /virtual rw - ext4 /dev/vda rw
34 22 0:60 / /cloud rw - fuse.s3fs s3fs rw
nonsense
"""


def test_mounts_are_read_and_nonsense_is_passed_over() -> None:
    mounts = mounts_in(MOUNTINFO)
    assert len(mounts) == 6
    assert mounts[0] == Mount("259:2", "/", "ext4", "/dev/nvme0n1p2")
    assert mounts[3].folder == "/old disk"


def test_the_deepest_mount_of_the_device_is_taken() -> None:
    mounts = mounts_in(MOUNTINFO)
    assert best_mount("0:50", "/data/a.jpg", mounts) == mounts[2]
    assert best_mount("259:2", "/data2/a.jpg", mounts) == mounts[0]
    # A number that no mount has, as btrfs gives them: the folder decides.
    assert best_mount("0:99", "/data/a.jpg", mounts) == mounts[2]
    assert best_mount("0:99", "/a", []) is None


@pytest.mark.parametrize(
    ("device", "path", "text"),
    [
        ("259:2", "/home/a.jpg", "ext4 on /dev/nvme0n1p2 (SSD)"),
        ("0:26", "/dev/shm/a", "tmpfs (RAM)"),
        ("0:50", "/data/a", "nfs4 from server:/export/data"),
        ("8:1", "/old disk/a", "xfs on /dev/sda1 (hard disk)"),
        ("254:0", "/virtual/a", "ext4 on /dev/vda (virtual disk)"),
        ("0:60", "/cloud/a", "fuse.s3fs from s3fs"),
    ],
)
def test_devices_are_told_in_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, device: str, path: str, text: str
) -> None:
    disk = tmp_path / "disks" / "nvme0n1"
    for folder, rotational in ((disk, "0"), (tmp_path / "8:1", "1"), (tmp_path / "254:0", "1")):
        (folder / "queue").mkdir(parents=True)
        (folder / "queue" / "rotational").write_text(rotational + "\n")
    (disk / "nvme0n1p2").mkdir()
    (tmp_path / "259:2").symlink_to(disk / "nvme0n1p2")  # a partition: its disk knows
    monkeypatch.setattr(storage_device, "_BLOCK_DEVICES", tmp_path)
    storage_device._rotates.cache_clear()
    assert storage_device._of_mount(device, path, mounts_in(MOUNTINFO)) == text
    storage_device._rotates.cache_clear()


def test_a_file_here(tmp_path: Path) -> None:
    found = device_of(tmp_path)
    if Path("/proc/self/mountinfo").exists():
        assert found
    else:
        assert found is None


def test_files_that_are_gone_and_systems_that_do_not_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert device_of(tmp_path / "gone") is None
    monkeypatch.setattr(storage_device, "_MOUNTS", tmp_path / "none")
    assert device_of(os.fspath(tmp_path)) is None
