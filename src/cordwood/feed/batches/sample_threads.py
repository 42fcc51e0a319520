"""Makes batches sample by sample on threads, with a user's function for each sample.

    work = ThreadBatches(fetch, transform, Collation(), threads=4)
    batch = work.batch(numbers, seeds)
    work.close()

Which sample goes to which thread does not matter: results are in the order of the numbers, and a transform that has a
parameter ``seed`` gets the sample's own seed, so what it draws depends on nothing else.
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Self

from cordwood.common.seeding import takes
from cordwood.errors import FeedError
from cordwood.feed.batches.collate import Collation
from cordwood.store import Numbers, Seeds

Fetch = Callable[[Numbers, Seeds], list[Any]]  # the samples of these numbers, with these seeds

_MOST_NAMED = 8  # samples in a note


class SampleTransform:
    """A caller's function of a sample; None leaves samples as they are.

    ::

        SampleTransform(lambda sample, seed: jitter(sample, seed))(sample, number=17, seed=0x5EED)
    """

    def __init__(self, function: Callable[..., Any] | None) -> None:
        self.function = function
        self.takes_seed = function is not None and takes(function, "seed")

    def __call__(self, sample: Any, number: int, seed: int) -> Any:
        """The transformed sample; an error is the function's own, with a note that names the sample."""
        if self.function is None:
            return sample
        try:
            return self.function(sample, seed=seed) if self.takes_seed else self.function(sample)
        except StopIteration as error:
            # On its way through generators it would end the epoch, and nobody would know.
            raise FeedError(f"sample_transform raised StopIteration for sample {number} of the dataset") from error
        except Exception as error:
            error.add_note(f"raised by sample_transform for sample {number} of the dataset")
            raise


def collated(collation: Collation, samples: list[Any], numbers: Sequence[int]) -> tuple[Any, list[tuple[str, str]]]:
    """The batch of these samples and what is to be told of it; an error of a caller's function names the samples."""
    try:
        return collation.quietly(samples)
    except StopIteration as error:
        raise FeedError(f"collate raised StopIteration for {_named(numbers)}") from error
    except Exception as error:
        error.add_note(f"raised while {_named(numbers)} were put together to a batch")
        raise


def _named(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:_MOST_NAMED]))
    more = f", ... {len(numbers)} in all" if len(numbers) > _MOST_NAMED else ""
    return f"the samples {shown}{more} of the dataset"


class ThreadBatches:
    """Makes batches of transformed samples on `threads` threads; the one that asks is one of them.

    `fetch` gives the samples of some numbers and seeds, decoded; it does so on threads of its own.
    """

    def __init__(
        self, fetch: Fetch, transform: Callable[..., Any] | None, collation: Collation, threads: int = 1
    ) -> None:
        self.threads = threads
        self._fetch = fetch
        self._transform = SampleTransform(transform)
        self._collation = collation
        self._is_stopped = False
        self._helpers = ThreadPoolExecutor(threads - 1, "cordwood-sample") if threads > 1 else None

    def batch(self, numbers: Numbers, seeds: Seeds) -> Any:
        """The batch of these samples, each with its seed."""
        samples = self._transformed(self._fetch(numbers, seeds), numbers.tolist(), seeds.tolist())
        batch, remarks = collated(self._collation, samples, numbers.tolist())
        self._collation.tell(remarks)
        return batch

    def _transformed(self, samples: list[Any], numbers: list[int], seeds: list[int]) -> list[Any]:
        if self._transform.function is None:
            return samples
        turns = deque(enumerate(zip(samples, numbers, seeds, strict=True)))
        results: list[Any] = [None] * len(turns)
        failed: list[tuple[int, BaseException]] = []
        helping: list[Future[None]] = []
        try:
            if self._helpers is not None:
                helpers = min(self.threads, len(turns)) - 1
                helping = [self._helpers.submit(self._take_turns, turns, results, failed) for _ in range(helpers)]
            self._take_turns(turns, results, failed)
        finally:
            turns.clear()
            wait(helping)
        if failed:
            # Turns are taken in order, so none before the first that failed was left out: it is always the same one.
            first = min(failed, key=lambda one: one[0])[1]
            try:
                raise first
            finally:
                failed.clear()
                del first  # tracebacks hold this frame and those of the helpers
        if self._is_stopped:
            raise FeedError("the iteration was closed while samples were transformed")
        return results

    def _take_turns(
        self, turns: deque[tuple[int, Any]], results: list[Any], failed: list[tuple[int, BaseException]]
    ) -> None:
        """Work on what is left; after a failure nothing is."""
        while turns and not self._is_stopped:
            try:
                position, (sample, number, seed) = turns.popleft()
            except IndexError:  # another thread took the last one
                return
            try:
                results[position] = self._transform(sample, number, seed)
            except BaseException as error:
                turns.clear()
                failed.append((position, error))

    def stop(self) -> None:
        """Begin no more samples, of a batch that is under way either; from any thread."""
        self._is_stopped = True

    def close(self) -> None:
        """End the threads; no batch is under way."""
        if self._helpers is not None:
            self._helpers.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
