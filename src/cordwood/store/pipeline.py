"""From chunks of samples to shards in their place, in threads of their own.

    pipeline = Pipeline(store, manifest, schema, plans, committed=0, shards=0)
    chunk = pipeline.submit(chunk, threads)     # returns an empty one when the chunk before it was encoded
    pipeline.finish()                           # the last shard, however small
    pipeline.stop()

One thread encodes and writes, another one syncs finished shards and puts them in their place, so that neither the
caller nor the encoder waits for the disk. Where a shard ends depends on the samples and on its wanted size alone.
"""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cordwood.codecs import Plan
from cordwood.store import shardindex
from cordwood.store.chunk import Chunk
from cordwood.store.encoding import LeafCoder, encode
from cordwood.store.layout import Layout
from cordwood.store.manifest import Manifest
from cordwood.store.schema import Schema
from cordwood.store.shardwrite import OpenShard


class Pipeline:
    """What a writer has behind it once the schema is known. `plans` are those of the schema's frame leaves."""

    def __init__(
        self, store: Path, manifest: Manifest, schema: Schema, plans: Sequence[Plan], committed: int, shards: int
    ) -> None:
        self.committed = committed  # samples that are on the disk for good
        self._store = store
        self._next = shards  # the number of the next one that is begun
        self._layout = Layout(schema)
        self._coders = [LeafCoder(plan) for plan in plans]
        self._footer = {"plans": list(manifest.plan_names), "store": manifest.to_json()}
        self._shard_bytes = manifest.shard_bytes
        self._shard: OpenShard | None = None
        self._encoder = ThreadPoolExecutor(1, "cordwood-encode")
        self._committer = ThreadPoolExecutor(1, "cordwood-commit")
        self._encoding: Future[None] | None = None
        self._committing: Future[None] | None = None
        self._chunks = [Chunk(len(plans))]

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
        if self._shard is not None:
            self._commit()
        if self._committing is not None:
            self._committing.result()

    def stop(self) -> None:
        """End the threads, and remove the shard that was not finished."""
        self._encoder.shutdown(cancel_futures=True)
        self._committer.shutdown()
        if self._shard is not None:
            self._shard.drop()
            self._shard = None

    def _encode(self, chunk: Chunk, threads: int) -> None:
        encoded = encode(chunk, self._coders, threads)
        done = 0
        while done < len(encoded):
            if self._shard is None:
                self._shard = OpenShard(self._store, self._next, self._layout, self._footer, self._shard_bytes)
                self._next += 1
            end = done + self._shard.room_for(encoded.sizes[done:])
            self._shard.add(encoded.part(done, end))
            done = end
            if self._shard.full:
                self._commit()
        chunk.clear()
        self._chunks.append(chunk)

    def _commit(self) -> None:
        """Hand the shard over, when the one before it is in its place: shards are numbered without gaps."""
        if self._committing is not None:
            self._committing.result()
        shard, self._shard = self._shard, None
        self._committing = self._committer.submit(self._put_in_place, shard)

    def _put_in_place(self, shard: Any) -> None:
        ends = shard.finish()
        first, self.committed = self.committed, self.committed + ends.count
        shardindex.append(self._store, shard.number, shardindex.pack_record(shard.number, first, ends))
