"""Another version of the package, built from a git revision into a folder of its own.

source = built("v1.2.0", folder)
source / "cordwood"                     # the package: `source` is for PYTHONPATH
"""

import subprocess
import sys
import tarfile
from pathlib import Path

from benchmarks.harness.suite import ROOT
from benchmarks.harness.timing import UnavailableError


def built(revision: str, folder: Path) -> Path:
    """The folder that the package lies in, with its native code compiled by the tools that pip fetches for it."""
    archive = folder / "revision.tar"
    run(["git", "-C", str(ROOT), "archive", "--output", str(archive), revision], ROOT)
    place = folder / "revision"
    with tarfile.open(archive) as file:
        file.extractall(place, filter="data")
    installed = folder / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    run([*pip, "--target", str(installed), str(place)], folder)
    return installed


def run(command: list[str], folder: Path) -> None:
    """Run a command to its end; if it fails, what it said last is the reason."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UnavailableError(f"{' '.join(command[:3])} failed: {last}")
