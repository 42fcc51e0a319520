"""How much memory a save or a trim takes beyond the object itself: measured in a process that does nothing else.

    growth = watch(Job("save", str(folder), nbytes=200_000_000, shape="one", suffix=".cord"))
    growth.peak, growth.own

The process makes its object, does the same job once with a small one, resets its peak, says so, and waits for a line;
then it does the job. `peak` is the kernel's own count and misses nothing, but has the pages of mapped files in it,
which the kernel may take back whenever it likes. `own` is without them, looked at a thousand times a second from
outside.
"""

import gc
import json
import select
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.data.tensors import forgotten, read_from_disk
from benchmarks.harness.packages import need
from benchmarks.harness.timing import MismatchError, UnavailableError

ROOT = Path(__file__).resolve().parent.parent.parent
SMALL = 1 << 20
PARTS = 8
LOOK_EVERY = 0.001  # seconds


@dataclass(frozen=True)
class Job:
    """What the process does: `save` (by cw.save), `pickle` (by torch.save with our pickle module) or `trim`."""

    action: str
    folder: str
    nbytes: int = 0  # that the object reaches
    shape: str = "one"
    suffix: str = ".pt"
    options: dict[str, Any] = field(default_factory=dict)
    source: str = ""  # for a trim

    @property
    def largest(self) -> int:
        """Bytes of the object's largest storage."""
        return {"eight": self.nbytes // PARTS, "strided": 2 * self.nbytes}.get(self.shape, self.nbytes)


@dataclass(frozen=True)
class Growth:
    """Bytes held at most beyond those before, with and without mapped files, and bytes read from the disk."""

    peak: int
    own: int
    read: int


def watch(job: Job) -> Growth:
    """Run the job in a process of its own."""
    if not Path("/proc/self/clear_refs").exists():
        raise UnavailableError("this system cannot reset a process's peak of memory")
    command = [sys.executable, "-m", "benchmarks.tensors.memory", json.dumps(asdict(job))]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline() == "ready\n":
            before = most = own_memory(process.pid)
            process.stdin.write("go\n")
            process.stdin.flush()
            while not select.select([process.stdout], [], [], LOOK_EVERY)[0]:
                most = max(most, own_memory(process.pid))
            answer = process.stdout.readline()
            if answer:
                return Growth(**json.loads(answer), own=most - before)
    raise MismatchError(f"the process that was to {job.action} ended with {process.returncode}")


def own_memory(process: int) -> int:
    """Bytes of memory that no file stands behind."""
    return status("RssAnon", f"/proc/{process}/status")


def status(what: str, file: str = "/proc/self/status") -> int:
    """One of the kernel's figures of a process, in bytes."""
    line = next(line for line in Path(file).read_text().splitlines() if line.startswith(f"{what}:"))
    return int(line.split()[1]) * 1024


def make(shape: str, nbytes: int) -> Any:
    """An object that reaches so many bytes: one storage or eight, or views of larger ones."""
    torch = need("torch")
    torch.manual_seed(0)
    count = nbytes // 4
    match shape:
        case "one":
            return {"weight": torch.randn(count)}
        case "eight":
            return {f"weight{i}": torch.randn(count // PARTS) for i in range(PARTS)}
        case "strided":
            return {"weight": torch.randn(count // 256, 512)[:, ::2]}
        case "crossing":  # each reaches bytes between the other's: nothing can be closed up
            numbers = torch.randn(count)
            return {"twos": numbers[::2], "threes": numbers[::3]}
    raise ValueError(f"no object has the shape {shape!r}")


def prepared(job: Job) -> tuple[Callable[[], object], Callable[[], object]]:
    """The job with a small object, and with its own."""
    import cordwood as cw

    torch = need("torch")
    folder = Path(job.folder)

    def work(obj: Any, source: str, name: str) -> Callable[[], object]:
        target = folder / f"{name}{job.suffix}"
        match job.action:
            case "save":
                return lambda: finished(cw.save(obj, target, **job.options))
            case "pickle":
                return lambda: torch.save(obj, target, pickle_module=cw.pickle_module)
            case "trim":
                return lambda: cw.trim(source, target, **job.options)
        raise ValueError(f"no job is called {job.action!r}")

    small = make(job.shape, SMALL)
    little = str(folder / "little.pt")
    if job.action == "trim":
        torch.save(small, little)
        return work(None, little, "small"), work(None, job.source, "large")
    return work(small, "", "small"), work(make(job.shape, job.nbytes), "", "large")


def finished(saving: Any) -> None:
    """Wait for a save that goes on in the background."""
    if saving is not None:
        saving.result()


def main(argument: str) -> None:
    """The process's side."""
    job = Job(**json.loads(argument))
    warm_up, work = prepared(job)
    warm_up()
    gc.collect()
    if job.source:
        forgotten([Path(job.source)])
    Path("/proc/self/clear_refs").write_text("5")  # the peak is from now on
    print("ready", flush=True)
    sys.stdin.readline()
    before, read = status("VmRSS"), read_from_disk()
    work()
    print(json.dumps({"peak": status("VmHWM") - before, "read": read_from_disk() - read}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
