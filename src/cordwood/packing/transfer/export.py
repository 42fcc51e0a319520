"""``cw.export``: writes the samples of a store as separate files, for programs that cannot read stores."""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, get_args

from cordwood.codecs import Goal
from cordwood.common.arguments import one_of
from cordwood.common.html import Printed
from cordwood.common.tables import folded
from cordwood.errors import FormatError, StorageError, UsageError
from cordwood.packing.transfer.export_names import FileNames
from cordwood.store import Dataset
from cordwood.store import open as open_store
from cordwood.store.writing.options import checked_threads
from cordwood.tensors import load, save

Format = Literal["pt", "cord"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
Progress = Callable[[int, int], None]  # samples that are done, and all
_AT_ONCE = 64  # samples that are read together
_MOST_BYTES_AT_ONCE = 64 << 20


@dataclass(repr=False)
class Exported(Printed):
    """What was written.

    ::

        result = cw.export("train.cordwood", "out/", to="pt")
        print(result.files, result.bytes, result.seconds)
    """

    path: str
    out: str
    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        files = f"{self.files:,} {'file' if self.files == 1 else 'files'}"
        return folded([f"{self.out}: {files}, {self.bytes:,} bytes, in {self.seconds:.1f} s", *self.notes])

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return dict(vars(self))


def export(
    store: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    to: Format = "pt",
    *,
    overwrite: bool = False,
    compress: bool | None = None,
    goal: Goal = "balanced",
    types: Iterable[type] = (),
    threads: int | None = None,
    progress: Progress | None = None,
) -> Exported:
    """Write every sample of a store to a file of its own, as `cw.save` does.

    ::

        cw.export("train.cordwood", "out/", to="pt")
        torch.load("out/cats/1.pt")                 # what cw.open("train.cordwood") gives for cats/1.jpg

    A packed store knows the paths of its inputs, and the files mirror them: ``cats/1.jpg`` becomes ``cats/1.pt``, or
    ``cats/1-0.pt`` and so on if it became several samples; if there is a ``cats/1.png``, too, both keep their suffix
    (``cats/1.jpg.pt``). Samples of other stores are named by their number, ``00000012.pt``.

    `to` is "pt" or "cord"; `compress` is for the first, `goal` for the second, as in `cw.save`; `types` as in
    `cw.open`. A folder that holds something is refused, unless `overwrite`. Every file appears whole or not at all.
    """
    one_of("to", to, FORMATS)
    began = time.monotonic()
    threads = checked_threads(threads)
    dataset = open_store(store, types=types, threads=threads)
    target = Path(folder)
    result = Exported(str(store), str(target))
    _prepare(target, Path(store), overwrite)
    counts = dataset.reader.shards.records[0]["count"].tolist()
    names = FileNames(Path(store), counts, f".{to}", folded=_folds(target))

    def write(sample: Any, path: str) -> int:
        if to == "pt":
            save(sample, path, format=to, compress=compress)
        else:
            save(sample, path, format=to, compress=compress, goal=goal)
        return os.stat(path).st_size  # noqa: PTH116 - for millions of files, paths as objects would count

    _write_all(dataset, names, target, write, threads, result, progress)
    if names.longer:
        result.notes.append(f"{names.longer:,} inputs differ in their suffix alone, so that their files keep it")
    if result.files:
        _note_loading(target / next(iter(names)), result)
    result.seconds = time.monotonic() - began
    return result


def _prepare(target: Path, store: Path, overwrite: bool) -> None:
    """Make the folder, or see that it may be written to."""
    if store.resolve() in (target.resolve(), *target.resolve().parents):
        raise UsageError(f"{target} is in the store itself: name another folder")
    if target.exists() and not target.is_dir():
        raise UsageError(f"{target} is a file: name a folder")
    try:
        target.mkdir(parents=True, exist_ok=True)
        found = next(target.iterdir(), None)
    except OSError as error:
        raise StorageError(error.errno, f"{error.strerror or error}: nothing was written", str(target)) from error
    if found is not None and not overwrite:
        raise UsageError(
            f"{target} holds other things ({found.name}): name an empty folder, or replace files of the same names "
            "with overwrite=True (--overwrite)"
        )


def _folds(folder: Path) -> bool:
    """Whether the file system takes upper and lower case for the same."""
    try:
        probe = folder / f".cordwood-{os.getpid()}-case.part"
        probe.touch()
        try:
            return probe.with_name(probe.name.upper()).exists()
        finally:
            probe.unlink()
    except OSError as error:
        raise StorageError(error.errno, f"{error.strerror or error}: nothing was written", str(folder)) from error


def _write_all(
    dataset: Dataset,
    names: FileNames,
    target: Path,
    write: Callable[[Any, str], int],
    threads: int,
    result: Exported,
    progress: Progress | None,
) -> None:
    made: set[str] = set()
    under_way: deque[Future[int]] = deque()
    paths = iter(names)
    base = os.fspath(target)
    start, at_once = 0, 1

    def finish() -> None:
        result.bytes += under_way.popleft().result()
        result.files += 1

    with ThreadPoolExecutor(threads, "cordwood-export") as pool:
        try:
            while start < len(dataset):
                samples = dataset.__getitems__(range(start, min(start + at_once, len(dataset))))
                for sample, name in zip(samples, islice(paths, len(samples)), strict=True):
                    path = os.path.join(base, name)  # noqa: PTH118 - for millions of files
                    _make_folder(os.path.dirname(path), made)  # noqa: PTH120
                    under_way.append(pool.submit(write, sample, path))
                    if len(under_way) > 4 * threads:
                        finish()
                start += len(samples)
                if progress is not None:
                    progress(result.files, len(dataset))
                while not result.files:
                    finish()
                # Samples may be large: as many are read together as take some megabytes.
                each = max(result.bytes // result.files, 1)
                at_once = max(min(_AT_ONCE, _MOST_BYTES_AT_ONCE // each), 1)
            while under_way:
                finish()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    if progress is not None:
        progress(result.files, len(dataset))


def _make_folder(folder: str, made: set[str]) -> None:
    if folder in made:
        return
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(error.errno, f"{error.strerror or error}: the folder cannot be made", folder) from error
    made.add(folder)


def _note_loading(path: Path, result: Exported) -> None:
    """Say so if what was written is not loaded without more ado."""
    try:
        load(path, weights_only=True)
    except FormatError as error:
        result.notes.append(f"the files are not loaded as they are: {error}")
