"""Kinds from other packages: a real one, installed with pip, and what goes wrong with others."""

import json
import os
import shutil
import subprocess
import sys
import wave
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cordwood as cw
from cordwood.errors import UsageError
from cordwood.sources import find
from cordwood.sources.registry import Kinds

PLUGIN = Path(__file__).parent / "plugins" / "cordwood_wav"


def record(path: Path, channels: int, frames: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(np.arange(channels * frames, dtype="<i2").tobytes())


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plug-in, installed into a folder of its own; building it leaves nothing in the tree."""
    work = tmp_path_factory.mktemp("plugin")
    shutil.copytree(PLUGIN, work / "package", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index"]
    options = ["--no-deps", "--no-build-isolation", "--target", str(work / "site"), str(work / "package")]
    subprocess.run([*command, *options], check=True, capture_output=True, timeout=300)
    return work / "site"


def run(installed: Path, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
class TestInstalled:
    @pytest.fixture
    def recordings(self, tmp_path: Path) -> Path:
        record(tmp_path / "recordings" / "b" / "2.wav", 2, 3)
        record(tmp_path / "recordings" / "a.wav", 1, 4)
        return tmp_path

    def test_recognises_its_folders(self, installed: Path, recordings: Path) -> None:
        code = (
            "import json; from cordwood.sources import find; source = find('recordings'); read = source.reader()\n"
            "samples = [read(given.handle) for given in source.inputs()]\n"
            "print(json.dumps([source.kind, source.count, [s['path'] for s in samples], samples[1]['audio'].tolist()]))"
        )
        done = run(installed, recordings, "-c", code)
        assert done.stderr == ""
        assert json.loads(done.stdout) == ["wav", 2, ["a.wav", "b/2.wav"], [[0, 2, 4], [1, 3, 5]]]

    @pytest.mark.parametrize("kind", [[], ["--from", "wav"]])
    def test_packs_from_the_command_line(self, installed: Path, recordings: Path, kind: list[str]) -> None:
        command = ["-m", "cordwood", "pack", "recordings", "out.cordwood", "--workers", "1", *kind]
        done = run(installed, recordings, *command)
        assert done.returncode == 0, done.stderr
        packed = cw.open(recordings / "out.cordwood")
        assert len(packed) == 2
        assert packed[1]["audio"].tolist() == [[0, 2, 4], [1, 3, 5]]
        assert packed[1]["rate"] == 8000

    def test_leaves_other_kinds_alone(self, installed: Path, tmp_path: Path) -> None:
        (tmp_path / "list.csv").write_text("path\n1.png\n")
        done = run(installed, tmp_path, "-c", "from cordwood.sources import find; print(find('list.csv').kind)")
        assert done.stdout == "manifest\n"


class TestOthers:
    @pytest.fixture
    def plug_in(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
        """Make a module a plug-in for the duration of a test."""

        def make(module: str, code: str, attribute: str = "Kind", kind: str = "other") -> None:
            (tmp_path / f"{module}.py").write_text(code)
            monkeypatch.syspath_prepend(tmp_path)
            point = EntryPoint(kind, f"{module}:{attribute}", "cordwood.sources")
            monkeypatch.setattr("cordwood.sources.registry.entry_points", lambda group: [point])

        return make

    SOURCE = (
        "from cordwood.sources import Source\n"
        "class Kind(Source):\n"
        "    kind = 'other'\n"
        "    def inputs(self, start=0): return iter(())\n"
        "    def reader(self): return str\n"
        "    @classmethod\n"
        "    def recognises(cls, path): {}\n"
        "    @classmethod\n"
        "    def open(cls, path, options): return cls()\n"
    )

    def test_asked_like_the_built_in_ones(self, plug_in: Any, tmp_path: Path) -> None:
        plug_in("plug_yes", self.SOURCE.format("return True"))
        assert find(tmp_path).kind == "other"
        assert Kinds().names[-1] == "other"

    def test_two_that_recognise_a_path(self, plug_in: Any, tmp_path: Path) -> None:
        plug_in("plug_two", self.SOURCE.format("return True"))
        (tmp_path / "list.csv").write_text("path\n1.png\n")
        with pytest.raises(UsageError, match="may be manifest or other: say which"):
            find(tmp_path / "list.csv")
        assert find(tmp_path / "list.csv", "other").kind == "other"

    @pytest.mark.parametrize(
        ("module", "code", "why"),
        [
            ("plug_import", "import not_installed_here", "No module named 'not_installed_here'"),
            ("plug_fails", "raise RuntimeError('no library')", "RuntimeError: no library"),
            ("plug_missing", "", "has no attribute 'Kind'"),
            ("plug_class", "class Kind: pass", "is no class derived from cordwood.sources.Source"),
            ("plug_raises", SOURCE.format("raise RuntimeError('oops')"), "RuntimeError: oops"),
        ],
    )
    def test_broken_ones_are_told_of_and_disturb_nobody(
        self, plug_in: Any, tmp_path: Path, module: str, code: str, why: str
    ) -> None:
        plug_in(module, code)
        with pytest.raises(UsageError, match=f"the plug-in other does not work: .*{why}"):
            find(tmp_path)
        (tmp_path / "list.csv").write_text("path\n1.png\n")
        assert find(tmp_path / "list.csv").kind == "manifest"

    def test_a_broken_one_that_is_asked_for(self, plug_in: Any, tmp_path: Path) -> None:
        plug_in("plug_asked", "import not_installed_here")
        with pytest.raises(UsageError, match="plug_asked:Kind: ModuleNotFoundError"):
            find(tmp_path, "other")

    def test_no_plug_in_takes_the_name_of_a_built_in_kind(self, plug_in: Any, tmp_path: Path) -> None:
        plug_in("plug_name", self.SOURCE.format("return True"), kind="images")
        with pytest.raises(UsageError, match="is of no kind"):
            find(tmp_path)

    def test_a_source_that_no_path_opens(self, plug_in: Any, tmp_path: Path) -> None:
        plug_in("plug_object", "\n".join(self.SOURCE.format("return True").splitlines()[:-2]))
        with pytest.raises(UsageError, match="kind 'other' is not opened by a path"):
            find(tmp_path)
