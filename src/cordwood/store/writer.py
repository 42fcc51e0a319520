"""``cw.Writer``: samples in, a store out."""

import atexit
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch

from cordwood.codecs import Goal
from cordwood.common.arguments import checks_keywords
from cordwood.errors import UsageError
from cordwood.store.format.folder import Mode, open_folder
from cordwood.store.schema.field import Field
from cordwood.store.writing.appender import Appender, Closed
from cordwood.store.writing.batch_rows import refuse_collated
from cordwood.store.writing.options import check_same, checked_options, checked_threads

_COLLATED = (dict, tuple, torch.Tensor, np.ndarray)
_RESUME = "go on with cw.Writer(..., mode='resume')"


class Writer:
    """Packs samples into a store.

    ::

        with cw.Writer("train.cordwood", goal="balanced") as w:
            w.append({"image": tensor, "label": 3, "meta": {"path": "a.jpg"}})
            w.extend({"image": images, "label": labels})      # a batch: each row is stored by itself

    A sample is any nesting of dicts, lists, tuples and named tuples of tensors, NumPy arrays, numbers, bools, strings,
    bytes and None. The first samples (256, or 16 MiB) tell the schema, and the plan of each field is chosen on them.

    ``mode``: "create" refuses an existing store; "append" adds to one; "resume" goes on where a writer was stopped, or
    begins. ``w.committed`` tells how many samples are on the disk for good: after "resume" go on with that one.

    ``goal`` is small, balanced (the default), fast or raw; ``fields`` says what is special about single fields
    (`cw.Field`); a shard ends when it has ``shard_bytes`` (64 MiB); ``threads`` encode (all cores of this process). The
    same samples and options give the same bytes, whatever the number of threads, and however they were handed over.

    A shard appears in the store when it is finished and synced, so whatever happens, what was finished stays and can
    be read. If the block is left by an exception, the samples behind the last finished shard are dropped; ``close``,
    or the end of the block, finishes the last shard, however small.
    """

    @checks_keywords("cw.Writer")
    def __init__(
        self,
        path: str | os.PathLike[str],
        goal: Goal | None = None,
        *,
        mode: Mode = "create",
        fields: Mapping[str, Field] | None = None,
        shard_bytes: int | None = None,
        threads: int | None = None,
    ) -> None:
        self._process = os.getpid()
        options = checked_options(goal, shard_bytes, fields)
        threads = checked_threads(threads)
        self.path = Path(path).absolute()  # a program may go to another folder meanwhile
        self._turn = threading.RLock()  # one thread at a time; extend may take a generator that appends
        folder = open_folder(self.path, mode)
        try:
            if folder.manifest is not None and folder.shards:
                check_same(options, folder.manifest, self.path)
            self._appender = Appender(folder, options, threads, resumes=folder.shards > 0, adapts=True, advice=_RESUME)
        except BaseException:
            folder.lock.release()
            raise
        _open_writers.add(self)

    @property
    def committed(self) -> int:
        """Samples that are on the disk permanently: neither a crash nor an exception takes them away."""
        return self._appender.committed

    def __len__(self) -> int:
        """Samples committed and samples on their way."""
        return len(self._appender)

    def append(self, sample: Any) -> None:
        """Add one sample; the caller may change its tensors as soon as this returns.

        ::

            w.append({"image": tensor, "label": 3})

        A sample that does not fit the others is refused with an error that names the field, and the writer goes on as
        if it had not come.
        """
        self._check_process()  # first: in a forked process nobody may ever end the turn
        with self._turn:
            self._check_usable()
            self._appender.append(sample)

    def extend(self, batch: Any) -> None:
        """Add many samples.

        ::

            w.extend([sample, sample, sample])                        # a list, or any other iterable: samples
            w.extend({"image": images, "label": labels})              # a dict or tuple: a batch, cut into its rows
            w.extend(images)                                          # a tensor: its rows

        Rows of a batch are what indexing gives: the row of a tensor of numbers is a tensor of no dimension. A row that
        is refused is named in the error, and none of the batch is taken; of an iterable that is no list, the samples
        in front of it are.
        """
        self._check_process()
        with self._turn:
            self._check_usable()
            if isinstance(batch, _COLLATED):
                self._appender.extend_batch(batch)
            elif isinstance(batch, list):
                refuse_collated(batch)
                self._appender.extend(batch)
            else:
                self._take_each(batch)

    def _take_each(self, samples: Iterable[Any]) -> None:
        if isinstance(samples, str | bytes) or not (hasattr(samples, "__iter__") or hasattr(samples, "__getitem__")):
            raise UsageError(f"extend takes a batch or an iterable of samples, not a {type(samples).__name__}")
        for number, sample in enumerate(samples):
            try:
                self._appender.append(sample)
            except UsageError as error:
                raise UsageError(f"sample {number} ({number} before it were taken): {error}") from None

    def close(self) -> None:
        """Finish the last shard and let others write; what went wrong on the way is raised here, if not before.

        ::

            w = cw.Writer("train.cordwood")
            try:
                for sample in samples:
                    w.append(sample)
            finally:
                w.close()
        """
        self._check_process()
        with self._turn:
            if self._closed is None:
                self._appender.finish()
                self._appender.stop("it was closed")

    @property
    def _closed(self) -> str | None:
        """Why no more samples are taken."""
        state = self._appender.state
        return state.why if isinstance(state, Closed) else None

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise UsageError(
                f"the writer of {self.path} belongs to process {self._process}, and this one was forked from it: write "
                "there, or open a store of its own here"
            )

    def _check_usable(self) -> None:
        if isinstance(self._appender.state, Closed):
            raise UsageError(
                f"nothing more can be written to {self.path}: {self._closed}. {self.committed} samples are in the "
                f"store; {_RESUME}"
            )

    def __enter__(self) -> "Writer":
        self._check_process()
        self._check_usable()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._process != os.getpid():
            return  # the parent has the samples, and closes for both
        if kind is None:
            self.close()
            return
        with self._turn:
            if self._closed is None:
                self._appender.stop(f"{kind.__name__} was raised while it was open")

    def __del__(self) -> None:
        if not hasattr(self, "_appender") or self._closed is not None or self._process != os.getpid():
            return
        if not sys.is_finalizing():
            self._tell_lost()
            self._appender.stop("nobody closed it")

    def _tell_lost(self) -> None:
        if self._closed is None and self._process == os.getpid() and len(self) > self.committed:
            warnings.warn(
                f"{self!r} was not closed, and {len(self) - self.committed} samples are lost: use it in a with block",
                RuntimeWarning,
                stacklevel=2,
            )

    def __repr__(self) -> str:
        state = f", {self._closed}" if self._closed is not None else ""
        return f"<cw.Writer {str(self.path)!r}: {self.committed} samples committed of {len(self)}{state}>"


_open_writers: "weakref.WeakSet[Writer]" = weakref.WeakSet()


@atexit.register
def _tell_of_open_writers() -> None:
    for writer in list(_open_writers):
        writer._tell_lost()
