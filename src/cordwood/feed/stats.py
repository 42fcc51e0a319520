"""The statistics of a Loader: ``print(loader.stats())``."""

from dataclasses import dataclass

from cordwood.common.html import Printed, bars, sentence, title, together
from cordwood.common.tables import folded
from cordwood.common.text import counted, human


@dataclass(frozen=True, repr=False)
class LoaderStats(Printed):
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
        return folded(self._lines())

    def _repr_html_(self) -> str:
        """For a notebook: did the loop wait?"""
        first, *others = self._lines()
        parts = [title(*first.split(": ", 1)), *map(sentence, others)]
        if self.seconds > 0:
            rest = max(0.0, self.seconds - self.waited)
            lengths = [("waited for data", self.waited), ("everything else", rest)]
            parts.insert(1, bars([(name, seconds, f"{seconds:.3f} s") for name, seconds in lengths]))
        return together(parts)

    def _lines(self) -> list[str]:
        share = self.waited / self.seconds if self.seconds > 0 else 0.0
        rate = f", {self.samples_per_second:,.0f} samples/s" if self.samples_per_second > 0 else ""
        lines = [
            f"epoch {self.epoch}: {_batches(self.batches)}, {counted(self.samples, 'sample')}{rate}",
            f"first batch after {self.first * 1000:,.1f} ms; from then on waited {self.waited:.3f} s of "
            f"{self.seconds:.3f} s ({share:.1%}), {counted(self.waits, 'time')}",
            f"decoding {self.decoding:.3f} s on {counted(self.threads, 'thread')}, {_batches(self.prefetch)} ahead",
            f"read {human(self.bytes_read)} ({self.memory}); {human(self.pool_bytes)} idle in the pool",
        ]
        if self.damaged:
            lines.append(f"skipped {counted(self.damaged, 'damaged sample')}")
        return lines


def _batches(number: int) -> str:
    return f"{number:,} {'batch' if number == 1 else 'batches'}"
