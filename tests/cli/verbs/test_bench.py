"""``cordwood bench`` finds the suite of a checkout, hands the options on, and refuses elsewhere."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SUITES = ("codecs", "tensors", "scaling", "check")
# Tells, through a neighbour, what it was given.
SUITE = """
from benchmarks.neighbour import tell

def main(argv):
    tell(argv)
    return 1
"""
NEIGHBOUR = """
import json

def tell(words):
    print(json.dumps(words))
"""


def make_checkout(root: Path, *, name: str = "cordwood", suite: str = SUITE) -> Path:
    for word in SUITES:
        (root / "benchmarks" / word).mkdir(parents=True)
        (root / "benchmarks" / word / "__main__.py").write_text(suite)
    (root / "benchmarks" / "__init__.py").touch()  # before any other package of this name that is on the path
    (root / "benchmarks" / "neighbour.py").write_text(NEIGHBOUR)
    (root / "pyproject.toml").write_text(f'[project]\nname = "{name}"\n')
    return root


def bench(folder: Path, *words: str, suite: str = "codecs") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cordwood", "bench", suite, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize(
    "words", [[], ["--quick"], ["--only", "weights", "--only", "photos"], ["--json", "a b.json", "--quick"], ["--help"]]
)
def test_the_suite_gets_the_options_and_gives_the_exit_code(tmp_path: Path, words: list[str]) -> None:
    inside = make_checkout(tmp_path / "checkout") / "docs" / "deep"
    inside.mkdir(parents=True)
    done = bench(inside, *words)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout) == words


@pytest.mark.parametrize("suite", SUITES)
def test_each_suite_is_the_folder_of_its_name(tmp_path: Path, suite: str) -> None:
    root = make_checkout(tmp_path / "checkout")
    (root / "benchmarks" / suite / "__main__.py").write_text(
        "def main(argv):\n    print(__name__, argv)\n    return 0\n"
    )
    done = bench(root, "--quick", suite=suite)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"benchmarks.{suite}.__main__ ['--quick']\n"


def test_a_suite_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    done = bench(make_checkout(tmp_path / "checkout"), suite="neighbour")
    assert done.returncode == 2
    assert all(word in done.stderr for word in SUITES)


@pytest.mark.parametrize("suite", SUITES)
def test_outside_a_checkout_the_next_step_is_named(tmp_path: Path, suite: str) -> None:
    done = bench(tmp_path, suite=suite)
    assert done.returncode == 2
    assert done.stderr.startswith(f"cordwood: benchmarks/{suite} was not found in ")
    assert "run this inside a checkout" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["somebody-elses", 'broken"'])
def test_another_projects_benchmarks_are_not_run(tmp_path: Path, name: str) -> None:
    done = bench(make_checkout(tmp_path / "other", name=name))
    assert done.returncode == 2
    assert done.stdout == ""


def test_a_missing_rival_is_named_with_the_command(tmp_path: Path) -> None:
    done = bench(make_checkout(tmp_path / "checkout", suite="import a_rival_that_is_not_there\n"))
    assert done.returncode == 2
    assert "'a_rival_that_is_not_there'" in done.stderr
    assert "[bench]" in done.stderr
