"""Times the fetches of one process, the training process or a DataLoader worker, and writes the figures to a file.

    watch = FetchWatch(folder, outermost=stand_in.__code__)
    batch = watch.fetch(_MapDatasetFetcher.fetch, fetcher, indices)     # what fetch() gives, timed
    watch.write()

The first fetches are all timed, later ones now and then, each for those that passed before it; a few get a closer
look, as long as that adds next to nothing to the time of a run. Should
anything in here break, fetches go on without it, and the figures say why they are missing.
"""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

from cordwood.doctor.evidence.fetch_figures import MOST_FILES, Figures, write
from cordwood.doctor.probes.fetch.closer_look import CloserLook, Profile, Sampling

_EVERY = 8  # fetches: one of them is profiled, one sampled
_PROFILE_AT, _SAMPLE_AT = 1, 3
_MOST_LOOKS = 6  # of each kind
_ALL_TIMED = 64  # fetches; then one of
_TIMED = 7  # no divisor of what loops like to do every so many batches
_LOOK_NS = 2_000_000_000  # to be spent on fetches with a closer look
_EXTRA_NS = 100_000_000  # that looks may add to fetches, beside a share of the time
_EXTRA_SHARE = 0.02
_WRITE_NS = 500_000_000  # between two writings
_CLOCK = time.perf_counter_ns
OVER = "over"  # this file in the folder tells workers that nobody wants to know more


class FetchWatch:
    """Watches the fetches of this process. ``outermost`` is the code of the function that stands in for fetch()."""

    def __init__(
        self,
        folder: Path,
        outermost: CodeType,
        *,
        worker: int = -1,
        workers: int = 0,
        knows_datasets: bool = True,
        looks: bool = True,
        disturbed: Callable[[], object] | None = None,
    ) -> None:
        self._folder = folder
        self._outermost = outermost
        self._worker = worker
        self._workers = workers
        self._knows_datasets = knows_datasets  # id() of a dataset means the same as in the training loop's process
        self._looks = looks
        self._looked_ns = 0
        self._extra_ns = 0
        self._disturbed = disturbed
        self._process = os.getpid()
        self._at_work = threading.Lock()
        self._figures: dict[int, Figures] = {}
        self._first_ns: dict[int, int] = {}
        self._last_dataset = 0
        self._written_ns = _CLOCK()
        self._stands_for = 1  # fetches: the one that is timed next, and those that passed before it
        self.to_pass = 0  # fetches that need not be timed; who calls `fetch` counts them down
        self.is_over = False

    @property
    def is_worker(self) -> bool:
        """Whether this is a DataLoader's worker."""
        return self._worker >= 0

    def is_of_this_process(self) -> bool:
        """Whether it was made here: a forked child has a copy of its parent's watch."""
        return self._process == os.getpid()

    def watches_here(self) -> bool:
        """Whether it is at work, and for this process."""
        return not self.is_over and self.is_of_this_process()

    def fetch(self, original: Callable[[Any, Any], Any], fetcher: Any, index: Any) -> Any:
        """What ``original(fetcher, index)`` gives."""
        if not self.watches_here() or not self._at_work.acquire(blocking=False):
            return original(fetcher, index)  # also a loader inside a dataset, and one in another thread
        try:
            return self._timed(original, fetcher, index)
        finally:
            self._at_work.release()

    def _timed(self, original: Callable[[Any, Any], Any], fetcher: Any, index: Any) -> Any:
        figures = self._figures_of(id(fetcher.dataset) if self._knows_datasets else 0)
        look = self._choose(figures)
        real_collate = fetcher.collate_fn
        collated_at = 0

        def collate(samples: Any) -> Any:
            nonlocal collated_at
            if look is not None:
                self._carefully(look.collating)
            collated_at = _CLOCK()
            return real_collate(samples)

        fetcher.collate_fn = collate
        whole = False
        if look is not None:
            self._carefully(look.begin)
        begun = _CLOCK()
        try:
            batch = original(fetcher, index)
            whole = True
            return batch
        finally:
            ended = _CLOCK()
            fetcher.collate_fn = real_collate
            if look is not None:
                self._carefully(look.end)
            if whole and collated_at:
                self._carefully(lambda: self._note(figures, look, (begun, collated_at, ended)))

    def _carefully(self, action: Callable[[], object]) -> None:
        """Never let a mistake of the watch become the script's."""
        try:
            action()
        except Exception as error:
            self._give_up(f"fetches could not be watched: {type(error).__name__}: {error}")

    def _give_up(self, why: str) -> None:
        self.is_over = True
        for figures in self._figures.values():
            figures.note = why

    def _figures_of(self, dataset: int) -> Figures:
        self._last_dataset = dataset
        if dataset not in self._figures:
            self._figures[dataset] = Figures(self._process, self._worker, self._workers, dataset)
        return self._figures[dataset]

    def _choose(self, figures: Figures) -> CloserLook | None:
        if not self._looks or self._looked_ns > _LOOK_NS or self._extra_ns > _EXTRA_NS + _EXTRA_SHARE * figures.span_ns:
            return None
        # Workers of odd numbers start with samples, so that short epochs give both.
        turn = (figures.batches + figures.profiled + 2 * (max(self._worker, 0) % 2)) % _EVERY
        if figures.batches and turn == _PROFILE_AT and figures.profiled < _MOST_LOOKS:
            return Profile()
        if figures.batches and turn == _SAMPLE_AT and figures.sampled < _MOST_LOOKS:
            return Sampling(self._outermost)
        return None

    def _note(self, figures: Figures, look: CloserLook | None, times: tuple[int, int, int]) -> None:
        begun, collated_at, ended = times
        figures.span_ns = ended - self._first_ns.setdefault(figures.dataset, begun)
        if isinstance(look, Profile):
            figures.profiled += 1
            if look.refused:
                figures.note = look.refused
            else:
                figures.profiled_get_ns += collated_at - begun
                figures.profiled_collate_ns += ended - collated_at
                for function, own in look.functions().items():
                    figures.functions[function] = figures.functions.get(function, 0) + own
            if self._disturbed is not None:
                self._disturbed()
        else:
            figures.batches += self._stands_for
            figures.get_ns += self._stands_for * (collated_at - begun)
            figures.collate_ns += self._stands_for * (ended - collated_at)
            self._stands_for = 1
            if figures.batches >= _ALL_TIMED:
                self._stands_for, self.to_pass = _TIMED, _TIMED - 1
        if isinstance(look, Sampling):
            self._note_samples(figures, look)
        # The training loop's own process is there at the end; a worker may be stopped at any time.
        if self.is_worker and (look is not None or ended - self._written_ns > _WRITE_NS):
            self.write()
        if look is not None:
            took = _CLOCK() - begun
            self._looked_ns += took
            usual = (figures.get_ns + figures.collate_ns) // max(figures.batches, 1)
            self._extra_ns += max(0, took - usual)

    def _note_samples(self, figures: Figures, look: Sampling) -> None:
        figures.sampled += 1
        for line, own in look.lines.items():
            figures.lines[line] = figures.lines.get(line, 0) + own
        figures.sampled_ns += look.sampled_ns
        if look.read is not None:
            figures.watched += 1
            figures.read_chars += look.read[0]
            figures.read_disk += look.read[1]
        for name in look.files:
            if len(figures.files) < MOST_FILES and name not in figures.files:
                figures.files.append(name)

    # ---- the way between processes -----------------------------------------------------------------------------------

    def sent(self, nanoseconds: int, nbytes: int) -> None:
        """A worker has made bytes of a batch."""
        figures = self._figures_of(self._last_dataset)
        figures.sent += 1
        figures.sent_ns += nanoseconds
        figures.sent_bytes += nbytes

    def received(self, nanoseconds: int) -> None:
        """The training loop's process has read a batch and built it again."""
        figures = self._figures.setdefault(0, Figures(self._process, self._worker, self._workers))
        figures.received += 1
        figures.received_ns += nanoseconds

    # ---- writing down ------------------------------------------------------------------------------------------------

    def write(self) -> None:
        """Write what was seen so far; the watch ends when nobody is there to read it."""
        self._written_ns = _CLOCK()
        if not self.is_of_this_process():
            return
        if (self._folder / OVER).exists():
            self.is_over = True
        try:
            for figures in self._figures.values():
                write(figures, self._folder / f"fetches-{self._process}-{figures.dataset:x}.json")
        except OSError:
            self.is_over = True  # the folder is gone: the report is written
