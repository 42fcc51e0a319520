"""What a loader did, for people: ``print(loader.stats())``."""

from dataclasses import dataclass

from cordwood.tensors.sizes import human


@dataclass(frozen=True)
class Stats:
    """Figures of the iteration that was begun last.

    ::

        stats = loader.stats()
        stats.waited / stats.seconds     # the share of the time that the training loop waited for data

    ``seconds`` passed between the first batch and the last one so far, and ``samples_per_second`` are those that came
    in them. For ``waited`` of them the consumer waited, ``waits`` times; the first batch is not counted, ``first`` is
    the time until that one came. ``decoding`` are the seconds that batches were in the making, whether or not anybody
    waited. ``bytes_read`` leaves out what worker processes read.
    """

    epoch: int
    batches: int
    samples: int
    samples_per_second: float
    seconds: float
    first: float
    waited: float
    waits: int
    decoding: float
    bytes_read: int
    damaged: int
    threads: int
    prefetch: int
    memory: str
    pool_bytes: int

    def __str__(self) -> str:
        share = self.waited / self.seconds if self.seconds > 0 else 0.0
        lines = [
            f"epoch {self.epoch}: {self.batches:,} batches, {self.samples:,} samples, "
            f"{self.samples_per_second:,.0f} samples/s",
            f"waited {self.waited:.3f} s of {self.seconds:.3f} s ({share:.1%}), {self.waits:,} times; first batch "
            f"after {self.first * 1000:,.1f} ms",
            f"decoding {self.decoding:.3f} s on {self.threads} thread{'s' * (self.threads != 1)}, "
            f"{self.prefetch} batches ahead",
            f"read {human(self.bytes_read)} ({self.memory}); {human(self.pool_bytes)} idle in the pool",
        ]
        if self.damaged:
            lines.append(f"skipped {self.damaged:,} damaged samples")
        return "\n".join(lines)
