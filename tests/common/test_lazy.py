"""Names of packages that load when they are first used."""

import sys
from pathlib import Path

import pytest

from cordwood.common.lazy import lazy_names


def test_a_name_loads_its_module_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "lazily"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from cordwood.common.lazy import lazy_names\n"
        "__getattr__ = lazy_names(__name__, {'value': 'inner', 'inner': 'inner'})\n"
    )
    (package / "inner.py").write_text("value = object()\n")
    monkeypatch.syspath_prepend(tmp_path)
    import lazily  # type: ignore[import-not-found]

    assert "lazily.inner" not in sys.modules
    value = lazily.value
    assert vars(lazily)["value"] is value is lazily.inner.value
    for name in ("lazily", "lazily.inner"):
        del sys.modules[name]


def test_a_wrong_name_is_an_attribute_error_with_the_nearest_name() -> None:
    with pytest.raises(AttributeError, match=r"module 'pack' has no attribute 'laod'; did you mean 'load'\?"):
        lazy_names("pack", {"load": "loading"})("laod")
