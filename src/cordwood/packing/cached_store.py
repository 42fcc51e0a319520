"""``cw.cached``: packs a source when it is needed, and opens the store.

The store's lock covers writing only, and an update replaces the whole folder. So `cached` takes a second lock, in a
file beside the store.
"""

import logging
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from cordwood.codecs import Goal
from cordwood.common.arguments import checks_keywords
from cordwood.errors import UsageError
from cordwood.packing.journal.failure_policy import OnError
from cordwood.packing.journal.inputs import Totals
from cordwood.packing.pack_run import OneRun
from cordwood.packing.report.progress import PackProgress
from cordwood.packing.report.summary import Packed
from cordwood.packing.run import carried_out, one_run, warn_of_failures
from cordwood.sources import MAX_PIXELS, Decode, Frames
from cordwood.store import Dataset, Field
from cordwood.store import open as open_store
from cordwood.store.format.folder import make_folder
from cordwood.store.format.lock import LockedError, WriterLock

_PACKING: Final = "CORDWOOD_PACKING"  # in the environment of what a packing process starts: its id, and the store
_PAUSE: Final = 0.2  # seconds between two looks at whether it is our turn

_LOG = logging.getLogger("cordwood.pack")


@checks_keywords(
    "cw.cached",
    {
        "num_workers": "is called workers here",
        "update": "is what cw.cached does by itself where the source has changed",
        "limit": "is a dry run: call cw.pack",
        "part": "is for stores that are merged later: call cw.pack, then cw.merge",
    },
)
def cached(
    source: Any,
    path: str | os.PathLike[str],
    transform: Any = None,
    *,
    batched: bool = False,
    batch_size: int = 64,
    workers: int | None = None,
    timeout: float | None = None,
    seed: int = 0,
    goal: Goal | None = None,
    fields: Mapping[str, Field] | None = None,
    shard_bytes: int | None = None,
    on_error: OnError = "fail",
    max_errors: int = 100,
    retries: int = 2,
    source_kind: str | None = None,
    decode: Decode = "tensor",
    decode_size: int | None = None,
    frames: Frames = "first",
    max_pixels: int = MAX_PIXELS,
    follow_links: bool = False,
    absolute_paths: bool = False,
    version: str | None = None,
    accept_changed_transform: bool = False,
    progress: bool | Callable[[PackProgress], object] | None = None,
) -> Dataset:
    """The samples of a source, from a store at ``path`` that is packed when this is called first.

    ::

        ds = cw.cached(MyDataset(), "train.cordwood")
        for batch in cw.Loader(ds, batch_size=256, shuffle=True): ...

    Source, transform and options are those of `cw.pack`; the result is what `cw.open` returns. The samples have the
    structure of the source's samples (tuple, dict, named tuple), so a `DataLoader` takes the result in place of the
    dataset.

    * A store that is missing or incomplete is packed, or resumed where a killed process stopped.
    * A complete store of the same job is opened at once.
    * If files of the source were added, removed or changed, or a dataset has become longer, the store is brought up to
      date, as ``cw.pack(..., update=True)`` does.
    * If the transform or an option that changes the samples is another one, or the dataset has other code, arguments or
      data, or the store was not made by `cw.pack`, this raises `UsageError` and leaves the store alone.

    Several processes may call this at the same time, such as the ranks of torchrun: one packs, and the others wait for
    it, and take over if it is killed.

    Random augmentation in the dataset or in ``transform`` is done once, and every epoch then gets the same samples; a
    warning reports it. Augment what is read from the store instead, by ``cw.Loader(augment=...)``, for example.
    """
    run = one_run(
        source,
        path,
        transform,
        batched=batched,
        batch_size=batch_size,
        workers=workers,
        timeout=timeout,
        seed=seed,
        goal=goal,
        fields=fields,
        shard_bytes=shard_bytes,
        on_error=on_error,
        max_errors=max_errors,
        retries=retries,
        source_kind=source_kind,
        decode=decode,
        decode_size=decode_size,
        frames=frames,
        max_pixels=max_pixels,
        follow_links=follow_links,
        absolute_paths=absolute_paths,
        part=None,
        version=version,
        accept_changed_transform=accept_changed_transform,
    )
    warn_of_failures(run, run.finished() or _brought_up_to_date(run, progress))
    if run.random:
        warnings.warn(
            f"samples come out different when they are made again: {path} holds one version of each, the same in every "
            "epoch. If that is random augmentation, leave it out here, and augment what is read from the store",
            stacklevel=3,  # behind the check of keywords
        )
    with warnings.catch_warnings(record=True) as caught:
        found = open_store(path)
    for one in caught:
        warnings.warn(one.message, stacklevel=3)
    return found


def _brought_up_to_date(run: OneRun, progress: bool | Callable[[PackProgress], object] | None) -> Packed | Totals:
    """Pack, resume or update when it is our turn, or wait until another process has done it."""
    _refuse_own_children(run.dest)
    awaited = None
    while True:
        try:
            with _turn(run.dest):
                done = run.finished()
                if done is not None:
                    return done
                with _marked(run.dest):
                    return carried_out(run.run_or_update, progress)
        except LockedError as locked:
            if locked.holder != awaited:
                awaited = locked.holder
                _tell_waiting(run.dest, awaited, shows=progress is None or progress is True)
        time.sleep(_PAUSE)
        if (done := run.finished()) is not None:
            return done


@contextmanager
def _turn(dest: Path) -> Iterator[None]:
    """The block runs in one process at a time; LockedError if another one is in it."""
    name = f".{dest.name}.turn"
    if not dest.parent.exists():
        make_folder(dest)  # raises, with the advice that cw.pack gives
    lock = WriterLock(dest.parent, name)
    try:
        yield
    finally:
        dest.with_name(name).unlink(missing_ok=True)  # while it is locked: who opened it before finds that it is gone
        lock.release()


def _tell_waiting(dest: Path, holder: str, *, shows: bool) -> None:
    told = f"waiting for {holder}, which packs {dest}"
    _LOG.info(told)
    if shows:
        print(f"cordwood: {told}", file=sys.stderr, flush=True)


# ---- processes that are started by the packing itself ----------------------------------------------------------------


@contextmanager
def _marked(dest: Path) -> Iterator[None]:
    """Mark child processes, so that `cached` raises in them instead of waiting for their parent."""
    mark = f"{os.getpid()}:{dest}"
    os.environ[_PACKING] = "\n".join((*_marks(), mark))
    try:
        yield
    finally:
        others = [each for each in _marks() if each != mark]
        if others:
            os.environ[_PACKING] = "\n".join(others)
        else:
            del os.environ[_PACKING]


def _marks() -> list[str]:
    return os.environ.get(_PACKING, "").splitlines()


def _refuse_own_children(dest: Path) -> None:
    for mark in _marks():
        process, _, store = mark.partition(":")
        if store == str(dest) and process != str(os.getpid()):
            raise UsageError(
                f"cw.cached was called for {dest} by a process that process {process} started to pack this very store. "
                "This happens when the call stands in a module, or in a script, that worker processes import anew: "
                'move it into a function, or below `if __name__ == "__main__":`'
            )
