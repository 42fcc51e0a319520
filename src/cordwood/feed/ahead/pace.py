"""Chooses how many threads decode, how many batches are kept ready, and how many are made together.

    pace = ReadAhead(threads=None, prefetch=None)
    pace.threads, pace.depth, pace.together
    pace.look(seconds=0.5, waited=0.1, paused=0.0)    # the consumer waits: more

The consumer's waiting is what all of it is about. It starts with all cores, so that the first batches come soon; it
goes down while decoding fits into fewer and nobody waits, so that the training has the other cores to itself.
"""

from typing import Final

from cordwood.common.resources import default_threads, physical_memory
from cordwood.feed.order.ranks import ranks_here

_AHEAD: Final = 2  # batches: one is being trained on, the next is there
_MOST_AHEAD: Final = 16
_MOST_TOGETHER: Final = 32
_WORTH_A_CALL: Final = 1 << 23  # bytes of batches: with less, handing them over costs more than making them
_WAITS: Final = 0.02  # share of the time: above this somebody waits,
_WAITS_LONG: Final = 0.2  # above this for so long that all cores are wanted at once,
_NEVER_WAITS: Final = 0.002  # and below this nobody does
_SPARE: Final = 0.75  # of what fewer threads could do: decoding must fit into it before one is let go


class ReadAhead:
    """Choices that are looked at again while an epoch runs; what the caller fixed stays."""

    def __init__(self, threads: int | None = None, prefetch: int | None = None) -> None:
        self.most_threads = max(1, default_threads() // ranks_here())
        self.threads = threads or self.most_threads
        self.together = 1
        self._fixed_threads = threads is not None
        self._prefetch = prefetch or _AHEAD
        self._fixed_prefetch = prefetch is not None
        self._batch_bytes = 0

    @property
    def depth(self) -> int:
        """How many batches shall be ready."""
        if self._fixed_prefetch:
            return self._prefetch
        # Those of one call while the next is under way: else the two sides would take turns.
        return max(self._prefetch, 2 * self.together) if self.together > 1 else self._prefetch

    def batch_is(self, nbytes: int) -> None:
        """So large is a batch: small ones are made together, so that a call is worth its while."""
        self._batch_bytes = nbytes
        most = min(_MOST_TOGETHER, self._prefetch) if self._fixed_prefetch else _MOST_TOGETHER
        self.together = max(1, min(most, _WORTH_A_CALL // max(nbytes, 1)))

    def look(self, seconds: float, waited: float, paused: float) -> None:
        """Of so many seconds the consumer waited so many, and the thread that makes batches paused so many."""
        if waited > _WAITS * seconds:
            if self.threads < self.most_threads and not self._fixed_threads:
                self.threads = self.most_threads if waited > _WAITS_LONG * seconds else self.threads + 1
            elif paused > 0 and not self._fixed_prefetch:
                # Fast enough on the whole, but not always: a larger stock bridges the slow moments.
                self._prefetch = min(self._prefetch + 1, self._most_ahead())
        elif waited < _NEVER_WAITS * seconds and self.threads > 1 and not self._fixed_threads:
            busy = (seconds - paused) * self.threads
            if busy < _SPARE * (self.threads - 1) * seconds:
                self.threads -= 1

    def _most_ahead(self) -> int:
        affordable = physical_memory() // 16 // max(self._batch_bytes, 1)
        return max(_AHEAD, min(_MOST_AHEAD, affordable))
