"""Things named by module:name, and what is said where there are none."""

import re
import sys
from pathlib import Path

import pytest

from cordwood.errors import UsageError
from cordwood.sources.importing import is_name, made, named, needed_arguments


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in, which Python does not know yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(Path.cwd()))])
    return tmp_path


class TestNames:
    @pytest.mark.parametrize("text", ["a:b", "a.b:c.d", "mypkg.prep:prepare", "modül:größe"])
    def test_that_are_names(self, text: str) -> None:
        assert is_name(text)

    @pytest.mark.parametrize("text", ["", "a", ":b", "a:", "a.:b", "a:b:c", "photos/", "C:\\photos", "a b:c", "1:2"])
    def test_that_are_none(self, text: str) -> None:
        assert not is_name(text)
        with pytest.raises(UsageError, match="takes module:name"):
            named(text, "transform")


class TestNamed:
    def test_a_module_of_the_current_folder(self, here: Path) -> None:
        (here / "found_here.py").write_text("class Outer:\n    inner = 5\n")
        assert named("found_here:Outer.inner", "transform") == 5
        assert sys.path[0] == str(here)

    def test_a_file_is_named_as_a_module(self) -> None:
        with pytest.raises(UsageError, match=r"a file is named as a module: mypkg\.prep:prepare$"):
            named("./mypkg/prep.py:prepare", "transform")

    def test_a_module_that_is_not_there(self, here: Path) -> None:
        with pytest.raises(UsageError, match=r"Python finds no 'nowhere_at_all' in .*PYTHONPATH"):
            named("nowhere_at_all.deep:thing", "source")

    @pytest.mark.parametrize(
        ("text", "meant"),
        [
            ("pac:prepare", "pack"),
            ("my_pakage.prep:prepare", "my_package"),
            ("my_package.prepp:prepare", "my_package.prep"),
        ],
    )
    def test_a_module_that_is_nearly_right(self, here: Path, text: str, meant: str) -> None:
        (here / "my_package").mkdir()
        for file in ("pack.py", "pack.txt", "my_package/__init__.py", "my_package/prep.py"):
            (here / file).touch()
        with pytest.raises(UsageError, match=rf"PYTHONPATH; did you mean '{re.escape(meant)}'\?$"):
            named(text, "transform")

    def test_a_name_that_is_nearly_right(self, here: Path) -> None:
        (here / "nearly.py").write_text("def prepare(): pass\n")
        with pytest.raises(UsageError, match="nearly has no 'prepar'; did you mean 'prepare'"):
            named("nearly:prepar", "transform")

    @pytest.mark.parametrize(
        ("module", "code", "why"),
        [
            ("fails_inside", "x = 1\nimport not_installed_anywhere\n", "line 2: ModuleNotFoundError"),
            ("fails_at_once", "x = 1\n\nraise RuntimeError('no')\n", "line 3: RuntimeError: no"),
            ("fails_to_parse", "def\n", "line 1: SyntaxError"),
        ],
    )
    def test_a_module_that_fails(self, here: Path, module: str, code: str, why: str) -> None:
        (here / f"{module}.py").write_text(code)
        with pytest.raises(UsageError, match=f"importing it failed in .*{module}.py, {why}"):
            named(f"{module}:x", "transform")


class TestMade:
    def test_functions_and_classes_are_called_and_objects_taken(self, here: Path) -> None:
        (here / "makes.py").write_text(
            "class Data(list):\n    pass\nlisted = [1]\nclass Callable(list):\n    def __call__(self): return 5\n"
            "held = Callable([2])\ndef make(count=3): return list(range(count))\n"
        )
        assert made("makes:Data", "source") == []
        assert made("makes:listed", "source") == [1]
        assert made("makes:held", "source") == [2]
        assert made("makes:make", "source") == [0, 1, 2]

    def test_what_needs_arguments_is_not_called(self) -> None:
        with pytest.raises(UsageError, match=r"needs arguments \(obj\)"):
            made("json:dumps", "source")

    def test_needed_arguments(self) -> None:
        def function(a: int, b: int = 2, *more: int, c: int, **others: int) -> None:
            raise NotImplementedError

        assert needed_arguments(function) == ["a", "c"]
        assert needed_arguments(dict) == []
