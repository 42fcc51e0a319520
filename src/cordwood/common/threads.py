"""Work for several threads, which is done also where the interpreter has no more threads to give.

for piece in map_in_threads(compress, chunks, threads=2):
    file.write(piece)
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def map_in_threads(function: Callable[[T], R], items: Sequence[T], threads: int) -> Iterator[R]:
    """The results in the order of the items.

    At its end, in functions of ``atexit`` and in threads that outlive the main one, the interpreter starts no threads.
    What no thread takes is done here then.
    """
    if threads < 2 or len(items) < 2:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(min(threads, len(items))) as pool:
        taken: list[Future[R]] = []
        try:
            for item in items:
                taken.append(pool.submit(function, item))
        except RuntimeError:
            pass
        try:
            yield from (future.result() for future in taken)
        finally:
            for future in taken:
                future.cancel()
    yield from map(function, items[len(taken) :])
