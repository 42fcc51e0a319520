"""Cores and memory that a process may use, out of control groups as both versions write them."""

import os
from pathlib import Path

import pytest

from cordwood.common import resources


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    return tmp_path / "cgroup"


def member(tmp_path: Path, *lines: str) -> Path:
    file = tmp_path / "self"
    file.write_text("".join(f"{line}\n" for line in lines))
    return file


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_without_groups_everything_is_allowed(tmp_path: Path, groups: Path) -> None:
    nowhere = tmp_path / "none"
    assert resources.core_share(groups, nowhere) is None
    assert resources.memory_limit(groups, nowhere) is None
    assert resources.core_share(groups, member(tmp_path, "0::/")) is None


@pytest.mark.parametrize(
    ("text", "share"), [("max 100000", None), ("150000 100000", 1.5), ("nonsense", None), ("", None)]
)
def test_version_two(tmp_path: Path, groups: Path, text: str, share: float | None) -> None:
    write(groups / "a" / "b" / "cpu.max", text)
    assert resources.core_share(groups, member(tmp_path, "0::/a/b")) == share


def test_the_narrowest_group_counts(tmp_path: Path, groups: Path) -> None:
    write(groups / "cpu.max", "400000 100000")
    write(groups / "a" / "cpu.max", "100000 100000")
    write(groups / "a" / "b" / "cpu.max", "300000 100000")
    write(groups / "memory.max", "max")
    write(groups / "a" / "memory.max", "1000")
    write(groups / "a" / "b" / "memory.max", "2000")
    here = member(tmp_path, "0::/a/b")
    assert resources.core_share(groups, here) == 1.0
    assert resources.memory_limit(groups, here) == 1000


def test_version_one(tmp_path: Path, groups: Path) -> None:
    write(groups / "cpu,cpuacct" / "job" / "cpu.cfs_quota_us", "50000")
    write(groups / "cpu,cpuacct" / "job" / "cpu.cfs_period_us", "100000")
    write(groups / "memory" / "job" / "memory.limit_in_bytes", "123456")
    here = member(tmp_path, "4:cpu,cpuacct:/job", "3:memory:/job", "2:pids:/other")
    assert resources.core_share(groups, here) == 0.5
    assert resources.memory_limit(groups, here) == 123456


def test_no_quota_of_version_one(tmp_path: Path, groups: Path) -> None:
    write(groups / "cpu" / "cpu.cfs_quota_us", "-1")
    write(groups / "cpu" / "cpu.cfs_period_us", "100000")
    assert resources.core_share(groups, member(tmp_path, "1:cpu:/")) is None


@pytest.mark.parametrize(("share", "threads"), [(None, 6), (0.2, 1), (1.5, 2), (3.4, 3), (100.0, 6)])
def test_threads_follow_affinity_and_share(monkeypatch: pytest.MonkeyPatch, share: float | None, threads: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(6)), raising=False)
    monkeypatch.setattr(resources, "core_share", lambda: share)
    assert resources.default_threads() == threads


def test_available_memory_is_a_part_of_the_machine() -> None:
    assert 0 < resources.available_memory() <= resources.physical_memory()
