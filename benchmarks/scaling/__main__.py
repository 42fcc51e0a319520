"""How cost grows: with the number of samples, their size, the batch and the threads; warm and cold, as curves.

    cordwood bench scaling                   # all of it: writes benchmarks/results/scaling.json, the page, its charts
    cordwood bench scaling --quick           # a look in a minute or two; writes nothing unless told where
    cordwood bench scaling --only batches    # parts whose title contains the word

Nothing here is judged: the curves are there to be looked at, beside what the machine itself can do.
"""

import sys
from collections.abc import Sequence

from benchmarks.harness import suite
from benchmarks.scaling import batch_rows, sample_rows, size_rows, thread_rows

SUITE = suite.Suite("scaling", __doc__, (sample_rows, size_rows, batch_rows, thread_rows))


def main(argv: Sequence[str] | None = None) -> int:
    """0, or 1 if a result was wrong, 2 for wrong use."""
    return suite.main(SUITE, argv)


if __name__ == "__main__":
    sys.exit(main())
