"""Times the waiting for data: ``next()`` of torch's and of Cordwood's loaders.

The methods of the iterators' classes are replaced, never the iterators: ``iter(loader)`` stays what it was.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from threading import get_ident
from time import perf_counter_ns
from typing import Any
from weakref import WeakKeyDictionary, ref

from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from cordwood.doctor.evidence.evidence import LoaderSeen
from cordwood.doctor.evidence.findings import CodeLine
from cordwood.doctor.evidence.places import user_place
from cordwood.doctor.probes.patches import Patches
from cordwood.doctor.probes.phases.clock import OPTIMIZER, OTHER, WAIT
from cordwood.doctor.probes.phases.recorder import Recorder
from cordwood.doctor.probes.phases.rhythm import END, OFF
from cordwood.feed import Loader, LoaderIterator

_MOST_LOADERS = 8  # that are kept, with their datasets
_LARGEST_BATCH = 256 << 20  # bytes that are kept for replays


class LoopProbe:
    """Knows the loaders of a script, and when it waits for them."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._by_loader: WeakKeyDictionary[Any, LoaderSeen] = WeakKeyDictionary()
        self._made_at: WeakKeyDictionary[Any, CodeLine] = WeakKeyDictionary()
        self._by_iterator: WeakKeyDictionary[Any, LoaderSeen] = WeakKeyDictionary()
        self._starting: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # iterators before their first batch
        self._watched: set[type] = set()  # iterators' classes of the user's own
        # The iterator that gave the last batch: it is asked again and again, and need not be looked up.
        self._latest: Callable[[], Any] = _nobody
        self._latest_seen: LoaderSeen | None = None
        self.starts: Callable[[], object] = lambda: None  # to be called when a new loader starts
        self._tokens: dict[int, int] = {}  # of the latest iterator in a step's rhythm, by the id of what was seen
        self._ending: dict[int, int] = {}  # what the end of the last epoch took, by the id of what was seen

    def install(self, patches: Patches, loader: Any = None) -> None:
        """Watch torch's and Cordwood's loaders, and the one that is given."""
        patches.replace(DataLoader, "__init__", self._noting_where(DataLoader.__init__))
        patches.replace(DataLoader, "__iter__", self._timing_start(DataLoader.__iter__))
        patches.replace(_BaseDataLoaderIter, "__next__", self.timing_next(_BaseDataLoaderIter.__next__))
        patches.replace(Loader, "__iter__", self._timing_start(Loader.__iter__))
        patches.replace(LoaderIterator, "__next__", self.timing_next(LoaderIterator.__next__))
        if loader is not None and not isinstance(loader, DataLoader | Loader):
            self._install_on_class(patches, type(loader))

    def _install_on_class(self, patches: Patches, kind: type) -> None:
        """A loader of the user's own: generators are driven by one of ours, other iterators watched by their class."""
        original = getattr(kind, "__iter__", None)
        probe = self

        def __iter__(loader: Any) -> Any:  # noqa: N807
            found = original(loader) if original is not None else None
            if inspect.isgenerator(found):
                return probe._driven(loader, found)
            if not probe._recorder.clock.is_training_thread():
                return found
            with probe._recorder.guarded("loaders"):
                probe._watch_iterator(patches, loader, found)
            return found

        try:
            if original is None:
                raise TypeError("it cannot be iterated")
            patches.replace(kind, "__iter__", functools.wraps(original)(__iter__))
        except TypeError:  # built into Python, or written in C
            self._cannot_tell(kind)

    def _watch_iterator(self, patches: Patches, loader: Any, iterator: Any) -> None:
        kind = type(iterator)
        if kind not in self._watched:
            self._watched.add(kind)
            try:
                patches.replace(kind, "__next__", self.timing_next(kind.__next__))
            except TypeError:
                self._cannot_tell(kind)
                return
        seen = self._seen(loader)
        seen.epochs += 1
        self._by_iterator[iterator] = seen
        self._starting[iterator] = 0

    def _cannot_tell(self, kind: type) -> None:
        self._recorder.note(
            f"waiting for a {kind.__name__} cannot be told from other work: it counts as everything else"
        )

    def _driven(self, loader: Any, found: Iterator[Any]) -> Iterator[Any]:
        # The key must live as long as the generator does, and a generator's frame holds its locals.
        key = _Key()
        seen = self._by_iterator[key] = self._seen(loader)
        seen.epochs += 1
        self._starting[key] = 0
        step = self.timing_next(lambda _: next(found))
        while True:
            try:
                batch = step(key)
            except StopIteration:
                return
            yield batch

    def _seen(self, loader: Any) -> LoaderSeen:
        """A loader starts."""
        self._recorder.rhythm.leave()
        self._latest = _nobody  # an iterator that is kept over epochs has a first batch again
        seen = self._by_loader.get(loader)
        if seen is None:
            seen = self._by_loader[loader] = self._new(loader, user_place())
        if not seen.epochs:
            self.starts()
        return seen

    def _new(self, loader: Any, place: CodeLine | None) -> LoaderSeen:
        """A loader that has not started before. The first ones are kept, to be tried in other ways.

        A script may make a new one again and again: those count as the one that is iterated by the same line, so that
        neither they nor their datasets live on.
        """
        known = self._recorder.watched.loaders
        if len(known) >= _MOST_LOADERS:
            return next((seen for seen in known if seen.place == place), known[-1])
        seen = LoaderSeen(loader, place, made_at=self._made_at.get(loader))
        known.append(seen)
        return seen

    def _noting_where(self, original: Callable[..., None]) -> Callable[..., None]:
        recorder, made_at = self._recorder, self._made_at

        @functools.wraps(original)
        def __init__(loader: Any, *arguments: Any, **options: Any) -> None:  # noqa: N807
            original(loader, *arguments, **options)
            with recorder.guarded("loaders"):
                place = user_place()
                if place is not None:
                    made_at[loader] = place

        return __init__

    def _timing_start(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        recorder, clock = self._recorder, self._recorder.clock

        @functools.wraps(original)
        def __iter__(loader: Any) -> Any:  # noqa: N807
            if not clock.is_training_thread() or clock.current == WAIT:
                return original(loader)
            with recorder.guarded("steps"):
                recorder.rhythm.leave()
            start = perf_counter_ns()
            before = clock.switch(WAIT)
            try:
                iterator = original(loader)
            finally:
                clock.switch(before)
            with recorder.guarded("loaders"):
                seen = self._seen(loader)
                seen.epochs += 1
                self._by_iterator[iterator] = seen
                self._starting[iterator] = perf_counter_ns() - start + self._ending.pop(id(seen), 0)
            return iterator

        return __iter__

    def timing_next(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        recorder, clock, rhythm = self._recorder, self._recorder.clock, self._recorder.rhythm
        expected, following, times = rhythm.expected, rhythm.following, rhythm.times
        long_way = self._next_the_long_way

        @functools.wraps(original)
        def __next__(iterator: Any) -> Any:  # noqa: N807
            at, around = rhythm.at, clock.current
            if expected[at] != id(iterator) or len(times) >= rhythm.most or get_ident() != clock.thread:
                return long_way(original, iterator)
            rhythm.at = following[at]
            clock.current = WAIT
            start = perf_counter_ns()
            times.append(start)
            try:
                batch = original(iterator)
            except BaseException as error:
                with recorder.guarded("steps"):
                    self._failed(error, self._by_iterator.get(iterator), start)
                clock.switch(around)
                raise
            at = rhythm.at
            if expected[at] == END:
                times.append(perf_counter_ns())
                rhythm.at = following[at]
                clock.current = around
            else:  # something unusual was done to make the batch
                with recorder.guarded("steps"):
                    self._came(self._by_iterator.get(iterator), around)
            return batch

        return __next__

    def _next_the_long_way(self, original: Callable[[Any], Any], iterator: Any) -> Any:
        recorder, clock, tracker = self._recorder, self._recorder.clock, self._recorder.tracker
        thread = clock.thread
        if get_ident() != thread or clock.current == WAIT:
            return original(iterator)
        is_known = self._latest() is iterator
        seen = self._latest_seen if is_known else self._by_iterator.get(iterator)
        around = OTHER
        try:
            if clock.current == OPTIMIZER:
                clock.leave_optimizers()
            tracker.batch_wanted(seen)
            if not is_known and seen is not None:
                recorder.rhythm.renew(self._tokens.get(id(seen), 0), id(iterator))
                self._tokens[id(seen)] = id(iterator)
            if clock.thread is not None:
                around = recorder.rhythm.begin(id(iterator), WAIT, tracker.batch_wanted, seen)
        except Exception as error:
            recorder.broke("steps", error)
        if clock.thread is None:  # that was the last step to be watched
            return original(iterator)
        start = perf_counter_ns()
        try:
            batch = original(iterator)
        except BaseException as error:
            with recorder.guarded("steps"):
                self._failed(error, seen, start)
            clock.switch(around)
            raise
        try:
            waited = perf_counter_ns() - start
            before = None if is_known else self._starting.pop(iterator, None)
            self._came(seen, around, None if before is None else before + waited)
            if not is_known:
                self._latest, self._latest_seen = ref(iterator), seen
            if seen is not None and seen.batches == 2 and seen.last_batch is None:
                seen.last_batch = _kept(batch)
        except Exception as error:
            recorder.broke("steps", error)
        return batch

    def _came(self, seen: LoaderSeen | None, around: int, first_wait: int | None = None) -> None:
        tracker, rhythm = self._recorder.tracker, self._recorder.rhythm
        counted = None if seen is None else seen.more_batches
        rhythm.begin(END, around, tracker.batch_came, seen, False, 0, counted=counted)
        if rhythm.at == OFF:  # else the rhythm began with this batch, and the tracker is told later
            tracker.batch_came(seen, first_wait is not None, first_wait or 0)

    def _failed(self, error: BaseException, seen: LoaderSeen | None, start: int) -> None:
        """There is no batch: the loader is exhausted, or broken."""
        self._recorder.rhythm.leave()
        if isinstance(error, StopIteration):
            # Ending workers takes time as starting them does: both are what another epoch costs.
            self._ending[id(seen)] = perf_counter_ns() - start
            self._recorder.tracker.exhausted()


class _Key:
    """Stands for a generator, which knows no weak references that outlive a pass of it."""


def _nobody() -> None:
    """A reference to nothing."""


def _kept(batch: Any) -> Any:
    """A batch to keep for replays: None if it is large, or unlike what can be measured."""
    from torch.utils._pytree import tree_leaves

    leaves = tree_leaves(batch)
    sizes = [getattr(leaf, "nbytes", 0) for leaf in leaves]
    if any(not isinstance(size, int) for size in sizes) or sum(sizes) > _LARGEST_BATCH:
        return None
    return batch
