"""What the benchmark of tensor files saves, how it compares what comes back, and what it does to files."""

import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data.weights import SOURCES, float_tensors
from benchmarks.harness.outcome import Settings
from benchmarks.harness.packages import need
from benchmarks.harness.timing import MismatchError, UnavailableError

State = dict[str, Any]


@contextmanager
def scratch(settings: Settings) -> Iterator[Path]:
    """A folder for the files of one part. It is not the system's folder for such things, which may be in memory."""
    settings.cache.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=settings.cache.folder) as folder:
        yield Path(folder)


def real_weights(settings: Settings) -> tuple[State, list[str]]:
    """Named float32 tensors of all checkpoints that can be had, and a line for each that cannot."""
    state: State = {}
    missing: list[str] = []
    for name, requirement, member in SOURCES:
        try:
            tensors = float_tensors(settings.cache.read(requirement, member), member)
        except UnavailableError as error:
            missing.append(f"{name}: {error}")
            continue
        left = settings.weights_limit
        for number, tensor in enumerate(tensors):
            if left is not None and (left := left - tensor.numel()) < 0:
                break
            state[f"{name}.{number}"] = tensor.clone()
    if not state:
        raise UnavailableError("; ".join(missing))
    return state, missing


def repeated(state: Mapping[str, Any], nbytes: int) -> State:
    """Copies of the tensors, each in memory of its own, until there are so many bytes of them."""
    result: State = {}
    total = 0
    while total < nbytes:
        before = total
        for name, tensor in state.items():
            if total + tensor.nbytes <= nbytes:
                result[f"copy{len(result) // len(state)}.{name}.{len(result)}"] = tensor.clone()
                total += tensor.nbytes
        if total == before:
            break
    return result


def nbytes(state: Mapping[str, Any]) -> int:
    """Bytes of all tensors."""
    return sum(tensor.nbytes for tensor in state.values())


def raw(tensor: Any) -> np.ndarray:
    """A contiguous tensor's memory as bytes, in place."""
    view: np.ndarray = tensor.detach().reshape(-1).view(need("torch").uint8).numpy()
    return view


def require_same(found: Any, expected: Any, what: str) -> None:
    """Equal names, dtypes, shapes and bits, or the run ends."""
    if isinstance(expected, Mapping):
        if sorted(found) != sorted(expected):
            raise MismatchError(f"{what}: other names than were saved")
        for name in expected:
            require_same(found[name], expected[name], f"{what}, {name}")
    elif found.dtype != expected.dtype or found.shape != expected.shape:
        raise MismatchError(f"{what}: {found.dtype} {tuple(found.shape)}, saved was {expected.dtype}")
    elif not np.array_equal(raw(found.contiguous()), raw(expected.contiguous())):
        raise MismatchError(f"{what}: not what was saved, bit for bit")


def touched(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state, after every byte of it was looked at."""
    for tensor in state.values():
        data = raw(tensor)
        np.bitwise_xor.reduce(data.view(np.uint32) if data.nbytes % 4 == 0 else data)
    return state


def emptied(folder: Path) -> None:
    """An empty folder of this name, and a disk with nothing left to write."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    os.sync()


def forgotten(files: Iterable[Path]) -> None:
    """Drop the files from the page cache. Only what is on the disk already can be dropped."""
    if not hasattr(os, "posix_fadvise"):
        raise UnavailableError("this system cannot drop a file from its page cache")
    for file in files:
        handle = os.open(file, os.O_RDONLY)
        try:
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def read_from_disk() -> int:
    """Bytes that this process and its living worker processes made the disk deliver so far."""
    processes = ["self", *(str(child.pid) for child in multiprocessing.active_children())]
    try:
        lines = [line for process in processes for line in Path(f"/proc/{process}/io").read_text().splitlines()]
    except OSError as error:
        raise UnavailableError(f"this system does not tell what a process reads ({error})") from error
    return sum(int(line.partition(":")[2]) for line in lines if line.startswith("read_bytes:"))
