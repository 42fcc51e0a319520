"""``cw.Writer``: samples in, a store out."""

import atexit
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch

from cordwood.common.arguments import checks_keywords
from cordwood.errors import UsageError
from cordwood.store.format import manifest as manifests
from cordwood.store.format import shard_index
from cordwood.store.format.folder import OpenFolder, open_folder, sync_parent
from cordwood.store.format.manifest import Manifest
from cordwood.store.schema.field import Field
from cordwood.store.writing.batch_rows import refuse_collated, rows
from cordwood.store.writing.encode import Chunk
from cordwood.store.writing.first_samples import Look, load_plans, settle
from cordwood.store.writing.options import Options, check_same, checked_options, checked_threads
from cordwood.store.writing.pipeline import Pipeline
from cordwood.store.writing.prepare import Prepared, Preparer

_COLLATED = (dict, tuple, torch.Tensor, np.ndarray)


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

    _outlives_errors = True  # what is written can be gone on with

    @checks_keywords("cw.Writer")
    def __init__(
        self,
        path: str | os.PathLike[str],
        goal: str | None = None,
        *,
        mode: str = "create",
        fields: Mapping[str, Field] | None = None,
        shard_bytes: int | None = None,
        threads: int | None = None,
    ) -> None:
        self._folder: OpenFolder | None = None
        self._process = os.getpid()
        self._options = checked_options(goal, shard_bytes, fields)
        self._threads = checked_threads(threads)
        self.path = Path(path).absolute()  # a program may go to another folder meanwhile
        self._turn = threading.RLock()  # one thread at a time; extend may take a generator that appends
        self._stopped: str | None = None  # why no more samples are taken
        self._chunk = Chunk(0)  # until the schema is known
        self._look: Look | None = None
        self._preparer: Preparer | None = None
        self._pipeline: Pipeline | None = None
        folder = open_folder(self.path, mode)
        try:
            self._begin(folder)
        except BaseException:
            folder.lock.release()
            raise
        self._folder = folder
        _open_writers.add(self)
        self._committed = self._taken = folder.committed

    def _begin(self, folder: OpenFolder) -> None:
        found = folder.manifest
        if found is not None and folder.committed:
            schema = found.schema
            assert schema is not None  # noqa: S101 - for the type checker: a store with shards has one
            check_same(self._options, found, schema, self.path)
            plans = load_plans(self.path, found, schema)
            classes = {field.name: len(field.classes) for field in found.fields if field.classes is not None}
            pictures = [field.name for field in found.fields if field.keep_encoded]
            self._preparer = Preparer(schema, classes, pictures)
            self._chunk = Chunk(len(plans))
            self._pipeline = Pipeline(self.path, found, schema, plans, folder.committed, folder.shards)
            return
        # Nothing is stored yet: what the caller asks for counts, then what was recorded, then what is usual.
        before = found or Manifest()
        goal, shard_bytes = self._options.goal or before.goal, self._options.shard_bytes or before.shard_bytes
        self._options = Options(goal, shard_bytes, self._options.fields)
        self._look = Look(self._options.fields)
        manifests.write(self.path, Manifest(goal=goal, shard_bytes=shard_bytes))
        shard_index.mend(self.path, shard_index.read(self.path))
        if found is None:
            sync_parent(self.path)

    @property
    def committed(self) -> int:
        """Samples that are on the disk for good: neither a crash nor an exception takes them away."""
        return self._pipeline.committed if self._pipeline is not None else self._committed

    def __len__(self) -> int:
        """Samples committed and samples on their way."""
        return self._taken

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
            if self._preparer is not None:
                self._add(self._preparer.prepare(sample))
            else:
                self._take([sample], named=False)

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
                self._take(rows(batch), named=True)
            elif isinstance(batch, list):
                refuse_collated(batch)
                self._take(batch, named=True)
            else:
                self._take_each(batch)

    def _take_each(self, samples: Iterable[Any]) -> None:
        if isinstance(samples, str | bytes) or not (hasattr(samples, "__iter__") or hasattr(samples, "__getitem__")):
            raise UsageError(f"extend takes a batch or an iterable of samples, not a {type(samples).__name__}")
        for number, sample in enumerate(samples):
            try:
                self._take([sample], named=False)
            except UsageError as error:
                raise UsageError(f"sample {number} ({number} before it were taken): {error}") from None

    def _take(self, samples: Sequence[Any], *, named: bool) -> None:
        """Take all of these samples, or none: everything is checked before anything is changed."""
        done = 0
        sizes: list[int] = []
        try:
            if self._look is not None:
                for sample in samples:
                    if self._look.full_with(len(sizes), sum(sizes)):
                        break
                    sizes.append(self._look.check(sample))
                    done = len(sizes)
                if not self._look.full_with(len(sizes), sum(sizes)):
                    for sample, nbytes in zip(samples, sizes, strict=True):
                        self._look.take(sample, nbytes)
                        self._taken += 1
                    return
                done = len(sizes) - 1
                preparer, prepared = self._look.prepare(list(samples[: len(sizes)]))
                looked_at = prepared.copy()
            else:
                assert self._preparer is not None  # noqa: S101 - for the type checker: no look means there is a schema
                preparer, prepared = self._preparer, []
            for done in range(len(sizes), len(samples)):
                prepared.append(preparer.prepare(samples[done]))
        except UsageError as error:
            if not named:
                raise
            raise UsageError(f"row {done} of {len(samples)}: {error}; none of them was taken") from None
        if self._look is not None:
            self._settle(preparer, looked_at)
        for one in prepared:
            self._add(one)

    def _settle(self, preparer: Preparer, samples: Sequence[Prepared]) -> None:
        """The samples looked at are enough: fix schema and plans."""
        manifest, plans = settle(self.path, self._options, preparer.schema, samples)
        self._pipeline = Pipeline(self.path, manifest, preparer.schema, plans, 0, 0)
        self._chunk = Chunk(len(plans))
        self._preparer, self._look, self._taken = preparer, None, 0

    def _add(self, sample: Prepared) -> None:
        if self._chunk.full:
            self._submit()
        self._chunk.add(*sample)
        self._taken += 1

    def _submit(self) -> None:
        assert self._pipeline is not None  # noqa: S101 - for the type checker: samples are prepared, so it is there
        try:
            self._chunk = self._pipeline.submit(self._chunk, self._threads)
        except BaseException as error:  # also an interrupt: what of the chunk was handed over cannot be told any more
            self._fail(error)
            raise

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
            if self._folder is None or self._stopped is not None:
                return
            try:
                if self._look is not None and self._look.samples:
                    preparer, prepared = self._look.prepare([])
                    self._settle(preparer, prepared)
                    for one in prepared:
                        self._add(one)
                if self._pipeline is not None:
                    if self._chunk.count:
                        self._chunk = self._pipeline.submit(self._chunk, self._threads)
                    self._pipeline.finish()
            except BaseException as error:
                self._fail(error)
                raise
            self._stop("it was closed")

    def _fail(self, error: BaseException) -> None:
        self._stop(f"writing failed ({type(error).__name__}: {error})")
        if self._outlives_errors:
            error.add_note(f"{self.committed} samples are in {self.path}; go on with cw.Writer(..., mode='resume')")

    def _stop(self, why: str) -> None:
        """End everything; what is not committed is dropped."""
        self._stopped = why
        try:
            if self._pipeline is not None:
                self._pipeline.stop()
        finally:
            self._taken = self._committed = self.committed
            self._chunk = Chunk(0)
            self._look = None
            if self._folder is not None:
                self._folder.lock.release()

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise UsageError(
                f"the writer of {self.path} belongs to process {self._process}, and this one was forked from it: write "
                "there, or open a store of its own here"
            )

    def _check_usable(self) -> None:
        if self._stopped is not None:
            raise UsageError(
                f"nothing more can be written to {self.path}: {self._stopped}. {self.committed} samples are in the "
                "store; go on with cw.Writer(..., mode='resume')"
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
            if self._stopped is None:
                self._stop(f"{kind.__name__} was raised while it was open")

    def __del__(self) -> None:
        if getattr(self, "_folder", None) is None or self._stopped is not None or self._process != os.getpid():
            return
        if not sys.is_finalizing():
            self._tell_lost()
            self._stop("nobody closed it")

    def _tell_lost(self) -> None:
        if self._stopped is None and self._process == os.getpid() and len(self) > self.committed:
            warnings.warn(
                f"{self!r} was not closed, and {len(self) - self.committed} samples are lost: use it in a with block",
                RuntimeWarning,
                stacklevel=2,
            )

    def __repr__(self) -> str:
        state = f", {self._stopped}" if self._stopped is not None else ""
        return f"<cw.Writer {str(self.path)!r}: {self.committed} samples committed of {len(self)}{state}>"


_open_writers: "weakref.WeakSet[Writer]" = weakref.WeakSet()


@atexit.register
def _tell_of_open_writers() -> None:
    for writer in list(_open_writers):
        writer._tell_lost()
