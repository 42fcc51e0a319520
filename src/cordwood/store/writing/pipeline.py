"""From chunks of samples to shards in their place, in threads of their own.

    pipeline = Pipeline(store, manifest, schema, plans, committed=0, shards=0)
    chunk = pipeline.submit(chunk, threads)     # returns an empty one when the chunk before it was encoded
    pipeline.finish()                           # the last shard, however small
    pipeline.stop()

One thread encodes and writes, another one syncs finished shards and puts them in their place, so that neither the
caller nor the encoder waits for the disk.
"""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from cordwood.codecs import Plan
from cordwood.store.format.manifest import Manifest
from cordwood.store.schema.schema import Schema
from cordwood.store.writing.chunk import Chunk
from cordwood.store.writing.encode import LeafCoder, encode
from cordwood.store.writing.shard_sequence import ShardSequence


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
