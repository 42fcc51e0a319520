"""Patches data loaders to record how batches are made: in this process, in workers, and between them.

    install(patches, folder)        # the loader's functions are patched; workers leave their figures in the folder
    ...                             # the script runs
    patches.undo()
    fetches = collect(folder)       # all processes' figures together, or None

Workers may be forked or spawned: what stands in for torch's worker loop can be pickled, and installs the same watch
there. Seeds, results, exceptions and ``worker_init_fn`` are as without it.
"""

import contextlib
import functools
import inspect
import os
import pickle
import threading
import time
from collections.abc import Callable
from multiprocessing import connection, reduction
from pathlib import Path
from typing import Any

from torch.utils.data._utils import fetch as torch_fetch
from torch.utils.data._utils import worker as torch_worker

from cordwood.doctor.evidence import places
from cordwood.doctor.evidence.fetch_figures import Figures, read
from cordwood.doctor.evidence.fetches import Fetches, merged
from cordwood.doctor.probes.fetch.watch import OVER, FetchWatch
from cordwood.doctor.probes.patches import Patches
from cordwood.errors import DoctorError, FormatError

_MOST_WITH_LOOKS = (
    16  # processes: an epoch's workers are new ones, and looking closer at all of them would go on for ever
)
_MOST_PROCESSES = 256  # that are watched at all
_CLOCK = time.perf_counter_ns
_FIGURES = "fetches-*.json"

_watch: FetchWatch | None = None  # of this process; None: not watched, or no more
_torchs_loop: Callable[..., Any] | None = None  # what stood in the place of ours, in the process that installed it
_installed_by = 0  # the process that did; a forked worker remembers it, a spawned one does not
_just_read = threading.local()  # nanoseconds and length of the last message from a pipe


def install(patches: Patches, folder: Path, disturbed: Callable[[], object] | None = None) -> None:
    """Watch fetches from now on, until the patches are undone.

    ``disturbed`` is called when a fetch in this process was slowed by a profile: the step that waited for it is not a
    fair one. Raises `DoctorError` if this torch has other insides.
    """
    global _watch, _torchs_loop, _installed_by
    loop = getattr(torch_worker, "_worker_loop", None)
    if loop is None or not all(hasattr(cls.__dict__.get("fetch"), "__code__") for cls in _fetchers()):
        raise DoctorError("this torch has a DataLoader of another make: what its workers do cannot be seen")
    _torchs_loop, _installed_by = loop, os.getpid()
    _patch_fetchers(patches)
    patches.replace(torch_worker, "_worker_loop", WatchedLoop(folder, loop))
    _patch_receiving(patches)
    watch = _watch = FetchWatch(folder, _STANDING_IN, disturbed=disturbed)
    patches.also(lambda: _finish(watch, folder))


def _finish(watch: FetchWatch, folder: Path) -> None:
    global _watch
    _watch = None
    if not watch.is_of_this_process():
        return  # a forked child leaves what it inherited: the figures are its parent's
    watch.write()
    watch.is_over = True
    with contextlib.suppress(OSError):
        (folder / OVER).touch()  # workers that live on look for this now and then


def collect(folder: Path, dataset: object | None = None) -> Fetches | None:
    """What all processes have seen of their fetches; None if there was none.

    With a ``dataset``, only its fetches count, as far as they can be told from those of other datasets.
    """
    figures: list[Figures] = []
    damaged = 0
    for path in sorted(folder.glob(_FIGURES))[:_MOST_PROCESSES]:
        try:
            figures.append(read(path))
        except FormatError:
            damaged += 1
    theirs = [each for each in figures if each.dataset == id(dataset)]
    if dataset is not None and any(each.batches for each in theirs):
        figures = theirs + [each for each in figures if each.received and not each.batches]
    return merged(figures, damaged)


# ---- in this process -------------------------------------------------------------------------------------------------


def _fetchers() -> list[type]:
    return [torch_fetch._MapDatasetFetcher, torch_fetch._IterableDatasetFetcher]


def _standing_in(original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    @functools.wraps(original)
    def fetch(self: Any, possibly_batched_index: Any) -> Any:
        watch = _watch
        if watch is None:
            return original(self, possibly_batched_index)
        if watch.to_pass > 0:
            watch.to_pass -= 1
            return original(self, possibly_batched_index)
        return watch.fetch(original, self, possibly_batched_index)

    return fetch


_STANDING_IN = _standing_in(lambda fetcher, index: None).__code__  # one piece of code, whatever it closes over


def _patch_fetchers(patches: Patches) -> None:
    for cls in _fetchers():
        if cls.__dict__["fetch"].__code__ is not _STANDING_IN:  # a forked worker's are patched already
            patches.replace(cls, "fetch", _standing_in(cls.__dict__["fetch"]))


def _patch_receiving(patches: Patches) -> None:
    """Reading a worker's batch from the pipe, and building it again."""
    read_pipe = connection.Connection.recv_bytes

    @functools.wraps(read_pipe)
    def recv_bytes(self: Any, maxlength: int | None = None) -> bytes:
        if _watch is None:
            return read_pipe(self, maxlength)
        begun = _CLOCK()
        message = read_pipe(self, maxlength)
        _just_read.message = _CLOCK() - begun, len(message)
        return message

    @functools.wraps(pickle.loads)
    def loads(data: Any, /, **options: Any) -> Any:
        watch = _watch
        if watch is None or watch.is_worker or not watch.watches_here():
            return pickle.loads(data, **options)  # noqa: S301 - what multiprocessing itself calls here
        reading, length = getattr(_just_read, "message", (0, -1))
        begun = _CLOCK()
        message = pickle.loads(data, **options)  # noqa: S301
        if _is_batch(message):
            # The loader polls before it reads, so reading is copying, not waiting.
            watch.received(_CLOCK() - begun + (reading if length == len(data) else 0))
        return message

    patches.replace(connection.Connection, "recv_bytes", recv_bytes)
    patches.replace(reduction.ForkingPickler, "loads", staticmethod(loads))


def _is_batch(message: Any) -> bool:
    """Whether a message between processes is a numbered batch, as workers send them."""
    return type(message) is tuple and len(message) == 2 and type(message[0]) is int


# ---- in workers ------------------------------------------------------------------------------------------------------


class WatchedLoop:
    """Stands in for torch's worker loop; goes through pickle where workers are spawned."""

    def __init__(self, folder: Path, loop: Callable[..., Any]) -> None:
        self._folder = str(folder)
        self._process = os.getpid()
        self._own_folders = tuple(places.own_folders)
        # Somebody else's loop goes along; torch's own could not be pickled while ours stands in its place.
        self._loop = None if getattr(loop, "__module__", "") == torch_worker.__name__ else loop

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        loop = self._loop or _torchs_own_loop()
        watch: FetchWatch | None = None
        with contextlib.suppress(Exception):  # a worker that cannot be watched works all the same
            watch = self._watch(inspect.signature(loop).bind(*arguments, **options).arguments)
        try:
            return loop(*arguments, **options)
        finally:
            if watch is not None:
                with contextlib.suppress(Exception):
                    watch.write()

    def _watch(self, told: dict[str, Any]) -> FetchWatch | None:
        global _watch
        _watch = None  # a forked worker has its parent's
        folder = Path(self._folder)
        before = sum(1 for _ in folder.glob(_FIGURES)) if folder.is_dir() else _MOST_PROCESSES
        if before >= _MOST_PROCESSES or (folder / OVER).exists():
            return None
        for own_folder in set(self._own_folders).difference(places.own_folders):
            places.count_as_own(own_folder)
        _patch_fetchers(Patches())  # the process ends with its loop: nothing is put back
        _watch = FetchWatch(
            folder,
            _STANDING_IN,
            worker=int(told.get("worker_id", 0)),
            workers=int(told.get("num_workers", 0)),
            knows_datasets=_installed_by == self._process,
            looks=before < _MOST_WITH_LOOKS,
        )
        _watch_sending(_watch)
        return _watch


def _torchs_own_loop() -> Callable[..., Any]:
    loop = torch_worker._worker_loop
    return _torchs_loop if isinstance(loop, WatchedLoop) and _torchs_loop is not None else loop


def _watch_sending(watch: FetchWatch) -> None:
    make_bytes = reduction.ForkingPickler.dumps

    def dumps(cls: type, obj: Any, protocol: int | None = None) -> Any:
        begun = _CLOCK()
        message = make_bytes(obj, protocol)
        if _is_batch(obj) and not watch.is_over:
            watch.sent(_CLOCK() - begun, len(message))
        return message

    Patches().replace(reduction.ForkingPickler, "dumps", classmethod(dumps))
