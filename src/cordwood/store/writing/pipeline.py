"""From chunks of samples to shards in their place, in threads of their own.

    pipeline = Pipeline(store, manifest, schema, plans, committed=0, shards=0)
    chunk = pipeline.submit(chunk, threads)     # returns an empty one when the chunk before it was encoded
    pipeline.finish()                           # the last shard, however small
    pipeline.stop()

One thread encodes and writes, another one syncs finished shards and puts them in their place, so that neither the
caller nor the encoder waits for the disk.

Encoded samples in, shards in their place out: where one ends, and a thread that puts finished ones on the disk.

    shards = ShardSequence(store, manifest, committed=0, shards=0)
    done = 0
    while done < len(encoded):
        done = shards.add(encoded, done)        # up to the one that makes a shard full
    shards.finish()                             # the last shard, however small
    shards.stop()

Where a shard ends depends on the samples and on its wanted size alone. Whoever writes neither waits for the disk nor
gets more than a shard ahead of it.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from cordwood.codecs import Plan
from cordwood.store.format import shard_index
from cordwood.store.format.manifest import Manifest
from cordwood.store.format.rows import RowLayout
from cordwood.store.schema.schema import Schema
from cordwood.store.writing.encode import Chunk, Encoded, LeafCoder, encode
from cordwood.store.writing.open_shard import Aside, OpenShard


class ShardSequence:
    """The shards of a store from number `shards` on, before which there are `committed` samples.

    `aside(number)` names a file that stays for a shard that is not finished. With `ending`, a full shard waits for the
    next sample, or for the end; then it takes its place within the context that `ending(number)` returns.
    """

    def __init__(
        self,
        store: Path,
        manifest: Manifest,
        schema: Schema,
        committed: int,
        shards: int,
        *,
        ending: Callable[[int], AbstractContextManager[None]] | None = None,
        aside: Callable[[int], Aside] | None = None,
    ) -> None:
        self.committed = committed  # samples that are on the disk for good
        self.open: OpenShard | None = None
        self._store = store
        self._next = shards  # the number of the next one that is begun
        self._layout = RowLayout(schema)
        self._footer = {"plans": list(manifest.plan_names), "store": manifest.to_json()}
        self._shard_bytes = manifest.shard_bytes
        self._ending = ending
        self._aside = aside
        self._committer = ThreadPoolExecutor(1, "cordwood-commit")
        self._committing: Future[None] | None = None

    def begin(self) -> OpenShard:
        """The shard that the next sample goes to."""
        if self.open is not None and self.open.full:
            self._commit()
        if self.open is None:
            aside = None if self._aside is None else self._aside(self._next)
            self.open = OpenShard(self._store, self._next, self._layout, self._footer, self._shard_bytes, aside)
            self._next += 1
        return self.open

    def add(self, encoded: Encoded, done: int) -> int:
        """Write samples from number `done` on, as many as there is room for, and tell the number of the next one."""
        shard = self.begin()
        end = done + shard.room_for(encoded.sizes[done:])
        shard.add(encoded.part(done, end))
        if shard.full and self._ending is None:
            self._commit()
        return end

    def finish(self) -> None:
        """Put what is still open in its place as the last shard, and wait until everything is on the disk."""
        if self.open is not None:
            self._commit()
        if self._committing is not None:
            self._committing.result()

    def stop(self) -> None:
        """End the thread, and give up the shard that was not finished."""
        self._committer.shutdown()
        if self.open is not None:
            self.open.drop()
            self.open = None

    def _commit(self) -> None:
        """Hand the shard over, when the one before it is in its place: shards are numbered without gaps."""
        if self._committing is not None:
            self._committing.result()
        shard, self.open = self.open, None
        assert shard is not None  # noqa: S101 - for the type checker
        ending = nullcontext() if self._ending is None else self._ending(shard.number)
        self._committing = self._committer.submit(self._put_in_place, shard, ending)

    def _put_in_place(self, shard: OpenShard, ending: AbstractContextManager[None]) -> None:
        with ending:
            ends = shard.finish()
            first, self.committed = self.committed, self.committed + ends.count
            shard_index.append(self._store, shard.number, shard_index.pack_record(shard.number, first, ends))


class Pipeline:
    """What a writer has behind it once the schema is known. `plans` are those of the schema's frame leaves."""

    def __init__(
        self, store: Path, manifest: Manifest, schema: Schema, plans: Sequence[Plan], committed: int, shards: int
    ) -> None:
        self._coders = [LeafCoder(plan) for plan in plans]
        self._shards = ShardSequence(store, manifest, schema, committed, shards)
        self._encoder = ThreadPoolExecutor(1, "cordwood-encode")
        self._encoding: Future[None] | None = None
        self._chunks = [Chunk(len(plans))]

    @property
    def committed(self) -> int:
        """Samples that are on the disk for good."""
        return self._shards.committed

    def submit(self, chunk: Chunk, threads: int) -> Chunk:
        """Encode a chunk in the background, and get an empty one to fill; raises what went wrong with those before."""
        self.wait()
        self._encoding = self._encoder.submit(self._encode, chunk, threads)
        return self._chunks.pop()

    def wait(self) -> None:
        """Wait until no chunk is being encoded; raises what went wrong."""
        encoding = self._encoding
        if encoding is not None:
            encoding.result()
            self._encoding = None

    def finish(self) -> None:
        """Write what is still open as the last shard, and wait until everything is on the disk."""
        self.wait()
        self._shards.finish()

    def stop(self) -> None:
        """End the threads, and remove the shard that was not finished."""
        self._encoder.shutdown(cancel_futures=True)
        self._shards.stop()

    def _encode(self, chunk: Chunk, threads: int) -> None:
        encoded = encode(chunk, self._coders, threads)
        done = 0
        while done < len(encoded):
            done = self._shards.add(encoded, done)
        chunk.clear()
        self._chunks.append(chunk)
