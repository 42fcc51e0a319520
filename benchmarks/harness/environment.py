"""What a result was measured on: processor, caches, versions, commit. Enough to judge a figure by, nothing private."""

import datetime
import importlib.metadata
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

PACKAGES = (
    "cordwood", "torch", "numpy", "pillow", "opencv-python-headless", "scikit-image", "scikit-learn", "zipnn",
    "zstandard", "safetensors", "tokenizers", "ffcv", "numba", "litdata", "webdataset",
    "tensordict", "lmdb", "h5py", "simplejpeg", "jpeg4py",
)  # fmt: skip
UNKNOWN = "unknown"
QUIET = 0.25  # load for each core: what a desktop does by itself
PATIENCE_SECONDS = 240.0  # the average is that of a minute: what ended just now is forgotten by then
_LOOK_SECONDS = 5.0


def wait_for_quiet() -> None:
    """Wait while the machine has other work: a recorded run should not share it. It says so, and does not for ever."""
    end = time.monotonic() + PATIENCE_SECONDS
    most = QUIET * (os.cpu_count() or 1)
    told = False
    while load() != UNKNOWN and float(load()) > most:
        if time.monotonic() > end:
            print(f"the load is still {load()}: figures will be those of a busy machine", file=sys.stderr)
            return
        if not told:
            told = True
            print(f"the load is {load()}: waiting until the machine is quiet ...", file=sys.stderr, flush=True)
        time.sleep(_LOOK_SECONDS)


def environment(root: Path) -> dict[str, str]:
    """Facts about the machine and the software as label -> text, in the order in which a reader wants them."""
    facts = {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit(root),
        "processor": processor(),
        "cores given": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "caches": caches(),
        "turbo": turbo(),
        "load before": load(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }
    facts.update((name, found) for name in PACKAGES if (found := version(name)) is not None)
    return facts


def version(package: str) -> str | None:
    """The installed version of a package; None if it is not there, which rows that need it say themselves."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def commit(root: Path) -> str:
    """The commit's hash, marked when tracked files differ from it."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(root), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        name = git("rev-parse", "--short=12", "HEAD")
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "src", "benchmarks/*.py", "pyproject.toml")
    except (OSError, subprocess.CalledProcessError):
        return "not a git checkout"
    return f"{name} with uncommitted changes" if changed else name


def processor() -> str:
    """The processor's name."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def caches() -> str:
    """The data caches of core 0 as Linux tells them, such as `L1 32K, L2 512K, L3 32768K`."""
    found: dict[str, str] = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            if (index / "type").read_text().strip() != "Instruction":
                found["L" + (index / "level").read_text().strip()] = (index / "size").read_text().strip()
        except OSError:
            continue
    return ", ".join(f"{level} {size}" for level, size in found.items()) or "unknown"


def turbo() -> str:
    """Whether one busy core may run faster than two: if so, two threads can never be twice as fast as one."""
    for path, means_on in (("intel_pstate/no_turbo", "0"), ("cpufreq/boost", "1")):
        try:
            return "on" if Path("/sys/devices/system/cpu", path).read_text().strip() == means_on else "off"
        except OSError:
            continue
    return "not told by this system"


def load() -> str:
    """How busy the machine was already: the load average of the last minute."""
    try:
        return f"{os.getloadavg()[0]:.2f}"
    except OSError:
        return UNKNOWN
