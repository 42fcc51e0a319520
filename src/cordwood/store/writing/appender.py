"""Appends samples to one store: those of `cw.Writer`, or parts that `cw.pack` got encoded from its workers.

    appender = Appender(folder, options, threads=2, resumes=folder.shards > 0, adapts=True)
    appender.append({"image": image, "label": 3})
    appender.finish()
    appender.stop("it was closed")

An `Appender` has one of three states: `FirstSamples`, `Writing` and `Closed`. While the schema is unknown, samples are
checked and copied until there are enough of them; then the schema is inferred, plans are chosen, both are written to
the store, and the state is `Writing`. From then on samples are copied into a chunk while a thread encodes the chunk
before it and writes its frames. Parts that are encoded already go to `shards`, whose caller decides when a full shard
is committed, and what happens before and after it takes its place. `Closed` takes nothing, and what is not committed
by then is dropped.
"""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from cordwood.errors import UsageError
from cordwood.store.format import shard_index
from cordwood.store.format.folder import OpenFolder, sync_parent
from cordwood.store.format.manifest import Manifest
from cordwood.store.format.manifest import write as write_manifest
from cordwood.store.writing.batch_rows import BatchColumns, ColumnRows, rows, split
from cordwood.store.writing.encode import Chunk, SampleEncoder
from cordwood.store.writing.first_samples import MAX_FIRST_SAMPLES, FirstSamples, FixedSchema
from cordwood.store.writing.later_plans import LaterPlans
from cordwood.store.writing.open_shard import ShardSequence
from cordwood.store.writing.options import Options
from cordwood.store.writing.prepare import Prepared, Preparer


class Writing(SampleEncoder):
    """The state of an appender whose schema is fixed: encodes a chunk in a thread while the next one is filled.

    If it `adapts`, later samples of another kind are given plans of their own.
    """

    def __init__(
        self, store: Path, fixed: FixedSchema, threads: int, committed: int = 0, shards: int = 0, *, adapts: bool
    ) -> None:
        super().__init__(fixed, threads)
        later = LaterPlans(store, fixed) if adapts else None
        self.taken = committed
        if later is None:
            self.shards = ShardSequence(store, fixed, committed, shards)
        else:
            self.shards = ShardSequence(store, later.for_shard(shards), committed, shards, later.after_shard)
        self.batch_columns = BatchColumns(self.preparer)
        self._spare = Chunk(len(fixed.plans))
        self._thread = ThreadPoolExecutor(1, "cordwood-encode")
        self._encoding: Future[None] | None = None

    @property
    def committed(self) -> int:
        """Samples that are on the disk permanently."""
        return self.shards.committed

    def flush(self) -> None:
        """Hand the chunk to the thread; raises what went wrong with the one before."""
        self.wait()
        if self.chunk.count:
            self._encoding = self._thread.submit(self._write, self.chunk)
            self.chunk, self._spare = self._spare, self.chunk

    def wait(self) -> None:
        """Wait until no chunk is being encoded; raises what went wrong."""
        if self._encoding is not None:
            self._encoding.result()
            self._encoding = None

    def _write(self, chunk: Chunk) -> None:
        self.fixed = self.shards.fixed
        encoded, done = self._encode(chunk), 0
        while done < len(encoded):
            done = self.shards.add(encoded, done)
            if self.shards.open is not None and self.shards.open.is_full:
                self.shards.commit()

    def finish(self) -> None:
        """Write everything; the last shard, however small, is in its place when this returns."""
        self.flush()
        self.wait()
        self.shards.finish()

    def stop(self) -> None:
        """End the threads, and drop the shard that was not finished."""
        self._thread.shutdown(cancel_futures=True)
        self.shards.stop()


class Closed(NamedTuple):
    """The state of an appender that takes no more samples."""

    why: str
    committed: int

    @property
    def taken(self) -> int:
        """What was not committed is dropped."""
        return self.committed


class Appender:
    """Writes to an open folder, whose lock it releases in the end.

    `resumes` says whether samples of the folder's store are kept; if not, the store begins anew. `adapts` allows other
    plans for later shards, where the first samples could not show what comes. `advice` is added to errors that end the
    writing.
    """

    def __init__(
        self,
        folder: OpenFolder,
        options: Options,
        threads: int,
        *,
        resumes: bool,
        adapts: bool,
        advice: str | None = None,
    ) -> None:
        self.path = folder.path
        self.state: FirstSamples | Writing | Closed
        self._folder = folder
        self._threads = threads
        self._adapts = adapts
        self._advice = advice
        found = folder.manifest
        if found is not None and resumes:
            fixed = FixedSchema.load(self.path, found)
            self.state = Writing(self.path, fixed, threads, folder.committed, folder.shards, adapts=adapts)
            return
        # Nothing is stored yet: the caller's options count, then those recorded, then the defaults.
        empty = options.manifest(found or Manifest())
        self.state = FirstSamples(Options(empty.goal, empty.shard_bytes, options.fields))
        write_manifest(self.path, empty)
        shard_index.mend(self.path, shard_index.read(self.path))
        if found is None:
            sync_parent(self.path)

    @property
    def fixed(self) -> FixedSchema | None:
        """Schema and plans, once they are known: those of the next samples."""
        return self.state.shards.fixed if isinstance(self.state, Writing) else None

    @property
    def committed(self) -> int:
        """Samples that are on the disk permanently."""
        return self.state.committed

    def __len__(self) -> int:
        """Samples committed and samples on their way."""
        return self.state.taken

    def append(self, sample: Any) -> None:
        """Take one sample; UsageError if it does not fit the others."""
        state = self.state
        if isinstance(state, Writing):
            self._add(state, state.preparer.prepare(sample))
        else:
            self.extend([sample], named=False)

    def extend(self, samples: Sequence[Any], *, named: bool = True) -> None:
        """Take all of these samples or none: everything is checked before anything is changed.

        If `named`, an error says which of the samples was refused.
        """
        first, number = self.state, 0
        if isinstance(first, Writing) and (taken := first.batch_columns.of_samples(samples)) is not None:
            self._add_rows(taken)
            return
        sizes: list[int] = []
        prepared: list[Prepared] = []
        try:
            if isinstance(first, FirstSamples):
                for number in range(len(samples)):
                    sizes.append(first.check(samples[number]))
                    if first.is_full_with(len(sizes), sum(sizes)):
                        break
                else:
                    for sample, nbytes in zip(samples, sizes, strict=True):
                        first.take(sample, nbytes)
                    return
                preparer, prepared = first.prepare(samples[: len(sizes)])
                enough = prepared.copy()
            else:
                preparer = self.writing.preparer
            for number in range(len(sizes), len(samples)):
                prepared.append(preparer.prepare(samples[number]))
        except UsageError as error:
            if not named:
                raise
            raise UsageError(f"row {number} of {len(samples)}: {error}; none of them was taken") from None
        if isinstance(first, FirstSamples):
            self.fix(preparer, enough)
        for one in prepared:
            self._add(self.writing, one)

    def extend_batch(self, batch: Any) -> None:
        """Take the rows of a collated batch or none of them; of columns alone they are made together."""
        state, taken = self.state, None
        if isinstance(state, Writing):
            taken = state.batch_columns(batch)
        elif isinstance(state, FirstSamples):
            taken = self._begin_with(state, batch)
        if taken is None:
            self.extend(rows(batch))
            return
        self._add_rows(taken)

    def _begin_with(self, first: FirstSamples, batch: Any) -> list[ColumnRows] | None:
        """Take the rows that complete the first samples, and return the others; None, and no row, if that cannot be."""
        wanted = MAX_FIRST_SAMPLES - first.taken
        halves = split(batch, wanted)
        if halves is None:
            return None
        try:
            samples, nbytes = rows(halves[0]), 0
            for number, sample in enumerate(samples):
                if first.is_full_with(number, nbytes):
                    return None
                nbytes += first.check(sample)
            if len(samples) < wanted:
                return None
            preparer, prepared = first.prepare(samples)
        except UsageError:  # the one that `extend` raises names the row
            return None
        taken = BatchColumns(preparer)(halves[1])
        if taken is not None:
            self.fix(preparer, prepared)
            for one in prepared:
                self._add(self.writing, one)
        return taken

    def fix(self, preparer: Preparer, samples: Sequence[Prepared], others: Sequence[Prepared] = ()) -> None:
        """Fix schema and plans, by what `FirstSamples.prepare` returned, or by some of it before the others."""
        fixed = FixedSchema.choose(self.path, self.collecting.options, preparer, samples, others)
        self.state = Writing(self.path, fixed, self._threads, adapts=self._adapts)

    @property
    def collecting(self) -> FirstSamples:
        """The state until the schema is fixed."""
        assert isinstance(self.state, FirstSamples)  # noqa: S101 - for the type checker
        return self.state

    @property
    def writing(self) -> Writing:
        """The state once the schema is fixed; UsageError if it is not, or no more."""
        if not isinstance(self.state, Writing):
            why = self.state.why if isinstance(self.state, Closed) else "its schema is not known"
            raise UsageError(f"nothing more can be written to {self.path}: {why}")
        return self.state

    def _add(self, writing: Writing, sample: Prepared) -> None:
        self._make_room(writing)
        writing.chunk.add(*sample)
        writing.taken += 1

    def _add_rows(self, pieces: Sequence[ColumnRows]) -> None:
        for columns in pieces:
            self._make_room(self.writing)
            self.writing.chunk.add_rows(*columns)
            self.writing.taken += columns.samples

    def _make_room(self, writing: Writing) -> None:
        """Hand on the chunk if it is full."""
        if writing.chunk.is_full:
            try:
                writing.flush()
            except BaseException as error:  # also an interrupt: it is not known what of the chunk was written
                self._fail(error)
                raise

    def finish(self) -> None:
        """Write everything that was taken; the last shard, however small, is in its place when this returns."""
        try:
            if isinstance(self.state, FirstSamples) and self.state.samples:
                preparer, prepared = self.state.prepare()
                self.fix(preparer, prepared)
                for one in prepared:
                    self._add(self.writing, one)
            if isinstance(self.state, Writing):
                self.state.finish()
        except BaseException as error:
            self._fail(error)
            raise

    def _fail(self, error: BaseException) -> None:
        if isinstance(self.state, Closed):
            return
        self.stop(f"writing failed ({type(error).__name__}: {error})")
        if self._advice is not None:
            error.add_note(f"{self.committed} samples are in {self.path}; {self._advice}")

    def stop(self, why: str) -> None:
        """End the threads and let others write; what is not committed is dropped."""
        try:
            if isinstance(self.state, Writing):
                self.state.stop()
        finally:
            self.state = Closed(why, self.committed)
            self._folder.lock.release()
